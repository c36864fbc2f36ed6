//! The engine: the queue, store and limits that the queries of a node share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_ingest::Queue;
use bucksaw_record::Expr;
use bucksaw_scan::Plan;
use bucksaw_store::{DamagedSegment, Store};

use crate::block_cache::{BlockCache, BlockCacheLimits};
use crate::match_buffer::MatchBufferPools;
use crate::metrics::Metrics;
use crate::pool::ScanPool;
use crate::request::{Cancel, RequestError};
use crate::result_budget::ResultBudget;
use crate::scan_memory::ScanMemory;

/// Settings of queries.
#[derive(Clone, Debug)]
pub struct Config {
    /// A tail that lags by more bytes skips to the end.
    pub tail_lag_bytes_max: u64,
    /// Memory for matches that readers have not consumed, in bytes, for all queries. A query reserves at most as much
    /// as it leaves free, but always a 128th, or one record. With little memory, parts of large answers are searched
    /// twice.
    pub result_bytes_max: u64,
    /// Memory of decoded blocks kept for later queries, in bytes; 0 keeps none. Running scans take memory besides.
    pub cache_bytes_max: u64,
    /// The work that searches of the columns of a block waste until its text is built and kept in the cache while there is room,
    /// in percent of the work of building it. `u64::MAX` for never.
    pub text_build_percent: u64,
    /// Memory of blocks and frames that are being searched, in bytes. Scans beyond it wait.
    pub scan_bytes_max: u64,
    /// Concurrent searches and counts for all nodes, this one included. Others wait a few seconds, then are refused.
    pub served_max: usize,
    /// Concurrent tails for all nodes, as `served_max`.
    pub served_tails_max: usize,
    /// Time limit of a query, without the time it waits for its reader; `None` for no limit. At the limit a query ends with
    /// a partial answer.
    pub query_timeout: Option<Duration>,
    /// Bytes of text that one of several stores with the same records searches before another one does. Blocks on the border
    /// of two periods are searched by both.
    pub period_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tail_lag_bytes_max: 64 << 20,
            result_bytes_max: 128 << 20,
            cache_bytes_max: 512 << 20,
            text_build_percent: 100,
            scan_bytes_max: u64::MAX,
            served_max: 256,
            served_tails_max: 512,
            query_timeout: Some(Duration::from_secs(60)),
            period_bytes: 64 << 20,
        }
    }
}

/// Answers queries over one node's queue and store.
#[derive(Debug)]
pub struct Engine {
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pool: ScanPool,
    pub(crate) env: Env,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) result_budget: Arc<ResultBudget>,
    pub(crate) block_cache: Arc<BlockCache>,
    pub(crate) match_pools: MatchBufferPools,
    pub(crate) scan_memory: Arc<ScanMemory>,
}

impl Engine {
    /// An engine over a queue and a store.
    pub fn new(
        queue: Arc<Queue>,
        store: Arc<dyn Store>,
        pool: ScanPool,
        env: Env,
        config: Config,
        metrics: Metrics,
    ) -> Self {
        let cache_limits =
            BlockCacheLimits { bytes_max: config.cache_bytes_max, text_build_percent: config.text_build_percent };
        Self {
            result_budget: ResultBudget::new(config.result_bytes_max, metrics.result_bytes.clone()),
            block_cache: metrics.block_cache(cache_limits).into(),
            match_pools: MatchBufferPools::default(),
            scan_memory: Arc::new(ScanMemory::new(config.scan_bytes_max)),
            queue,
            store,
            pool,
            env,
            config,
            metrics,
        }
    }

    /// `cancel` with the time limit of queries, which starts now unless it already has.
    pub(crate) fn with_time_limit(&self, cancel: &Cancel) -> Cancel {
        cancel.with_time_limit(&self.env.clock, self.config.query_timeout)
    }

    /// Checks that an expression compiles.
    pub(crate) fn check_expression(&self, expr: &Expr) -> Result<(), RequestError> {
        Ok(Plan::compile(expr).map(drop)?)
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Quarantined files whose records are not re-replicated, relative to the data directory.
    pub fn damaged_files(&self) -> Vec<PathBuf> {
        let queue = self.queue.damaged_file_names().into_iter().map(|name| PathBuf::from("queue").join(name));
        queue.chain(paths(self.store.status().quarantined_files, false)).collect()
    }

    /// Quarantined files whose records are re-replicated: answers are complete without them.
    pub fn re_replicated_files(&self) -> Vec<PathBuf> {
        paths(self.store.status().quarantined_files, true).collect()
    }

    /// Segments with damaged blocks whose records are re-replicated: answers are complete without these blocks.
    pub fn segments_with_re_replicated_blocks(&self) -> Vec<PathBuf> {
        paths(self.store.status().damaged_segments, true).collect()
    }

    /// Number of segments with damaged blocks whose records are not re-replicated.
    pub fn segments_with_damaged_blocks(&self) -> usize {
        paths(self.store.status().damaged_segments, false).count()
    }
}

/// The paths, below the data directory, of damaged files whose records are re-replicated, or of the others.
fn paths(damaged: Vec<DamagedSegment>, re_replicated: bool) -> impl Iterator<Item = PathBuf> {
    let selected = damaged.into_iter().filter(move |file| file.is_re_replicated() == re_replicated);
    selected.map(|file| PathBuf::from("store").join(file.name))
}
