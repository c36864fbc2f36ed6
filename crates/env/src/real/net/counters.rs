//! Counters of the network between nodes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start. The counters are not updated atomically together.
#[derive(Debug, Default)]
pub struct Counters {
    refused: AtomicU64,
    bad_datagrams: AtomicU64,
    unsent_datagrams: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

impl Counters {
    /// Connections refused: another secret or version, not a node, too slow, or too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Datagrams rejected: another secret or version, or not from a node.
    #[must_use]
    pub fn bad_datagrams(&self) -> u64 {
        self.bad_datagrams.load(Ordering::Relaxed)
    }

    /// Datagrams not sent: too long, no route, or no buffer space.
    #[must_use]
    pub fn unsent_datagrams(&self) -> u64 {
        self.unsent_datagrams.load(Ordering::Relaxed)
    }

    /// Bytes received in datagrams and connections, including encryption.
    #[must_use]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes sent in datagrams and connections, including encryption.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    /// Connections accepted from other nodes.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Accepted connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        // Read before `accepted`, so that the difference is never negative.
        let closed = self.closed.load(Ordering::Acquire);
        self.accepted().saturating_sub(closed)
    }

    pub(super) fn count_refused_connection(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_bad_datagram(&self) {
        self.bad_datagrams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unsent_datagram(&self) {
        self.unsent_datagrams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_bytes_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_bytes_out(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_opened_connection(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_closed_connection(&self) {
        self.closed.fetch_add(1, Ordering::Release);
    }
}
