//! Which node takes batches, and since when.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::lock;

/// The connection of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The node that accepted the connection; `None` while there is no connection.
    pub address: Option<String>,
    /// Since when that is so, as uptime.
    pub since: Duration,
    /// The number of accepted connections.
    pub connections: u64,
}

/// Notes connections as they begin and end.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTracker(Mutex<ConnectionStatus>);

impl ConnectionTracker {
    fn state(&self) -> MutexGuard<'_, ConnectionStatus> {
        lock(&self.0)
    }

    /// Notes that the agent looks for a node from now on.
    pub(crate) fn start(&self, now: Duration) {
        self.state().since = now;
    }

    pub(crate) fn connected(&self, address: &str, now: Duration) {
        let mut state = self.state();
        *state = ConnectionStatus { address: Some(address.to_owned()), since: now, connections: state.connections + 1 };
    }

    pub(crate) fn ended(&self, now: Duration) {
        let mut state = self.state();
        (state.address, state.since) = (None, now);
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        self.state().clone()
    }
}
