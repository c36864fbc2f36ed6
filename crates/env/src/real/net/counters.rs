//! What the network counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start. They tell, and nothing waits on them, so they are not exact to each other.
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
    /// Connections by others that were refused: another secret, another version, no node, too slow, too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Datagrams that did not open: another secret, another version, or not from a node.
    #[must_use]
    pub fn bad_datagrams(&self) -> u64 {
        self.bad_datagrams.load(Ordering::Relaxed)
    }

    /// Datagrams that were lost before they left: too long, no way there, or no room.
    #[must_use]
    pub fn unsent_datagrams(&self) -> u64 {
        self.unsent_datagrams.load(Ordering::Relaxed)
    }

    /// Bytes received, in datagrams and connections, as they come over the network.
    #[must_use]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes sent, in datagrams and connections, as they go over the network.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    /// Connections by others that were accepted and not refused.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Those of them that are open now.
    #[must_use]
    pub fn connections(&self) -> u64 {
        // In this order it is never below nothing.
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
