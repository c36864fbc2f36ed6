//! The listener with the metrics and the state of an agent.

use bucksaw_env::Env;
use bucksaw_forward::{AgentInfo, AgentMonitor, serve_status};
use bucksaw_sources::{Acceptor, ListenerTls};
use bucksaw_tls::AppProtocol;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tracing::info;

use crate::bind::bind;
use crate::open_listeners::{self, Lacking, OpenListener};
use crate::values::{ListenAddress, machine_name};

/// What this agent reports about itself.
pub(super) fn agent_info() -> AgentInfo {
    AgentInfo { host: machine_name(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// Serves them until the stop, if an address is given.
pub(super) async fn start(
    (listen, is_insecure_accepted): (&ListenAddress, bool),
    tls: Option<ListenerTls>,
    monitor: &AgentMonitor,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = bind("--listen", listen).await? else { return Ok(()) };
    let address = listener.local_addr()?;
    let open = OpenListener::new("status", "--listen", address, "read the paths of files and the state of the agent");
    let open = open.filter(|_| !tls.as_ref().is_some_and(|tls| tls.server.authenticates_clients()));
    open_listeners::check(open.as_slice(), is_insecure_accepted, Lacking::AgentAuthentication)?;
    info!(%address, "metrics and status");
    let acceptor = Acceptor::new(listener, Env::real().clock, Counter::default()).with_tls(tls, AppProtocol::Http);
    tokio::spawn(serve_status(acceptor, monitor.clone(), agent_info(), stop));
    Ok(())
}
