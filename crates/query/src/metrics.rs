//! Metrics of queries.

use bucksaw_env::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::block_cache::{BlockCache, BlockCacheLimits};
use crate::stats::QueryStats;

metrics! {
    /// Counters and gauges of queries.
    pub struct Metrics {
        pub(crate) in_flight: Gauge = "Queries being answered";
        pub(crate) result_bytes: Gauge = "Memory held by matches that clients have not read yet, all queries together";
        cache_bytes: Gauge = "Memory used by the block cache";
        cache_hits: Counter = "Blocks found in the block cache";
        cache_misses: Counter = "Blocks not in the block cache, read from disk";
        answers: Counter = "Queries answered, whole or in part";
        cancelled: Counter = "Queries cancelled because the client disconnected";
        partial: Counter = "Partial answers: records may be missing";
        seconds: Histogram = (Histogram::new(exponential_buckets(0.001, 2.0, 16))) "Query duration, from request to end of answer";
        matched_records: Counter = "Records that matched";
        scanned_bytes: Counter = "Bytes of text that were searched";
        skipped_bytes: Counter = "Bytes of text skipped without searching";
        pub(crate) nodes_missing: Counter = "Nodes that did not answer, or not to the end, when all were asked";
        pub(crate) tails: Gauge = "Clients that follow new records";
        pub(crate) tail_skipped_bytes: Counter = "Bytes skipped by tails that lagged too far behind";
    }
}

impl Metrics {
    /// Registers the metrics of queries.
    pub fn new(registry: &mut Registry) -> Self {
        Self::register(registry.sub_registry_with_prefix("query"))
    }

    /// A block cache that is counted here.
    pub(crate) fn block_cache(&self, limits: BlockCacheLimits) -> BlockCache {
        BlockCache::new(limits, self.cache_bytes.clone(), self.cache_hits.clone(), self.cache_misses.clone())
    }

    pub(crate) fn count_query(&self, stats: &QueryStats, seconds: f64, cancelled: bool) {
        if cancelled {
            self.cancelled.inc();
        } else {
            self.answers.inc();
        }
        if stats.is_partial() {
            self.partial.inc();
        }
        self.seconds.observe(seconds);
        self.matched_records.inc_by(stats.matched);
        self.scanned_bytes.inc_by(stats.bytes_scanned);
        self.skipped_bytes.inc_by(stats.bytes_skipped);
    }
}
