//! `bucksaw forward`.

use std::process::Command;

use super::agent_start::AgentStart;
use crate::edge::load::LineDelivery;

pub(super) fn command(start: &AgentStart<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(start.program);
    command.args(["forward", "--to", start.node.address("fast")?, "--state-dir"]).arg(start.home.join("state"));
    match start.delivery {
        LineDelivery::Tail => command.args(["--format", "docker"]).arg(start.pattern()),
        LineDelivery::Push => command.arg("--listen-fluent").arg(format!("127.0.0.1:{}", start.port)),
    };
    Ok(command)
}
