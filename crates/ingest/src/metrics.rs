//! The metrics of the queue.

use std::sync::atomic::AtomicU64;

use bucksaw_env::{MetricLabel, create_series, metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use strum::{VariantArray as _, VariantNames as _};

use crate::append::Source;
use crate::halt_reason::HaltReason;
use crate::segment::SegmentState;

/// The state of quarantined files.
pub(crate) const DAMAGED: &str = "damaged";

metrics! {
    /// Counters and gauges of the queue.
    pub struct Metrics {
        pub(crate) records: Family<MetricLabel, Counter> = "Records accepted";
        pub(crate) bytes: Family<MetricLabel, Counter> = "Bytes of record text accepted, line ends included";
        /// Records refused as bad input, by [`Source::label`].
        pub rejected_records: Family<MetricLabel, Counter> = "Records refused as bad input";
        /// Records cut because they were too long, by source.
        pub cut_records: Family<MetricLabel, Counter> = "Records cut because they were too long";
        /// Times too far ahead, replaced by the arrival time, by source.
        pub times_replaced: Family<MetricLabel, Counter> = "Times too far ahead, replaced by the arrival time";
        /// Labels of clients that had no room beside those of their label scope, by source; counted for each frame.
        pub dropped_labels: Family<MetricLabel, Counter> = "Labels dropped for those of a label scope, as a stream would have too many";
        /// Entries of the audit trail that were lost, because the queue did not take them in time.
        pub audit_entries_lost: Counter = "Entries of the audit trail that were lost, because the queue did not take them in time";
        pub(crate) refused_appends: Counter = "Appends refused: disk full, overload, shutdown, write errors";
        pub(crate) segments: Family<MetricLabel, Gauge> = "Segments of the queue by state";
        pub(crate) pending_bytes: Gauge = "Bytes of segments that wait for a store";
        pub(crate) oldest_pending_seconds: Gauge<f64, AtomicU64> = "Age of the oldest segment that waits for a store";
        pub(crate) expired_leases: Counter = "Segments whose lease expired before their store acknowledged them";
        pub(crate) sent_bytes: Counter = "Bytes of segment files sent to other stores";
        pub(crate) consumed_bytes: Counter = "Bytes of record text that a store has committed";
        pub(crate) consumed_byte_seconds: Counter<f64, AtomicU64> = "Bytes of record text that a store has committed, each times its seconds in the queue since the append or the start of the node";
        pub(crate) queued_bytes: Gauge = "Bytes of record text in the queue that no store has committed, in segments of any state";
        pub(crate) consumed_ratio: Gauge<f64, AtomicU64> = "Bytes consumed by a store over bytes accepted, since the start";
        pub(crate) syncs: Counter = "Group commits";
        pub(crate) sync_failed: Counter = "Group commits that failed; the records were written again to another file";
        pub(crate) sync_seconds: Histogram = (Histogram::new(exponential_buckets(0.000_05, 2.0, 17))) "Time that a group commit took";
        pub(crate) damaged_keys: Gauge = "Idempotency keys lost to damage; for a day, or until the next start";
        pub(crate) index_bytes: Gauge = "Memory of the index of queue segments";
        pub(crate) halted: Family<MetricLabel, Gauge> = "1 while nothing is accepted, by reason";
        pub(crate) free_bytes: Gauge;
        pub(crate) disk_full: Gauge;
    }
}

impl Metrics {
    /// Registers the queue's metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("ingest"));
        let free_help = "Free bytes on the file system of the data directory";
        registry.register("disk_free_bytes", free_help, metrics.free_bytes.clone());
        registry.register(
            "disk_full",
            "1 while nothing is accepted because the disk is full",
            metrics.disk_full.clone(),
        );
        create_series(&metrics.halted, "reason", HaltReason::VARIANTS.iter().copied());
        for source in Source::VARIANTS {
            for family in [
                &metrics.records,
                &metrics.bytes,
                &metrics.rejected_records,
                &metrics.cut_records,
                &metrics.times_replaced,
                &metrics.dropped_labels,
            ] {
                drop(family.get_or_create(&source.label()));
            }
        }
        create_series(
            &metrics.segments,
            "state",
            SegmentState::ALL.map(SegmentState::name).into_iter().chain([DAMAGED]),
        );
        metrics
    }

    /// Bytes of record text accepted so far.
    pub fn accepted_bytes(&self) -> u64 {
        Source::VARIANTS.iter().map(|source| self.bytes.get_or_create(&source.label()).get()).sum()
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
