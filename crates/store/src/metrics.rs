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

/// Declares the metrics, each with its help text.
macro_rules! metrics {
    ($($name:ident: $kind:ty = $help:literal;)*) => {
        /// Counters and gauges of the store.
        #[derive(Clone, Debug, Default)]
        pub struct Metrics {
            $(pub(crate) $name: $kind,)*
        }

        impl Metrics {
            /// Registers the store's metrics.
            #[must_use]
            pub fn new(registry: &mut Registry) -> Self {
                let metrics = Self::default();
                let store = registry.sub_registry_with_prefix("store");
                $(store.register(stringify!($name), $help, metrics.$name.clone());)*
                for reason in RepairBlocker::NAMES {
                    metrics.repair_blocked.get_or_create(&RepairBlockerLabels { reason }).set(0);
                }
                metrics
            }
        }
    };
}

metrics! {
    segments: Gauge = "Stored segments";
    stored_bytes: Gauge = "Bytes of the segments' files";
    text_bytes: Gauge = "Bytes of record text in the segments";
    index_bytes: Gauge = "Memory of the index of stored segments: their blocks and labels";
    trash_bytes: Gauge = "Bytes of files in the trash";
    trash_segments: Gauge = "Segments in the trash: in no answer";
    retention_suspended: Gauge = "1 while retention by age is suspended, because the wall clock jumped forward";
    damaged: Gauge = "Damaged files, and segments with damaged blocks, that are not re-replicated";
    damaged_re_replicated: Gauge = "Damaged files, and segments with damaged blocks, whose records are all re-replicated on other stores";
    rebuilt: Gauge = "Segments with damage that was rebuilt, so that no record is missing";
    gathered_bytes: Counter = "Bytes of record text taken from the queue";
    written_bytes: Counter = "Bytes of segment files written";
    gather_failed: Counter = "Gatherings that failed and are retried";
    pulled_bytes: Counter = "Bytes of segment files taken from queues of other nodes";
    replicated_bytes: Counter = "Bytes of segment files replicated to other stores";
    received_bytes: Counter = "Bytes of segment files received from other stores";
    replicate_failed: Counter = "Failed replications to another store";
    replication_factor: Gauge = "Replication factor: on how many stores each record is kept";
    missing_stores: Gauge = "Stores missing for the replication factor: nothing is gathered while there are any";
    repair_passes: Counter = "Completed repair passes";
    repair_ranges: Counter = "Time ranges compared with other stores";
    repair_deferred: Counter = "Time ranges deferred because another store did not answer";
    repair_failed: Counter = "Copies of missing records that could not be made";
    repair_read_bytes: Counter = "Bytes of segment files read to compare and check";
    repair_restored_bytes: Counter = "Bytes of segment files sent to restore copies";
    repair_restored_records: Counter = "Copies of records restored";
    repair_under_replicated_records: Gauge = "Under-replicated records that this store is responsible for, as last seen";
    repair_under_replicated_bytes: Gauge = "Estimated segment file bytes of the under-replicated records";
    repair_remaining_bytes: Gauge = "Estimated segment file bytes left in the current repair pass";
    repair_lost_bytes_max: Gauge = "Segment file bytes of down or lost stores that are not re-replicated: upper bound of what is under-replicated";
    repair_lost_stores: Gauge = "Lost stores that are not re-replicated";
    repair_blocked: Family<RepairBlockerLabels, Gauge> = "1 while repair is blocked, by reason";
    compactions: Counter = "Merges done";
    compacted_bytes: Counter = "Bytes of record text that went through merges";
    compact_failed: Counter = "Merges that failed";
    expired_bytes: Counter = "Bytes of files moved to the trash by retention";
    expired_segments: Counter = "Segments moved to the trash by retention";
    throttled_seconds: Counter<f64, AtomicU64> = "Time that gathering and merging were throttled by queries";
    backlog_bytes: Gauge = "Bytes of record text in the queue, due to be merged or packed anew";
    throttle_overrides: Counter = "Gatherings and merges that ran unthrottled because of the backlog";
}

impl Metrics {
    /// Publishes the status of repair.
    pub(crate) fn set_repair_status(&self, status: &RepairStatus) {
        set(&self.repair_under_replicated_records, status.under_replicated_records);
        set(&self.repair_under_replicated_bytes, status.under_replicated_bytes);
        set(&self.repair_remaining_bytes, status.remaining_bytes);
        set(&self.repair_lost_bytes_max, status.lost_bytes_max);
        set(&self.repair_lost_stores, status.unrepaired_stores.len() as u64);
        let blocker = status.blocked_by.map(RepairBlocker::name);
        for reason in RepairBlocker::NAMES {
            self.repair_blocked.get_or_create(&RepairBlockerLabels { reason }).set((blocker == Some(reason)).into());
        }
    }
}

pub(crate) fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
