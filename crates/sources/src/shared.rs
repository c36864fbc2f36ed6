//! What the connections of one listener share: where records go, and the sums that bound their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bucksaw_doors::{Doors, Repeats};
use bucksaw_ingest::guide::{Connected, Guide, Port};
use bucksaw_ingest::{Durability, Queue};
use bucksaw_record::{Millis, Producer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::metrics::{ByDurability, Metrics};

/// Where records go, by which rules. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Takes the records.
    pub queue: Arc<Queue>,
    /// The rules.
    pub config: Config,
    /// Time and randomness.
    pub doors: Doors,
    /// The counters, the same for all listeners.
    pub metrics: Metrics,
    /// Connections of all listeners that share it.
    pub slots: Slots,
}

/// How many connections several listeners may hold together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Slots {
    free: Arc<Semaphore>,
    all: usize,
    /// As many may be taken now.
    most: Arc<AtomicUsize>,
}

impl Slots {
    /// At most so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let all = most.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(all)), all, most: Arc::new(AtomicUsize::new(all)) }
    }

    /// Lowers or raises the number of slots to `most`, up to the number at the start. Open connections keep their slots.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// One of them, if one is free.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.free).try_acquire_owned().ok()?;
        (self.taken() <= self.most.load(Ordering::Relaxed)).then_some(slot)
    }
}

/// The errors of a listener that many connections have, or that one connection repeats. Each is logged at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) accept: Repeats,
    pub(crate) crowded: Repeats,
    pub(crate) http: Repeats,
    pub(crate) labels: Repeats,
    pub(crate) protocol: Repeats,
    pub(crate) lost: Repeats,
}

/// A carried line shorter than this is not cut for want of memory, in bytes.
const PARTIAL_BYTES_LEAST: usize = 4 << 10;

/// Shared by the connections of one listener.
pub(crate) struct Shared {
    pub(crate) intake: Intake,
    pub(crate) durability: Durability,
    connections: AtomicUsize,
    /// Bytes that all connections carry.
    partial_bytes: AtomicUsize,
    /// Connections that hold what the queue refused.
    holding: AtomicUsize,
    /// Set when a connection gave up after the stop: what the queue did not take then it will not take from others.
    hopeless: AtomicBool,
    /// Bytes that unfinished frames may take.
    pub(crate) frame_bytes: Semaphore,
    pub(crate) errors: Errors,
}

impl Shared {
    pub(crate) fn new(durability: Durability, intake: Intake) -> Self {
        let frame_bytes = Semaphore::new(intake.config.partial_bytes_max.clamp(1, Semaphore::MAX_PERMITS));
        let zero = AtomicUsize::default;
        let (connections, partial_bytes, holding) = (zero(), zero(), zero());
        let (hopeless, errors) = (AtomicBool::new(false), Errors::default());
        Self { intake, durability, connections, partial_bytes, holding, hopeless, frame_bytes, errors }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.intake.doors.clock.unix_ms()).min(Millis::MAX)
    }

    /// What clients are told when others have less to do.
    pub(crate) fn guide(&self) -> &Guide {
        self.intake.queue.guide()
    }

    /// The kind of port that this is.
    pub(crate) fn port(&self) -> Port {
        Port::Tcp(self.durability)
    }

    pub(crate) fn new_producer(&self) -> Producer {
        Producer::drawn(self.intake.doors.entropy.next_u64())
    }

    /// How many lines of a kind were suppressed, when one may be logged now.
    pub(crate) fn may_log(&self, error: fn(&Errors) -> &Repeats) -> Option<u64> {
        error(&self.errors).pass(self.intake.doors.clock.uptime())
    }

    /// Whether nothing should be read because the queue would not take it. Asked right before reading, with no await
    /// between that and the append, so at most one chunk a thread is read in vain.
    pub(crate) fn is_refusing(&self) -> bool {
        self.is_hopeless() || self.holding.load(Ordering::Relaxed) > 0
    }

    /// Whether nothing will be taken before a node that stops is gone.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.intake.queue.is_halted() || self.hopeless.load(Ordering::Relaxed)
    }

    /// A connection gave up after the stop.
    pub(crate) fn give_up(&self) {
        self.hopeless.store(true, Ordering::Relaxed);
    }

    /// Whether a connection that carries so much should give it away: together they carry too much, and it carries more
    /// than its share.
    pub(crate) fn wants_back(&self, carried: usize) -> bool {
        let max = self.intake.config.partial_bytes_max;
        let share = max / self.connections.load(Ordering::Relaxed).max(1);
        self.partial_bytes.load(Ordering::Relaxed) > max && carried > share.max(PARTIAL_BYTES_LEAST)
    }
}

/// Counts a connection for as long as it is open.
pub(crate) struct Opened<'a> {
    shared: &'a Shared,
    _connected: Connected<'a>,
}

impl<'a> Opened<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        let by = ByDurability { durability: shared.durability.name() };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        shared.intake.metrics.connections.get_or_create(&by).inc();
        shared.intake.metrics.opened.get_or_create(&by).inc();
        Self { shared, _connected: shared.guide().connected() }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let by = ByDurability { durability: self.shared.durability.name() };
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        self.shared.intake.metrics.connections.get_or_create(&by).dec();
    }
}

/// What one connection carries, as a part of the sum.
pub(crate) struct Carried {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Carried {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), bytes: 0 }
    }

    pub(crate) fn set(&mut self, bytes: usize) {
        // First the greater side of the difference, so that the sum never goes below zero.
        self.shared.partial_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.partial_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Says for as long as it lives that a connection holds what the queue refused.
pub(crate) struct Holding(Arc<Shared>);

impl Holding {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        shared.holding.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.holding.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_can_be_fewer_for_a_while() {
        let slots = Slots::new(3);
        let first = slots.take();
        let second = slots.take();
        assert!(first.is_some() && second.is_some());
        slots.limit(1);
        assert!(slots.take().is_none() && slots.taken() == 2, "who is there stays");
        drop(first);
        assert!(slots.take().is_none());
        slots.limit(9);
        let more = [slots.take(), slots.take(), slots.take()];
        assert_eq!((more.iter().flatten().count(), slots.taken()), (2, 3));
        drop(second);
    }
}
