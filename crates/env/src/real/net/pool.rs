//! Connections kept for the next call.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::hyper_body::OutgoingBody;
use crate::lock;

/// A connection to another node. Dropping it closes it at once.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<OutgoingBody>,
    /// Moves the bytes; aborted when dropped.
    pub(super) _task: JoinSet<()>,
}

#[derive(Debug)]
pub(super) struct ConnectionPool {
    idle_max: Duration,
    /// Per node.
    connections_max: usize,
    /// By node, the most recently used last. No list is empty.
    idle: Mutex<BTreeMap<SocketAddr, Vec<IdleConnection>>>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl ConnectionPool {
    pub(super) fn new(idle_max: Duration, connections_max: usize) -> Self {
        Self { idle_max, connections_max, idle: Mutex::default() }
    }

    /// The most recently used connection that is not known to be closed.
    pub(super) fn take(&self, to: SocketAddr) -> Option<Connection> {
        let mut idle = self.lock();
        let found = std::iter::from_fn(|| idle.get_mut(&to)?.pop()).find(|idle| self.is_usable(idle));
        if idle.get(&to).is_some_and(Vec::is_empty) {
            idle.remove(&to);
        }
        found.map(|idle| idle.connection)
    }

    /// Keeps a connection that can carry the next call.
    pub(super) fn put(&self, to: SocketAddr, connection: Connection) {
        let mut idle = self.lock();
        let connections = idle.entry(to).or_default();
        connections.push(IdleConnection { connection, since: Instant::now() });
        if connections.len() > self.connections_max {
            connections.remove(0);
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    pub(super) fn remove_expired(&self) {
        self.lock().retain(|_, connections| {
            connections.retain(|idle| self.is_usable(idle));
            !connections.is_empty()
        });
    }

    fn is_usable(&self, idle: &IdleConnection) -> bool {
        idle.connection.sender.is_ready() && idle.since.elapsed() < self.idle_max
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Vec<IdleConnection>>> {
        lock(&self.idle)
    }
}
