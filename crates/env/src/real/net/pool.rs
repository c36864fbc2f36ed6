//! Connections that are kept for the next call.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::NetContext;
use super::hyper_body::OutgoingBody;

/// A connection to another node. Dropping it closes it, whatever it carries.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<OutgoingBody>,
    _task: AbortOnDrop<()>,
}

impl Connection {
    /// `task` moves its bytes.
    pub(super) fn new(sender: SendRequest<OutgoingBody>, task: JoinHandle<()>) -> Self {
        Self { sender, _task: AbortOnDrop::new(task) }
    }
}

/// A task that ends when nobody waits for it.
#[derive(Debug)]
pub(super) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }
}

impl<T> AbortOnDrop<io::Result<T>> {
    pub(super) async fn join(mut self) -> io::Result<T> {
        (&mut self.0).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
pub(super) struct ConnectionPool {
    idle_max: Duration,
    /// To each node.
    connections_max: usize,
    /// Those used last come last. A node that has none has no entry.
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

    /// The connection that was used last, as far as can be known still good.
    pub(super) fn take(&self, to: SocketAddr) -> Option<Connection> {
        let mut idle = self.lock();
        let found = std::iter::from_fn(|| idle.get_mut(&to)?.pop()).find(|idle| self.is_usable(idle));
        if idle.get(&to).is_some_and(Vec::is_empty) {
            idle.remove(&to);
        }
        found.map(|idle| idle.connection)
    }

    /// Keeps a connection that waits for its next request.
    pub(super) fn put(&self, to: SocketAddr, connection: Connection) {
        let mut idle = self.lock();
        let kept = idle.entry(to).or_default();
        kept.push(IdleConnection { connection, since: Instant::now() });
        if kept.len() > self.connections_max {
            kept.remove(0);
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn remove_expired(&self) {
        self.lock().retain(|_, kept| {
            kept.retain(|idle| self.is_usable(idle));
            !kept.is_empty()
        });
    }

    fn is_usable(&self, idle: &IdleConnection) -> bool {
        idle.connection.sender.is_ready() && idle.since.elapsed() < self.idle_max
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Vec<IdleConnection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody has used for long.
pub(super) async fn remove_expired_periodically(shared: Arc<NetContext>) {
    loop {
        tokio::time::sleep(shared.config.idle_max / 4).await;
        shared.pool.remove_expired();
    }
}
