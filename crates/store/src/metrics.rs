//! What the shelf counts.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters and gauges of the shelf.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) segments: Gauge,
    pub(crate) stored_bytes: Gauge,
    pub(crate) text_bytes: Gauge,
    pub(crate) trash_bytes: Gauge,
    pub(crate) damaged: Gauge,
    pub(crate) gathered_bytes: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) gather_failed: Counter,
    pub(crate) pulled_bytes: Counter,
    pub(crate) copied_bytes: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) copy_failed: Counter,
    pub(crate) copies_missing: Gauge,
    pub(crate) compactions: Counter,
    pub(crate) compacted_bytes: Counter,
    pub(crate) compact_failed: Counter,
    pub(crate) expired_bytes: Counter,
    pub(crate) expired_segments: Counter,
    pub(crate) aside_seconds: Counter<f64, AtomicU64>,
    pub(crate) debt_bytes: Gauge,
    pub(crate) debt_overrides: Counter,
}

impl Metrics {
    /// Registers the shelf's metrics.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let all = metrics.clone();
        let store = registry.sub_registry_with_prefix("store");
        store.register("segments", "Segments on the shelf", all.segments);
        store.register("stored_bytes", "Bytes of the segments' files", all.stored_bytes);
        store.register("text_bytes", "Bytes of record text in the segments", all.text_bytes);
        store.register("trash_bytes", "Bytes of files in the trash", all.trash_bytes);
        store.register("damaged", "Files set aside and segments with damaged blocks", all.damaged);
        store.register("gathered_bytes", "Bytes of record text taken from the queue", all.gathered_bytes);
        store.register("written_bytes", "Bytes of segment files written", all.written_bytes);
        store.register("gather_failed", "Gatherings that were given up and are done again", all.gather_failed);
        store.register("pulled_bytes", "Bytes of segment files taken from queues of other nodes", all.pulled_bytes);
        store.register("copied_bytes", "Bytes of segment files that other stores keep, too", all.copied_bytes);
        store.register("received_bytes", "Bytes of segment files of other stores kept here", all.received_bytes);
        store.register("copy_failed", "Copies that another store did not take", all.copy_failed);
        let missing =
            "Stores that are missing to keep as many copies as are wanted: nothing is gathered while there are any";
        store.register("copies_missing", missing, all.copies_missing);
        store.register("compactions", "Merges done", all.compactions);
        store.register("compacted_bytes", "Bytes of record text that went through merges", all.compacted_bytes);
        store.register("compact_failed", "Merges that were given up", all.compact_failed);
        store.register("expired_bytes", "Bytes of files moved to the trash by retention", all.expired_bytes);
        store.register("expired_segments", "Segments moved to the trash by retention", all.expired_segments);
        store.register("aside_seconds", "Time that gathering and merging let queries go first", all.aside_seconds);
        store.register(
            "debt_bytes",
            "Bytes of record text in the queue, due to be merged or packed anew",
            all.debt_bytes,
        );
        let overrides = "Gatherings and merges that let no query go first because of the debt";
        store.register("debt_overrides", overrides, all.debt_overrides);
        metrics
    }
}
