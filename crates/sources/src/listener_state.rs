//! What the connections of one listener share: where records go, and the sums that bound their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bucksaw_env::LogRateLimiter;
use bucksaw_ingest::Durability;
use bucksaw_ingest::load_shedder::{ConnectionGuard, ListenerKind, LoadShedder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::intake::Intake;
use crate::metrics::{ByDurability, Metrics};

/// What the TCP listeners of a node have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TcpIntake {
    /// Where records are appended.
    pub intake: Intake,
    /// The settings.
    pub config: Config,
    /// The metrics.
    pub metrics: Metrics,
    /// The connections of all listeners together.
    pub slots: ConnectionSlots,
}

/// How many connections several listeners may hold together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    free: Arc<Semaphore>,
    capacity: usize,
    /// As many may be taken now.
    limit: Arc<AtomicUsize>,
}

impl ConnectionSlots {
    /// At most so many.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let all = capacity.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(all)), capacity: all, limit: Arc::new(AtomicUsize::new(all)) }
    }

    /// Lowers or raises the number of slots to `most`, up to the number at the start. Open connections keep their slots.
    pub fn limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many are taken.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.capacity.saturating_sub(self.free.available_permits())
    }

    /// One of them, if one is free.
    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.free).try_acquire_owned().ok()?;
        (self.in_use() <= self.limit.load(Ordering::Relaxed)).then_some(slot)
    }
}

/// The errors of a listener that many connections have, or that one connection repeats. Each is logged at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct ListenerLogLimiters {
    pub(crate) accept: LogRateLimiter,
    pub(crate) connection_limit: LogRateLimiter,
    pub(crate) http: LogRateLimiter,
    pub(crate) labels: LogRateLimiter,
    pub(crate) protocol: LogRateLimiter,
    pub(crate) dropped_lines: LogRateLimiter,
}

/// A carried line shorter than this is not cut for want of memory, in bytes.
const PARTIAL_BYTES_MIN: usize = 4 << 10;

/// Shared by the connections of one listener.
pub(crate) struct ListenerState {
    pub(crate) intake: Intake,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) slots: ConnectionSlots,
    pub(crate) durability: Durability,
    connections: AtomicUsize,
    /// Bytes that all connections carry.
    partial_bytes: AtomicUsize,
    /// Connections that hold what the queue refused.
    blocked_connections: AtomicUsize,
    /// Set when a connection gave up after the stop: what the queue did not take then it will not take from others.
    has_given_up: AtomicBool,
    /// Bytes that unfinished frames may take.
    pub(crate) frame_bytes: Semaphore,
    pub(crate) log_limiters: ListenerLogLimiters,
}

impl ListenerState {
    pub(crate) fn new(durability: Durability, tcp: TcpIntake) -> Self {
        let TcpIntake { intake, config, metrics, slots } = tcp;
        let frame_bytes = Semaphore::new(config.partial_bytes_max.clamp(1, Semaphore::MAX_PERMITS));
        let zero = AtomicUsize::default;
        let (connections, partial_bytes, blocked_connections) = (zero(), zero(), zero());
        let (has_given_up, log_limiters) = (AtomicBool::new(false), ListenerLogLimiters::default());
        Self {
            intake,
            config,
            metrics,
            slots,
            durability,
            connections,
            partial_bytes,
            blocked_connections,
            has_given_up,
            frame_bytes,
            log_limiters,
        }
    }

    /// What clients are told when others have less to do.
    pub(crate) fn load_shedder(&self) -> &LoadShedder {
        self.intake.queue.load_shedder()
    }

    /// The kind of port that this is.
    pub(crate) fn port(&self) -> ListenerKind {
        ListenerKind::Tcp(self.durability)
    }

    /// How many lines of a kind were suppressed, when one may be logged now.
    pub(crate) fn may_log(&self, error: fn(&ListenerLogLimiters) -> &LogRateLimiter) -> Option<u64> {
        error(&self.log_limiters).check(self.intake.env.clock.uptime())
    }

    /// Whether nothing should be read because the queue would not take it. Asked right before reading, with no await
    /// between that and the append, so at most one chunk a thread is read in vain.
    pub(crate) fn is_refusing(&self) -> bool {
        self.has_given_up() || self.blocked_connections.load(Ordering::Relaxed) > 0
    }

    /// Whether nothing will be taken before a node that stops is gone.
    pub(crate) fn has_given_up(&self) -> bool {
        self.intake.queue.is_halted() || self.has_given_up.load(Ordering::Relaxed)
    }

    /// A connection gave up after the stop.
    pub(crate) fn set_given_up(&self) {
        self.has_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether a connection that carries so much should give it away: together they carry too much, and it carries more
    /// than its share.
    pub(crate) fn exceeds_memory_share(&self, carried: usize) -> bool {
        let max = self.config.partial_bytes_max;
        let share = max / self.connections.load(Ordering::Relaxed).max(1);
        self.partial_bytes.load(Ordering::Relaxed) > max && carried > share.max(PARTIAL_BYTES_MIN)
    }
}

/// Counts a connection for as long as it is open.
pub(crate) struct ListenerConnection<'a> {
    shared: &'a ListenerState,
    _connected: ConnectionGuard<'a>,
}

impl<'a> ListenerConnection<'a> {
    pub(crate) fn new(shared: &'a ListenerState) -> Self {
        let by = ByDurability { durability: shared.durability.name() };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        shared.metrics.connections.get_or_create(&by).inc();
        shared.metrics.opened.get_or_create(&by).inc();
        Self { shared, _connected: shared.load_shedder().count_connection() }
    }
}

impl Drop for ListenerConnection<'_> {
    fn drop(&mut self) {
        let by = ByDurability { durability: self.shared.durability.name() };
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.metrics.connections.get_or_create(&by).dec();
    }
}

/// What one connection carries, as a part of the sum.
pub(crate) struct CarriedBytesGuard {
    shared: Arc<ListenerState>,
    bytes: usize,
}

impl CarriedBytesGuard {
    pub(crate) fn new(shared: &Arc<ListenerState>) -> Self {
        Self { shared: Arc::clone(shared), bytes: 0 }
    }

    pub(crate) fn set(&mut self, bytes: usize) {
        // First the greater side of the difference, so that the sum never goes below zero.
        self.shared.partial_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.partial_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for CarriedBytesGuard {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Says for as long as it lives that a connection holds what the queue refused.
pub(crate) struct BlockedGuard(Arc<ListenerState>);

impl BlockedGuard {
    pub(crate) fn new(shared: &Arc<ListenerState>) -> Self {
        shared.blocked_connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for BlockedGuard {
    fn drop(&mut self) {
        self.0.blocked_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_limit_can_be_lowered_and_raised() {
        let slots = ConnectionSlots::new(3);
        let first = slots.try_acquire();
        let second = slots.try_acquire();
        assert!(first.is_some() && second.is_some());
        slots.limit(1);
        assert!(slots.try_acquire().is_none() && slots.in_use() == 2, "who is there stays");
        drop(first);
        assert!(slots.try_acquire().is_none());
        slots.limit(9);
        let more = [slots.try_acquire(), slots.try_acquire(), slots.try_acquire()];
        assert_eq!((more.iter().flatten().count(), slots.in_use()), (2, 3));
        drop(second);
    }
}
