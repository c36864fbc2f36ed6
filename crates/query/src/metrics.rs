//! Metrics of queries.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

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
    queries: Counter,
    cancelled: Counter,
    partial: Counter,
    seconds: Histogram,
    matched: Counter,
    scanned_bytes: Counter,
    skipped_bytes: Counter,
    pub(crate) nodes_missing: Counter,
    pub(crate) tails: Gauge,
    pub(crate) tail_skipped_bytes: Counter,
}

/// Creates and registers a metric.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Registers the metrics of queries.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let query = registry.sub_registry_with_prefix("query");
        let result_help = "Memory held by matches that clients have not read yet, all queries together";
        let missing_help = "Nodes that did not answer, or not to the end, when all were asked";
        let seconds = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        Self {
            in_flight: registered(query, "in_flight", "Queries being answered"),
            result_bytes: registered(query, "result_bytes", result_help),
            cache_bytes: registered(query, "cache_bytes", "Memory used by the block cache"),
            cache_hits: registered(query, "cache_hits", "Blocks found in the block cache"),
            cache_misses: registered(query, "cache_misses", "Blocks not in the block cache, read from disk"),
            queries: registered(query, "answers", "Queries answered, whole or in part"),
            cancelled: registered(query, "cancelled", "Queries cancelled because the client disconnected"),
            partial: registered(query, "partial", "Partial answers: records may be missing"),
            seconds: {
                let help = "Query duration, from request to end of answer";
                query.register("seconds", help, seconds.clone());
                seconds
            },
            matched: registered(query, "matched_records", "Records that matched"),
            scanned_bytes: registered(query, "scanned_bytes", "Bytes of text that were searched"),
            skipped_bytes: registered(query, "skipped_bytes", "Bytes of text skipped without searching"),
            nodes_missing: registered(query, "nodes_missing", missing_help),
            tails: registered(query, "tails", "Clients that follow new records"),
            tail_skipped_bytes: registered(
                query,
                "tail_skipped_bytes",
                "Bytes skipped by tails that lagged too far behind",
            ),
        }
    }

    /// A block cache that is counted here.
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
