//! Metrics of the store.

use std::sync::atomic::AtomicU64;

use bucksaw_env::{MetricLabel, create_series, metrics, set_gauge};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use strum::VariantNames as _;

use crate::repair::{RepairBlocker, RepairStatus};

metrics! {
    /// Counters and gauges of the store.
    pub struct Metrics {
        pub(crate) segments: Gauge = "Stored segments";
        pub(crate) stored_bytes: Gauge = "Bytes of the segments' files";
        pub(crate) text_bytes: Gauge = "Bytes of record text in the segments";
        pub(crate) index_bytes: Gauge = "Memory of the index of stored segments: their blocks and labels";
        pub(crate) trash_bytes: Gauge = "Bytes of files in the trash";
        pub(crate) trash_segments: Gauge = "Segments in the trash: in no answer";
        pub(crate) retention_suspended: Gauge = "1 while retention by age is suspended, because the wall clock jumped forward or the node was off for long";
        pub(crate) damaged: Gauge = "Damaged files, and segments with damaged blocks, that are not re-replicated";
        pub(crate) damaged_re_replicated: Gauge = "Damaged files, and segments with damaged blocks, whose records are all re-replicated on other stores";
        pub(crate) rebuilt: Gauge = "Segments with damage that was rebuilt, so that no record is missing";
        pub(crate) keyless_segments: Gauge = "Encrypted segments whose key the node does not have: answers over their time are partial";
        pub(crate) encrypted_bytes: Gauge = "Bytes of the files of encrypted segments and erasures";
        pub(crate) rewrite_for_key_bytes: Gauge = "Bytes of the files of segments and erasures that are not encrypted with the key of new ones, and are rewritten in the background";
        pub(crate) erasures: Gauge = "Erasures in effect";
        pub(crate) erasures_incomplete: Gauge = "Erasures that this node has not completed: files are left to scan or rewrite, or cannot be searched";
        pub(crate) erasures_incomplete_max_seconds: Gauge = "The longest time for which one of these has been in effect, since its request or the start of the node";
        pub(crate) erasure_files_left: Gauge = "Files left to scan or rewrite for erasures; one that is left for two of them counts twice";
        pub(crate) erasure_files_unsearchable: Gauge = "Files that cannot be searched for erasures, because they are damaged or their key is missing";
        pub(crate) damaged_erasures: Gauge = "Files of erasures that could not be read at the start, and were not sent by another node since: answers may have what they erase";
        pub(crate) erased_records: Counter = "Copies of records that erasures have left out of new files";
        pub(crate) gathered_bytes: Counter = "Bytes of record text taken from the queue";
        pub(crate) written_bytes: Counter = "Bytes of segment files written";
        pub(crate) gather_failed: Counter = "Gatherings that failed and are retried";
        pub(crate) pulled_bytes: Counter = "Bytes of segment files taken from queues of other nodes";
        pub(crate) replicated_bytes: Counter = "Bytes of segment files replicated to other stores";
        pub(crate) received_bytes: Counter = "Bytes of segment files received from other stores";
        pub(crate) replicate_failed: Counter = "Failed replications to another store";
        pub(crate) replication_factor: Gauge = "Replication factor: on how many stores each record is kept";
        pub(crate) missing_stores: Gauge = "Stores missing for the replication factor: nothing is gathered while there are any";
        pub(crate) repair_passes: Counter = "Completed repair passes";
        pub(crate) repair_ranges: Counter = "Time ranges compared with other stores";
        pub(crate) repair_deferred: Counter = "Time ranges deferred because another store did not answer";
        pub(crate) repair_failed: Counter = "Copies of missing records that could not be made";
        pub(crate) repair_read_bytes: Counter = "Bytes of segment files read to compare and check";
        pub(crate) repair_restored_bytes: Counter = "Bytes of segment files sent to restore copies";
        pub(crate) repair_restored_records: Counter = "Copies of records restored";
        pub(crate) repair_under_replicated_records: Gauge = "Under-replicated records that this store is responsible for, as last seen";
        pub(crate) repair_under_replicated_bytes: Gauge = "Estimated segment file bytes of the under-replicated records";
        pub(crate) repair_remaining_bytes: Gauge = "Estimated segment file bytes left in the current repair pass";
        pub(crate) repair_lost_bytes_max: Gauge = "Segment file bytes of down or lost stores that are not re-replicated: upper bound of what is under-replicated";
        pub(crate) repair_lost_stores: Gauge = "Lost stores that are not re-replicated";
        pub(crate) repair_blocked: Family<MetricLabel, Gauge> = "1 while repair is blocked, by reason";
        pub(crate) compactions: Counter = "Merges done";
        pub(crate) compacted_bytes: Counter = "Bytes of record text that went through merges";
        pub(crate) compact_failed: Counter = "Merges that failed";
        pub(crate) expired_bytes: Counter = "Bytes of files moved to the trash by retention";
        pub(crate) expired_segments: Counter = "Segments moved to the trash by retention";
        pub(crate) throttled_seconds: Counter<f64, AtomicU64> = "Time that gathering and merging were throttled by queries";
        pub(crate) backlog_bytes: Gauge = "Bytes of record text in the queue, due to be merged or packed anew";
        pub(crate) throttle_overrides: Counter = "Gatherings and merges that ran unthrottled because of the backlog";
    }
}

impl Metrics {
    /// Registers the store's metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("store"));
        create_series(&metrics.repair_blocked, "reason", RepairBlocker::VARIANTS.iter().copied());
        metrics
    }

    /// Publishes the status of repair.
    pub(crate) fn set_repair_status(&self, status: &RepairStatus) {
        set_gauge(&self.repair_under_replicated_records, status.under_replicated_records);
        set_gauge(&self.repair_under_replicated_bytes, status.under_replicated_bytes);
        set_gauge(&self.repair_remaining_bytes, status.remaining_bytes);
        set_gauge(&self.repair_lost_bytes_max, status.lost_bytes_max);
        set_gauge(&self.repair_lost_stores, status.unrepaired_stores.len() as u64);
        let blocker = status.blocked_by.map(RepairBlocker::name);
        for &reason in RepairBlocker::VARIANTS {
            self.repair_blocked.get_or_create(&[("reason", reason)]).set((blocker == Some(reason)).into());
        }
    }
}
