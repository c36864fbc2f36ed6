//! What queries count.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::block_cache::BlockCache;
use crate::stats::QueryStats;

/// Counters and gauges of queries.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) in_flight: Gauge,
    pub(crate) result_bytes: Gauge,
    cache_bytes: Gauge,
    cache_hits: Counter,
    cache_misses: Counter,
    pub(crate) queries: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) partial: Counter,
    pub(crate) seconds: Histogram,
    pub(crate) matched: Counter,
    pub(crate) scanned_bytes: Counter,
    pub(crate) skipped_bytes: Counter,
    pub(crate) nodes_missing: Counter,
    pub(crate) tails: Gauge,
    pub(crate) tail_skipped_bytes: Counter,
}

impl Metrics {
    /// Registers the metrics of queries.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            in_flight: Gauge::default(),
            result_bytes: Gauge::default(),
            cache_bytes: Gauge::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            queries: Counter::default(),
            cancelled: Counter::default(),
            partial: Counter::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            matched: Counter::default(),
            scanned_bytes: Counter::default(),
            skipped_bytes: Counter::default(),
            nodes_missing: Counter::default(),
            tails: Gauge::default(),
            tail_skipped_bytes: Counter::default(),
        };
        let all = metrics.clone();
        let query = registry.sub_registry_with_prefix("query");
        query.register("in_flight", "Queries being answered", all.in_flight);
        query.register(
            "result_bytes",
            "Memory held by matches that clients have not read yet, all queries together",
            all.result_bytes,
        );
        query.register("cache_bytes", "Memory used by the block cache", all.cache_bytes);
        query.register("cache_hits", "Blocks found in the block cache", all.cache_hits);
        query.register("cache_misses", "Blocks not in the block cache, read from disk", all.cache_misses);
        query.register("answers", "Queries answered, whole or in part", all.queries);
        query.register("cancelled", "Queries cancelled because the client disconnected", all.cancelled);
        query.register("partial", "Partial answers: records may be missing", all.partial);
        query.register("seconds", "Query duration, from request to end of answer", all.seconds);
        query.register("matched_records", "Records that matched", all.matched);
        query.register("scanned_bytes", "Bytes of text that were searched", all.scanned_bytes);
        query.register("skipped_bytes", "Bytes of text skipped without searching", all.skipped_bytes);
        query.register(
            "nodes_missing",
            "Nodes that did not answer, or not to the end, when all were asked",
            all.nodes_missing,
        );
        query.register("tails", "Clients that follow new records", all.tails);
        query.register(
            "tail_skipped_bytes",
            "Bytes skipped by tails that lagged too far behind",
            all.tail_skipped_bytes,
        );
        metrics
    }

    /// A cache of opened blocks that is counted here.
    pub(crate) fn block_cache(&self, bytes_max: u64) -> BlockCache {
        BlockCache::new(bytes_max, self.cache_bytes.clone(), self.cache_hits.clone(), self.cache_misses.clone())
    }

    pub(crate) fn count_query(&self, stats: &QueryStats, seconds: f64, cancelled: bool) {
        if cancelled {
            self.cancelled.inc();
        } else {
            self.queries.inc();
        }
        if stats.is_partial() {
            self.partial.inc();
        }
        self.seconds.observe(seconds);
        self.matched.inc_by(stats.matched);
        self.scanned_bytes.inc_by(stats.bytes_scanned);
        self.skipped_bytes.inc_by(stats.bytes_skipped);
    }
}
