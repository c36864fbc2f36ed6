//! Connections that are kept for the next call.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Shared;
use super::pieces::Outgoing;

/// A connection to another node. Dropping it closes it, whatever it carries.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Outgoing>,
    _task: Task<()>,
}

impl Connection {
    /// `task` moves its bytes.
    pub(super) fn new(sender: SendRequest<Outgoing>, task: JoinHandle<()>) -> Self {
        Self { sender, _task: Task::new(task) }
    }
}

/// A task that ends when nobody waits for it.
#[derive(Debug)]
pub(super) struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }
}

impl<T> Task<io::Result<T>> {
    pub(super) async fn join(mut self) -> io::Result<T> {
        (&mut self.0).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    idle_max: Duration,
    /// To each node.
    connections_max: usize,
    /// Those used last come last. A node that has none has no entry.
    idle: Mutex<BTreeMap<SocketAddr, Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(idle_max: Duration, connections_max: usize) -> Self {
        Self { idle_max, connections_max, idle: Mutex::default() }
    }

    /// The connection that was used last, as far as can be known still good.
    pub(super) fn take(&self, to: SocketAddr) -> Option<Connection> {
        let mut idle = self.lock();
        let found = std::iter::from_fn(|| idle.get_mut(&to)?.pop()).find(|idle| self.is_good(idle));
        if idle.get(&to).is_some_and(Vec::is_empty) {
            idle.remove(&to);
        }
        found.map(|idle| idle.connection)
    }

    /// Keeps a connection that waits for its next request.
    pub(super) fn put(&self, to: SocketAddr, connection: Connection) {
        let mut idle = self.lock();
        let kept = idle.entry(to).or_default();
        kept.push(Idle { connection, since: Instant::now() });
        if kept.len() > self.connections_max {
            kept.remove(0);
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn tidy(&self) {
        self.lock().retain(|_, kept| {
            kept.retain(|idle| self.is_good(idle));
            !kept.is_empty()
        });
    }

    fn is_good(&self, idle: &Idle) -> bool {
        idle.connection.sender.is_ready() && idle.since.elapsed() < self.idle_max
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody has used for long.
pub(super) async fn tidy(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.config.idle_max / 4).await;
        shared.pool.tidy();
    }
}
