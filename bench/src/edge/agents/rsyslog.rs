//! rsyslog.

use std::process::Command;

use super::agent_start::{AgentStart, port_of};
use crate::edge::load::LineDelivery;

pub(super) fn command(start: &AgentStart<'_>, to_node: bool) -> anyhow::Result<Command> {
    let home = start.home.display();
    let input = match start.delivery {
        LineDelivery::Tail => format!(
            "module(load=\"imfile\" mode=\"inotify\")\ninput(type=\"imfile\" File=\"{}\" Tag=\"edge\")\n",
            start.pattern()
        ),
        LineDelivery::Push => {
            format!("module(load=\"imtcp\")\ninput(type=\"imtcp\" Address=\"127.0.0.1\" Port=\"{}\")\n", start.port)
        }
    };
    let output = if to_node {
        let port = port_of(start.node.address("syslog")?);
        format!(
            "action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{port}\" protocol=\"tcp\" TCP_Framing=\"octet-counted\" \
             template=\"RSYSLOG_SyslogProtocol23Format\" action.resumeRetryCount=\"-1\")\n"
        )
    } else {
        "action(type=\"omfile\" file=\"/dev/null\")\n".to_owned()
    };
    let global = format!("global(workDirectory=\"{home}\" net.enableDNS=\"off\" maxMessageSize=\"64k\")\n");
    let config = start.write("rsyslog.conf", &format!("{global}{input}{output}"))?;
    let mut command = Command::new(start.program);
    command.args(["-n", "-i"]).arg(start.home.join("pid")).arg("-f").arg(config);
    Ok(command)
}
