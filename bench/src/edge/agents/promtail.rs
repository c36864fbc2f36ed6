//! promtail.

use std::process::Command;

use super::agent_start::AgentStart;

pub(super) fn command(start: &AgentStart<'_>) -> anyhow::Result<Command> {
    let (home, node, files) = (start.home.display(), start.node.address("http")?, start.pattern());
    let config = format!(
        "server: {{http_listen_address: 127.0.0.1, http_listen_port: 0, grpc_listen_port: 0, log_level: error}}
positions: {{filename: {home}/positions.yaml}}
clients:
  - url: http://{node}/loki/api/v1/push
scrape_configs:
  - job_name: edge
    static_configs:
      - labels: {{job: edge, __path__: '{files}'}}
    pipeline_stages:
      - docker: {{}}
"
    );
    let mut command = Command::new(start.program);
    command.arg("-config.file").arg(start.write("promtail.yaml", &config)?);
    Ok(command)
}
