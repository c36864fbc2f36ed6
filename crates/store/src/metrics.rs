//! Metrics of the store.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::repair::{RepairBlocker, RepairStatus};

/// The reason why repair is blocked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RepairBlockerLabels {
    pub(crate) reason: &'static str,
}

/// Counters and gauges of the store.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) segments: Gauge,
    pub(crate) stored_bytes: Gauge,
    pub(crate) text_bytes: Gauge,
    pub(crate) index_bytes: Gauge,
    pub(crate) trash_bytes: Gauge,
    pub(crate) trash_segments: Gauge,
    pub(crate) retention_suspended: Gauge,
    pub(crate) damaged: Gauge,
    pub(crate) damaged_re_replicated: Gauge,
    pub(crate) rebuilt: Gauge,
    pub(crate) gathered_bytes: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) gather_failed: Counter,
    pub(crate) pulled_bytes: Counter,
    pub(crate) replicated_bytes: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) replicate_failed: Counter,
    pub(crate) replication_factor: Gauge,
    pub(crate) missing_stores: Gauge,
    pub(crate) repair_passes: Counter,
    pub(crate) repair_ranges: Counter,
    pub(crate) repair_deferred: Counter,
    pub(crate) repair_failed: Counter,
    pub(crate) repair_read_bytes: Counter,
    pub(crate) repair_restored_bytes: Counter,
    pub(crate) repair_restored_records: Counter,
    pub(crate) repair_under_replicated_records: Gauge,
    pub(crate) repair_under_replicated_bytes: Gauge,
    pub(crate) repair_remaining_bytes: Gauge,
    pub(crate) repair_lost_bytes_max: Gauge,
    pub(crate) repair_lost_stores: Gauge,
    pub(crate) repair_blocked: Family<RepairBlockerLabels, Gauge>,
    pub(crate) compactions: Counter,
    pub(crate) compacted_bytes: Counter,
    pub(crate) compact_failed: Counter,
    pub(crate) expired_bytes: Counter,
    pub(crate) expired_segments: Counter,
    pub(crate) throttled_seconds: Counter<f64, AtomicU64>,
    pub(crate) backlog_bytes: Gauge,
    pub(crate) throttle_overrides: Counter,
}

impl Metrics {
    /// Registers the store's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        let store = registry.sub_registry_with_prefix("store");
        store.register("segments", "Stored segments", all.segments);
        store.register("stored_bytes", "Bytes of the segments' files", all.stored_bytes);
        store.register("text_bytes", "Bytes of record text in the segments", all.text_bytes);
        let index = "Memory of the index of stored segments: their blocks and labels";
        store.register("index_bytes", index, all.index_bytes);
        store.register("trash_bytes", "Bytes of files in the trash", all.trash_bytes);
        store.register("trash_segments", "Segments in the trash: in no answer", all.trash_segments);
        store.register(
            "retention_suspended",
            "1 while retention by age is suspended, because the wall clock jumped forward",
            all.retention_suspended,
        );
        let damaged = "Damaged files, and segments with damaged blocks, that are not re-replicated";
        store.register("damaged", damaged, all.damaged);
        let re_replicated =
            "Damaged files, and segments with damaged blocks, whose records are all re-replicated on other stores";
        store.register("damaged_re_replicated", re_replicated, all.damaged_re_replicated);
        store.register("rebuilt", "Segments with damage that was rebuilt, so that no record is missing", all.rebuilt);
        store.register("gathered_bytes", "Bytes of record text taken from the queue", all.gathered_bytes);
        store.register("written_bytes", "Bytes of segment files written", all.written_bytes);
        store.register("gather_failed", "Gatherings that failed and are retried", all.gather_failed);
        store.register("pulled_bytes", "Bytes of segment files taken from queues of other nodes", all.pulled_bytes);
        store.register("replicated_bytes", "Bytes of segment files replicated to other stores", all.replicated_bytes);
        store.register("received_bytes", "Bytes of segment files received from other stores", all.received_bytes);
        store.register("replicate_failed", "Failed replications to another store", all.replicate_failed);
        store.register(
            "replication_factor",
            "Replication factor: on how many stores each record is kept",
            all.replication_factor,
        );
        let missing = "Stores missing for the replication factor: nothing is gathered while there are any";
        store.register("missing_stores", missing, all.missing_stores);
        let passes = "Completed repair passes";
        store.register("repair_passes", passes, all.repair_passes);
        store.register("repair_ranges", "Time ranges compared with other stores", all.repair_ranges);
        let deferred = "Time ranges deferred because another store did not answer";
        store.register("repair_deferred", deferred, all.repair_deferred);
        store.register("repair_failed", "Copies of missing records that could not be made", all.repair_failed);
        store.register("repair_read_bytes", "Bytes of segment files read to compare and check", all.repair_read_bytes);
        store.register(
            "repair_restored_bytes",
            "Bytes of segment files sent to restore copies",
            all.repair_restored_bytes,
        );
        store.register("repair_restored_records", "Copies of records restored", all.repair_restored_records);
        let missing = "Under-replicated records that this store is responsible for, as last seen";
        store.register("repair_under_replicated_records", missing, all.repair_under_replicated_records);
        let missing = "Estimated segment file bytes of the under-replicated records";
        store.register("repair_under_replicated_bytes", missing, all.repair_under_replicated_bytes);
        let left = "Estimated segment file bytes left in the current repair pass";
        store.register("repair_remaining_bytes", left, all.repair_remaining_bytes);
        let gone = "Segment file bytes of down or lost stores that are not re-replicated: upper bound of what is under-replicated";
        store.register("repair_lost_bytes_max", gone, all.repair_lost_bytes_max);
        let gone = "Lost stores that are not re-replicated";
        store.register("repair_lost_stores", gone, all.repair_lost_stores);
        for reason in RepairBlocker::NAMES {
            all.repair_blocked.get_or_create(&RepairBlockerLabels { reason }).set(0);
        }
        store.register("repair_blocked", "1 while repair is blocked, by reason", all.repair_blocked);
        store.register("compactions", "Merges done", all.compactions);
        store.register("compacted_bytes", "Bytes of record text that went through merges", all.compacted_bytes);
        store.register("compact_failed", "Merges that failed", all.compact_failed);
        store.register("expired_bytes", "Bytes of files moved to the trash by retention", all.expired_bytes);
        store.register("expired_segments", "Segments moved to the trash by retention", all.expired_segments);
        store.register(
            "throttled_seconds",
            "Time that gathering and merging were throttled by queries",
            all.throttled_seconds,
        );
        store.register(
            "backlog_bytes",
            "Bytes of record text in the queue, due to be merged or packed anew",
            all.backlog_bytes,
        );
        let overrides = "Gatherings and merges that ran unthrottled because of the backlog";
        store.register("throttle_overrides", overrides, all.throttle_overrides);
        metrics
    }

    /// Publishes the status of repair.
    pub(crate) fn set_repair_status(&self, status: &RepairStatus) {
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.repair_under_replicated_records.set(gauge(status.under_replicated_records));
        self.repair_under_replicated_bytes.set(gauge(status.under_replicated_bytes));
        self.repair_remaining_bytes.set(gauge(status.remaining_bytes));
        self.repair_lost_bytes_max.set(gauge(status.lost_bytes_max));
        self.repair_lost_stores.set(gauge(status.unrepaired_stores.len() as u64));
        let blocker = status.blocked_by.map(RepairBlocker::name);
        for reason in RepairBlocker::NAMES {
            self.repair_blocked.get_or_create(&RepairBlockerLabels { reason }).set((blocker == Some(reason)).into());
        }
    }
}
