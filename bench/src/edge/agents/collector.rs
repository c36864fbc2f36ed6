//! The OpenTelemetry Collector.

use std::process::Command;

use super::agent_start::AgentStart;

pub(super) fn command(start: &AgentStart<'_>) -> anyhow::Result<Command> {
    let config = format!(
        "receivers:
  filelog:
    include: ['{files}']
    start_at: beginning
    operators:
      - {{type: container, format: docker, add_metadata_from_filepath: false}}
exporters:
  otlp:
    endpoint: {node}
    tls: {{insecure: true}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines:
    logs: {{receivers: [filelog], exporters: [otlp]}}
",
        files = start.pattern(),
        node = start.node.address("otlp")?,
    );
    let mut command = Command::new(start.program);
    command.arg("--config").arg(start.write("collector.yaml", &config)?);
    Ok(command)
}
