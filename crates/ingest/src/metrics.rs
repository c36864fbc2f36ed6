//! What the queue counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::append::Source;
use crate::halt_reason::HaltReason;
use crate::load_shedder::RedirectKind;
use crate::segment::SegmentState;

/// The state of files that were set aside.
pub(crate) const DAMAGED: &str = "damaged";

/// The label `source`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SourceLabels {
    /// `tcp`, `forward` or `http`.
    pub source: &'static str,
}

/// The label `state`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct SegmentStateLabels {
    /// A segment's state.
    pub(crate) state: &'static str,
}

/// The label `kind`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RedirectLabels {
    /// `suggested`, `refused` or `disconnected`.
    pub(crate) kind: &'static str,
}

/// The label `reason`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct HaltLabels {
    /// What keeps records from being accepted.
    pub(crate) reason: &'static str,
}

/// Counters and gauges of the queue.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) accepted_records: Family<SourceLabels, Counter>,
    pub(crate) accepted_bytes: Family<SourceLabels, Counter>,
    /// Records refused as bad input.
    pub rejected_records: Family<SourceLabels, Counter>,
    /// Records that were cut because they were too long.
    pub cut_records: Family<SourceLabels, Counter>,
    /// Times that lay too far ahead and were replaced by the arrival time.
    pub times_replaced: Family<SourceLabels, Counter>,
    pub(crate) refused_appends: Counter,
    pub(crate) segments: Family<SegmentStateLabels, Gauge>,
    pub(crate) pending_bytes: Gauge,
    pub(crate) oldest_pending_seconds: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(crate) expired_leases: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) consumed_bytes: Counter,
    pub(crate) consumed_ratio: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(crate) syncs: Counter,
    pub(crate) sync_failed: Counter,
    pub(crate) sync_seconds: Histogram,
    pub(crate) free_bytes: Gauge,
    pub(crate) damaged_keys: Gauge,
    pub(crate) disk_full: Gauge,
    pub(crate) index_bytes: Gauge,
    pub(crate) halted: Family<HaltLabels, Gauge>,
    pub(crate) load_level: Gauge,
    pub(crate) refusing: Gauge,
    pub(crate) redirected: Family<RedirectLabels, Counter>,
}

impl Metrics {
    /// Registers the queue's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            accepted_records: Family::default(),
            accepted_bytes: Family::default(),
            rejected_records: Family::default(),
            cut_records: Family::default(),
            times_replaced: Family::default(),
            refused_appends: Counter::default(),
            segments: Family::default(),
            pending_bytes: Gauge::default(),
            oldest_pending_seconds: Gauge::default(),
            expired_leases: Counter::default(),
            sent_bytes: Counter::default(),
            consumed_bytes: Counter::default(),
            consumed_ratio: Gauge::default(),
            syncs: Counter::default(),
            sync_failed: Counter::default(),
            sync_seconds: Histogram::new(exponential_buckets(0.000_5, 2.0, 14)),
            free_bytes: Gauge::default(),
            damaged_keys: Gauge::default(),
            disk_full: Gauge::default(),
            index_bytes: Gauge::default(),
            halted: Family::default(),
            load_level: Gauge::default(),
            refusing: Gauge::default(),
            redirected: Family::default(),
        };
        let all = metrics.clone();
        let ingest = registry.sub_registry_with_prefix("ingest");
        ingest.register("records", "Records accepted", all.accepted_records);
        ingest.register("bytes", "Bytes of record text accepted, line ends included", all.accepted_bytes);
        ingest.register("rejected_records", "Records refused as bad input", all.rejected_records);
        ingest.register("cut_records", "Records cut because they were too long", all.cut_records);
        ingest.register("times_replaced", "Times too far ahead, replaced by the arrival time", all.times_replaced);
        ingest.register(
            "refused_appends",
            "Appends refused: disk full, overload, shutdown, write errors",
            all.refused_appends,
        );
        ingest.register("segments", "Segments of the queue by state", all.segments);
        ingest.register("pending_bytes", "Bytes of segments that wait for a store", all.pending_bytes);
        ingest.register(
            "oldest_pending_seconds",
            "Age of the oldest segment that waits for a store",
            all.oldest_pending_seconds,
        );
        ingest.register(
            "expired_leases",
            "Segments whose lease expired before their store acknowledged them",
            all.expired_leases,
        );
        ingest.register("sent_bytes", "Bytes of segment files sent to other stores", all.sent_bytes);
        ingest.register("consumed_bytes", "Bytes of record text that a store has committed", all.consumed_bytes);
        ingest.register(
            "consumed_ratio",
            "Bytes consumed by a store over bytes accepted, since the start",
            all.consumed_ratio,
        );
        ingest.register("syncs", "Group commits", all.syncs);
        ingest.register(
            "sync_failed",
            "Group commits that failed; the records were written again elsewhere",
            all.sync_failed,
        );
        ingest.register("sync_seconds", "Time that a group commit took", all.sync_seconds);
        let damaged_keys = "Idempotency keys lost to damage; for a day, or until the next start";
        ingest.register("damaged_keys", damaged_keys, all.damaged_keys);
        ingest.register("load_level", "0 idle, 1 busy, 2 very busy, 3 overloaded", all.load_level);
        ingest.register("refusing", "1 while new connections may be refused for the load", all.refusing);
        ingest.register("redirected", "Clients redirected because of load or shutdown, by kind", all.redirected);
        ingest.register("index_bytes", "Memory of the index of queue segments", all.index_bytes);
        ingest.register("halted", "1 while nothing is accepted, by reason", all.halted);
        registry.register("disk_free_bytes", "Room on the file system of the data directory", all.free_bytes);
        registry.register("disk_full", "1 while nothing is accepted because the disk is full", all.disk_full);
        for reason in HaltReason::NAMES {
            drop(metrics.halted.get_or_create(&HaltLabels { reason }));
        }
        for kind in RedirectKind::ALL {
            drop(metrics.redirected.get_or_create(&RedirectLabels { kind: kind.name() }));
        }
        // A counter that was never touched should still be there to be graphed.
        for source in [Source::Tcp, Source::Forward, Source::Http] {
            let by = SourceLabels { source: source.name() };
            let all = [
                &metrics.accepted_records,
                &metrics.accepted_bytes,
                &metrics.rejected_records,
                &metrics.cut_records,
                &metrics.times_replaced,
            ];
            all.into_iter().for_each(|family| drop(family.get_or_create(&by)));
        }
        let states = SegmentState::ALL.map(SegmentState::name);
        for state in states.into_iter().chain([DAMAGED]) {
            drop(metrics.segments.get_or_create(&SegmentStateLabels { state }));
        }
        metrics
    }

    /// Bytes of record text accepted so far.
    #[must_use]
    pub fn accepted_bytes(&self) -> u64 {
        let sources = [Source::Tcp, Source::Forward, Source::Http].map(|source| SourceLabels { source: source.name() });
        sources.iter().map(|by| self.accepted_bytes.get_or_create(by).get()).sum()
    }

    /// Bytes of record text that a store has committed so far, also of what was accepted before the start.
    #[must_use]
    pub fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes.get()
    }

    /// Appends refused so far.
    #[must_use]
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
