//! Fluent Bit.

use std::process::Command;

use super::agent_start::{AgentStart, port_of};
use crate::edge::load::LineDelivery;

const PARSERS: &str = "[PARSER]
    Name docker
    Format json
    Time_Key time
    Time_Format %Y-%m-%dT%H:%M:%S.%L%z
";

pub(super) fn command(start: &AgentStart<'_>, decodes: bool, to_node: bool) -> anyhow::Result<Command> {
    let input = match start.delivery {
        LineDelivery::Tail => {
            let parser = if decodes { "    Parser docker\n" } else { "" };
            format!(
                "    Name tail\n    Path {}\n    Read_from_Head on\n    Refresh_Interval 1\n{parser}",
                start.pattern()
            )
        }
        LineDelivery::Push => format!("    Name forward\n    Listen 127.0.0.1\n    Port {}\n", start.port),
    };
    let output = if to_node {
        let port = port_of(start.node.address("fluent")?);
        format!("    Name forward\n    Match *\n    Host 127.0.0.1\n    Port {port}\n    Require_ack_response on\n")
    } else {
        "    Name null\n    Match *\n".to_owned()
    };
    let config = format!("[SERVICE]\n    Flush 1\n    Log_Level error\n[INPUT]\n{input}[OUTPUT]\n{output}");
    let (config, parsers) = (start.write("fluent-bit.conf", &config)?, start.write("parsers.conf", PARSERS)?);
    let mut command = Command::new(start.program);
    command.arg("--config").arg(config).arg("--parser").arg(parsers);
    Ok(command)
}
