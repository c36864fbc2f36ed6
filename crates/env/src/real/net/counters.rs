//! Counters of the network between nodes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that is read without a lock.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Counts since the start. They are not updated atomically together.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections refused: another secret or version, not a node, too slow, or too many.
    pub refused: Counter,
    /// Datagrams rejected: another secret or version, or not from a node.
    pub bad_datagrams: Counter,
    /// Datagrams not sent: too long, no route, or no buffer space.
    pub unsent_datagrams: Counter,
    /// Bytes received in datagrams and connections, including encryption.
    pub bytes_in: Counter,
    /// Bytes sent in datagrams and connections, including encryption.
    pub bytes_out: Counter,
    /// Connections accepted from other nodes.
    pub accepted: Counter,
    /// Accepted connections that are open.
    pub connections: Counter,
}
