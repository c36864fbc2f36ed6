//! The engine: what a query needs of the node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_ingest::Queue;
use bucksaw_scan::Plan;
use bucksaw_store::{DamagedSegment, Store};

use crate::block_cache::BlockCache;
use crate::match_buffer::MatchBufferPools;
use crate::metrics::Metrics;
use crate::pool::ScanPool;
use crate::request::{Cancel, RequestError};
use crate::result_budget::ResultBudget;
use crate::scan_memory::ScanMemory;

/// Settings of queries.
#[derive(Clone, Debug)]
pub struct Config {
    /// Records that are looked at for the fields of an answer. More give truer shares and take longer.
    pub fields_records_max: u64,
    /// Bytes that a follower may lag behind before it skips to the end.
    pub tail_lag_bytes_max: u64,
    /// Memory, in bytes, for what queries have found and their readers have not yet read, all queries together. More lets
    /// many large answers be read at once without being searched for twice. None holds more than it leaves to the others,
    /// but each may hold a 128th, or one record, however much the others hold.
    pub result_bytes_max: u64,
    /// Memory, in bytes, for blocks that were opened and may be searched again; 0 keeps none. What a query has at work
    /// comes to it.
    pub cache_bytes_max: u64,
    /// Memory, in bytes, for the blocks and frames that are being searched. Scans that need more wait for each other.
    pub scan_bytes_max: u64,
    /// How many questions of other nodes, and of this one, are answered at the same time, and how many followers. Others wait
    /// for some seconds and are refused then.
    pub served_max: usize,
    /// See `served_max`.
    pub served_tails_max: usize,
    /// How long a query may take, not counting the time in which it waits for its reader; `None` for as long as it needs.
    /// Then it ends with what it has found, and its answer is partial.
    pub query_timeout: Option<Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fields_records_max: 10_000,
            tail_lag_bytes_max: 64 << 20,
            result_bytes_max: 128 << 20,
            cache_bytes_max: 512 << 20,
            scan_bytes_max: u64::MAX,
            served_max: 256,
            served_tails_max: 512,
            query_timeout: Some(Duration::from_secs(60)),
        }
    }
}

/// Answers queries over one node's queue and store.
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

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine over a queue and a store.
    #[must_use]
    pub fn new(
        queue: Arc<Queue>,
        store: Arc<dyn Store>,
        pool: ScanPool,
        env: Env,
        config: Config,
        metrics: Metrics,
    ) -> Self {
        let budget = ResultBudget::new(config.result_bytes_max, metrics.result_bytes.clone());
        let opened = metrics.block_cache(config.cache_bytes_max).into();
        let (pieces, room) = (MatchBufferPools::default(), Arc::new(ScanMemory::new(config.scan_bytes_max)));
        Self {
            queue,
            store,
            pool,
            env,
            config,
            metrics,
            result_budget: budget,
            block_cache: opened,
            match_pools: pieces,
            scan_memory: room,
        }
    }

    /// `cancel` with the time limit of queries, which starts now unless it already has.
    pub(crate) fn with_time_limit(&self, cancel: &Cancel) -> Cancel {
        cancel.with_time_limit(&self.env.clock, self.config.query_timeout)
    }

    /// Checks that an expression compiles.
    pub(crate) fn check_expression(&self, expr: &bucksaw_record::Expr) -> Result<(), RequestError> {
        Ok(Plan::compile(expr).map(drop)?)
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The directory-relative names of what is damaged and set aside, and not made good.
    #[must_use]
    pub fn damaged_files(&self) -> Vec<PathBuf> {
        let queue = self.queue.damaged_file_names().into_iter().map(|name| PathBuf::from("queue").join(name));
        queue.chain(self.quarantined_files(false)).collect()
    }

    /// The same of files whose records are all kept by other stores: answers are whole without them.
    #[must_use]
    pub fn re_replicated_files(&self) -> Vec<PathBuf> {
        self.quarantined_files(true).collect()
    }

    /// The names of segments that have damaged blocks, the records of which other stores keep: answers are whole without
    /// these blocks.
    #[must_use]
    pub fn segments_with_re_replicated_blocks(&self) -> Vec<PathBuf> {
        self.damaged_segments(true).collect()
    }

    /// How many segments have damaged blocks that were not made good.
    #[must_use]
    pub fn segments_with_damaged_blocks(&self) -> usize {
        self.damaged_segments(false).count()
    }

    fn damaged_segments(&self, re_replicated: bool) -> impl Iterator<Item = PathBuf> + use<> {
        paths(self.store.status().damaged_segments, re_replicated)
    }

    fn quarantined_files(&self, re_replicated: bool) -> impl Iterator<Item = PathBuf> + use<> {
        paths(self.store.status().quarantined_files, re_replicated)
    }
}

/// The paths, below the data directory, of damaged files whose records are re-replicated, or of the others.
fn paths(damaged: Vec<DamagedSegment>, re_replicated: bool) -> impl Iterator<Item = PathBuf> {
    let selected = damaged.into_iter().filter(move |file| file.is_re_replicated() == re_replicated);
    selected.map(|file| PathBuf::from("store").join(file.name))
}
