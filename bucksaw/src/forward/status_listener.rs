//! The listener with the metrics and the state of an agent.

use bucksaw_forward::{AgentInfo, AgentMonitor, serve_status};
use tokio::sync::watch;
use tracing::info;

use crate::bind::bind;
use crate::open_listeners::{self, OpenListener};
use crate::values::{ListenAddress, machine_name};

/// What this agent reports about itself.
pub(super) fn agent_info() -> AgentInfo {
    AgentInfo { host: machine_name(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Serves them until the stop, if an address is given.
pub(super) async fn start(
    (listen, is_insecure_accepted): (&ListenAddress, bool),
    monitor: &AgentMonitor,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = bind("--listen", listen).await? else { return Ok(()) };
    let address = listener.local_addr()?;
    let open = OpenListener::new("status", "--listen", address, "read the paths of files and the state of the agent");
    open_listeners::check(open.as_slice(), is_insecure_accepted)?;
    info!(%address, "metrics and status");
    tokio::spawn(serve_status(listener, monitor.clone(), agent_info(), stop));
    Ok(())
}
