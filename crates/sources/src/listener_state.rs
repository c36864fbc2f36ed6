//! The state that the connections of one listener share, with the sums that limit their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bucksaw_auth::Authenticator;
use bucksaw_env::{GaugeGuard, LogLimits, log_limited};
use bucksaw_ingest::{Durability, IngestError};
use bucksaw_steering::{ListenerKind, LoadShedder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agents::AgentRegistry;
use crate::audit::AuditTrail;
use crate::config::Config;
use crate::fluent::WaitingSenders;
use crate::intake::{EventRecords, Intake};
use crate::listener_setup::ListenerSetup;
use crate::metrics::Metrics;

/// What the TCP listeners of a node share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TcpIntake {
    /// Where records are appended.
    pub intake: Intake,
    /// Decides which clients are accepted.
    pub shedder: Arc<LoadShedder>,
    /// Settings.
    pub config: Config,
    /// Metrics.
    pub metrics: Metrics,
    /// The connection slots of all listeners.
    pub slots: ConnectionSlots,
    /// The memory that all listeners share whose protocol is not lines.
    pub sender_memory: UnfinishedBytes,
    /// The agents that report to this node.
    pub agents: Arc<AgentRegistry>,
    /// Recognises clients; `None` if every client may write.
    pub authenticator: Option<Authenticator>,
    /// Where refused connections are noted; `None` without an audit trail.
    pub audit: Option<Arc<AuditTrail>>,
    /// The senders that wait for an acknowledgement.
    pub waiting_senders: WaitingSenders,
}

/// Limits the memory for messages that have arrived in part. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UnfinishedBytes {
    /// Bytes of unfinished lines and messages.
    messages: Arc<AtomicUsize>,
    /// Memory for unfinished frames, in bytes.
    frames: Arc<Semaphore>,
}

impl UnfinishedBytes {
    /// Room for the frames that a configuration allows.
    pub fn new(config: &Config) -> Self {
        let frames = config.partial_bytes_max.clamp(1, Semaphore::MAX_PERMITS);
        Self { messages: Arc::default(), frames: Arc::new(Semaphore::new(frames)) }
    }
}

/// Limits the connections of several listeners together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConnectionSlots {
    free: Arc<Semaphore>,
    capacity: usize,
    limit: Arc<AtomicUsize>,
}

impl ConnectionSlots {
    /// A limit of `capacity` connections.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(capacity)), capacity, limit: Arc::new(AtomicUsize::new(capacity)) }
    }

    /// Changes the limit, up to the initial capacity. Open connections keep their slots.
    pub fn limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The number of open connections.
    pub fn in_use(&self) -> usize {
        self.capacity.saturating_sub(self.free.available_permits())
    }

    pub(crate) fn try_acquire(&self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.free).try_acquire_owned().ok()?;
        (self.in_use() <= self.limit.load(Ordering::Relaxed)).then_some(slot)
    }
}

/// A carried line shorter than this is not cut for lack of memory, in bytes.
const PARTIAL_BYTES_MIN: usize = 4 << 10;

/// Shared by the connections of one listener.
pub(crate) struct ListenerState {
    pub(crate) intake: Intake,
    pub(crate) shedder: Arc<LoadShedder>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) slots: ConnectionSlots,
    pub(crate) agents: Arc<AgentRegistry>,
    pub(crate) authenticator: Option<Authenticator>,
    pub(crate) audit: Option<Arc<AuditTrail>>,
    pub(crate) waiting_senders: WaitingSenders,
    pub(crate) setup: ListenerSetup,
    connections: Gauge,
    opened: Counter,
    pub(crate) refused: Counter,
    unfinished: UnfinishedBytes,
    /// Connections with records that the queue refused.
    blocked_connections: Gauge,
    /// Whether a connection gave up after the stop. The queue will not accept records of other connections either.
    has_given_up: AtomicBool,
    pub(crate) log_limits: LogLimits,
}

impl ListenerState {
    pub(crate) fn new(setup: ListenerSetup, tcp: TcpIntake) -> Self {
        let TcpIntake { intake, shedder, config, metrics, slots, sender_memory, .. } = tcp;
        let TcpIntake { agents, authenticator, audit, waiting_senders, .. } = tcp;
        let by = [("listener", setup.name)];
        let unfinished = if setup.is_lines() {
            UnfinishedBytes::new(&config)
        } else {
            // So that it is 0 before the first drop.
            drop(metrics.dropped_events.get_or_create(&by));
            sender_memory
        };
        let connections = metrics.connections.get_or_create(&by).clone();
        let opened = metrics.connections_opened.get_or_create(&by).clone();
        let refused = metrics.connections_refused.get_or_create(&by).clone();
        Self {
            agents,
            authenticator,
            audit,
            waiting_senders,
            log_limits: LogLimits::new(Arc::clone(&intake.env.clock)),
            intake,
            shedder,
            config,
            slots,
            setup,
            metrics,
            connections,
            opened,
            refused,
            unfinished,
            blocked_connections: Gauge::default(),
            has_given_up: AtomicBool::new(false),
        }
    }

    pub(crate) fn port(&self) -> ListenerKind {
        match self.setup.durability {
            Durability::Fast => ListenerKind::Fast,
            Durability::Durable => ListenerKind::Durable,
            Durability::Bulk => ListenerKind::Bulk,
        }
    }

    /// Whether a client that cannot be redirected is refused.
    pub(crate) fn refuses_unredirectable(&self) -> bool {
        self.shedder.refuses_unredirectable(self.port())
    }

    /// Counts a connection while it is open.
    pub(crate) fn count_connection(&self) -> (GaugeGuard, GaugeGuard) {
        self.opened.inc();
        (GaugeGuard::new(&self.connections), self.shedder.count_connection())
    }

    /// Counts a connection while it has records that the queue refused.
    pub(crate) fn count_blocked(&self) -> GaugeGuard {
        GaugeGuard::new(&self.blocked_connections)
    }

    /// Whether connections should not be read from, because the queue would refuse the records. Checked before each read without
    /// an await before the append, so at most one chunk per thread is refused.
    pub(crate) fn is_refusing(&self) -> bool {
        self.has_given_up() || self.blocked_connections.get() > 0
    }

    /// Whether the queue accepts no records until a stopping node has ended.
    pub(crate) fn has_given_up(&self) -> bool {
        self.intake.queue.is_halted() || self.has_given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_given_up(&self) {
        self.has_given_up.store(true, Ordering::Relaxed);
    }

    /// Memory for unfinished frames, in bytes.
    pub(crate) fn frame_bytes(&self) -> &Semaphore {
        &self.unfinished.frames
    }

    /// Counts and logs records that are dropped with their connection.
    pub(crate) fn count_dropped(&self, records: &EventRecords, reason: &IngestError) {
        let (listener, count) = (self.setup.name, records.retained_records());
        self.metrics.dropped_events.get_or_create(&[("listener", listener)]).inc_by(count);
        log_limited!(self.log_limits, error, listener, records = count, %reason, "last records dropped: the queue refuses them");
    }

    /// Whether a connection must append its unfinished line of this length: all connections exceed their memory, and this one its
    /// share.
    pub(crate) fn exceeds_memory_share(&self, carried: usize) -> bool {
        let max = self.config.partial_bytes_max;
        let share = max / usize::try_from(self.connections.get()).unwrap_or(1).max(1);
        self.unfinished.messages.load(Ordering::Relaxed) > max && carried > share.max(PARTIAL_BYTES_MIN)
    }
}

/// The unfinished bytes of one connection, as a part of the sum.
pub(crate) struct CarriedBytesGuard {
    shared: Arc<ListenerState>,
    bytes: usize,
}

impl CarriedBytesGuard {
    pub(crate) fn new(shared: &Arc<ListenerState>) -> Self {
        Self { shared: Arc::clone(shared), bytes: 0 }
    }

    pub(crate) fn set(&mut self, bytes: usize) {
        // Added before the subtraction, so that the sum does not wrap below zero.
        self.shared.unfinished.messages.fetch_add(bytes, Ordering::Relaxed);
        self.shared.unfinished.messages.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for CarriedBytesGuard {
    fn drop(&mut self) {
        self.set(0);
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
        assert!(slots.try_acquire().is_none() && slots.in_use() == 2, "open connections keep their slots");
        drop(first);
        assert!(slots.try_acquire().is_none());
        slots.limit(9);
        let more = [slots.try_acquire(), slots.try_acquire(), slots.try_acquire()];
        assert_eq!((more.iter().flatten().count(), slots.in_use()), (2, 3));
        drop(second);
    }
}
