//! The metrics of the queue.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::append::Source;
use crate::halt_reason::HaltReason;
use crate::segment::SegmentState;

/// The state of quarantined files.
pub(crate) const DAMAGED: &str = "damaged";

/// A label name and its value.
type Label = [(&'static str, &'static str); 1];

/// Counters and gauges of the queue.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) accepted_records: Family<Label, Counter>,
    pub(crate) accepted_bytes: Family<Label, Counter>,
    /// Records refused as bad input, by [`Source::label`].
    pub rejected_records: Family<Label, Counter>,
    /// Records cut because they were too long, by source.
    pub cut_records: Family<Label, Counter>,
    /// Times too far ahead, replaced by the arrival time, by source.
    pub times_replaced: Family<Label, Counter>,
    pub(crate) refused_appends: Counter,
    pub(crate) segments: Family<Label, Gauge>,
    pub(crate) pending_bytes: Gauge,
    pub(crate) oldest_pending_seconds: Gauge<f64, AtomicU64>,
    pub(crate) expired_leases: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) consumed_bytes: Counter,
    pub(crate) consumed_ratio: Gauge<f64, AtomicU64>,
    pub(crate) syncs: Counter,
    pub(crate) sync_failed: Counter,
    pub(crate) sync_seconds: Histogram,
    pub(crate) free_bytes: Gauge,
    pub(crate) damaged_keys: Gauge,
    pub(crate) disk_full: Gauge,
    pub(crate) index_bytes: Gauge,
    pub(crate) halted: Family<Label, Gauge>,
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Registers the queue's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
            register(registry, name, help, M::default())
        }
        let ingest = registry.sub_registry_with_prefix("ingest");
        let buckets = exponential_buckets(0.000_5, 2.0, 14);
        let metrics = Self {
            accepted_records: add(ingest, "records", "Records accepted"),
            accepted_bytes: add(ingest, "bytes", "Bytes of record text accepted, line ends included"),
            rejected_records: add(ingest, "rejected_records", "Records refused as bad input"),
            cut_records: add(ingest, "cut_records", "Records cut because they were too long"),
            times_replaced: add(ingest, "times_replaced", "Times too far ahead, replaced by the arrival time"),
            refused_appends: add(
                ingest,
                "refused_appends",
                "Appends refused: disk full, overload, shutdown, write errors",
            ),
            segments: add(ingest, "segments", "Segments of the queue by state"),
            pending_bytes: add(ingest, "pending_bytes", "Bytes of segments that wait for a store"),
            oldest_pending_seconds: add(
                ingest,
                "oldest_pending_seconds",
                "Age of the oldest segment that waits for a store",
            ),
            expired_leases: add(
                ingest,
                "expired_leases",
                "Segments whose lease expired before their store acknowledged them",
            ),
            sent_bytes: add(ingest, "sent_bytes", "Bytes of segment files sent to other stores"),
            consumed_bytes: add(ingest, "consumed_bytes", "Bytes of record text that a store has committed"),
            consumed_ratio: add(
                ingest,
                "consumed_ratio",
                "Bytes consumed by a store over bytes accepted, since the start",
            ),
            syncs: add(ingest, "syncs", "Group commits"),
            sync_failed: add(
                ingest,
                "sync_failed",
                "Group commits that failed; the records were written again elsewhere",
            ),
            sync_seconds: register(ingest, "sync_seconds", "Time that a group commit took", Histogram::new(buckets)),
            damaged_keys: add(
                ingest,
                "damaged_keys",
                "Idempotency keys lost to damage; for a day, or until the next start",
            ),
            index_bytes: add(ingest, "index_bytes", "Memory of the index of queue segments"),
            halted: add(ingest, "halted", "1 while nothing is accepted, by reason"),
            free_bytes: add(registry, "disk_free_bytes", "Free bytes on the file system of the data directory"),
            disk_full: add(registry, "disk_full", "1 while nothing is accepted because the disk is full"),
        };
        // A metric of which no event has happened is exported as 0.
        for reason in HaltReason::NAMES {
            drop(metrics.halted.get_or_create(&[("reason", reason)]));
        }
        for source in Source::ALL {
            for family in [
                &metrics.accepted_records,
                &metrics.accepted_bytes,
                &metrics.rejected_records,
                &metrics.cut_records,
                &metrics.times_replaced,
            ] {
                drop(family.get_or_create(&source.label()));
            }
        }
        for state in SegmentState::ALL.map(SegmentState::name).into_iter().chain([DAMAGED]) {
            drop(metrics.segments.get_or_create(&[("state", state)]));
        }
        metrics
    }

    /// Bytes of record text accepted so far.
    pub fn accepted_bytes(&self) -> u64 {
        Source::ALL.iter().map(|source| self.accepted_bytes.get_or_create(&source.label()).get()).sum()
    }

    /// Bytes of record text that a store has committed so far, including what was accepted before the start.
    pub fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes.get()
    }

    /// Appends refused so far.
    pub fn refused(&self) -> u64 {
        self.refused_appends.get()
    }

    /// Bytes consumed over bytes accepted: 1 in a steady state, less while a backlog grows.
    pub(crate) fn update_consumed_ratio(&self) {
        let accepted = self.accepted_bytes();
        if accepted > 0 {
            self.consumed_ratio.set(self.consumed_bytes.get() as f64 / accepted as f64);
        }
    }
}
