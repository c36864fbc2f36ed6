//! The settings of simulated nodes.

use std::time::Duration;

use bucksaw_ingest as ingest;
use bucksaw_query as query;
use bucksaw_record::{LabelScope, Labels};
use bucksaw_segment::Codec;
use bucksaw_store::{self as store, LabelRetention, repair};

use crate::injected_bug::InjectedBug;

/// The data directory.
pub(crate) const DIR: &str = "/data";

/// More than the length of a member file.
pub(crate) const MEMBER_FILE_BYTES_MAX: u64 = 1 << 20;

/// Longer than any run.
pub(crate) const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// How long streams are kept that no client writes.
const OTHER_STREAMS_AGE: Duration = Duration::from_secs(30);

/// Bytes of text in a block: the minimum that the default codec encodes as columns.
const BLOCK_BYTES: u64 = 16 << 10;

/// Batches from the queue are small and stored as columns too, and still recompressed.
pub(crate) const SMALL_COLUMNS: Codec = Codec::ColumnsAlways(3);

/// Settings of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    pub(crate) join: Vec<String>,
    pub(crate) queue: ingest::Config,
    pub(crate) store: store::Config,
    pub(crate) query: query::Config,
    pub(crate) busy_bytes_per_second: u64,
    /// The injected bug.
    pub(crate) bug: Option<InjectedBug>,
    /// Draws the program version of each start; `None` for the current one.
    pub(crate) version_seed: Option<u64>,
    /// Whether the disks are encrypted.
    pub(crate) is_encrypted: bool,
}

impl NodeSettings {
    /// Small files and short times, so that much happens in a short run.
    pub(crate) fn for_simulation(copies: usize, reserve: u64, join: Vec<String>, bug: Option<InjectedBug>) -> Self {
        let mut queue =
            ingest::Config { segment_bytes_max: 4 << 10, free_bytes_min: reserve, ..ingest::Config::default() };
        let mut store = store::Config {
            segment_bytes: 128 << 10,
            block_bytes: BLOCK_BYTES,
            codec_quick: SMALL_COLUMNS,
            gather_age: Duration::from_secs(4),
            free_bytes_min: reserve / 2,
            replication_factor: copies,
            replica_group_age: Duration::from_secs(1),
            repair: repair::Config {
                lost_after: Duration::from_secs(20),
                fresh_age_max: Duration::from_secs(30),
                pass_interval: Duration::from_secs(60),
                retry_delay: Duration::from_secs(2),
                ..repair::Config::default()
            },
            ..store::Config::default()
        };
        // Its records would be gone soon if a rule for their label did not keep them: answers, merges, retention and repair must
        // all follow it.
        let kept = store.retention_age.replace(OTHER_STREAMS_AGE);
        let streams = LabelScope::new(Labels::new([("app", "sim")]).unwrap_or_default());
        store.retention_labels = vec![LabelRetention { streams, age: kept }];
        match bug {
            Some(InjectedBug::OneCopy) => store.replication_factor = 1,
            Some(InjectedBug::NoGrace) => {
                (queue.committed_grace, queue.committed_grace_remote) = (Duration::ZERO, Duration::ZERO);
            }
            Some(InjectedBug::EarlyRetention) => store.retention_labels.clear(),
            _ => {}
        }
        if bug.is_some_and(|bug| bug == InjectedBug::RepairDisabled || bug.is_repaired()) {
            (store.repair.lost_after, store.repair.pass_interval) = (NEVER, NEVER);
        }
        Self {
            join,
            queue,
            store,
            query: query::Config::default(),
            busy_bytes_per_second: bucksaw_steering::BUSY_BYTES_PER_SECOND_DEFAULT,
            bug,
            version_seed: None,
            is_encrypted: false,
        }
    }

    /// The same with this codec for batches from the queue.
    pub(crate) fn with_quick_codec(mut self, codec: Codec) -> Self {
        self.store.codec_quick = codec;
        self
    }

    /// Minimal memory for queries: many small partial results, and no block cache.
    pub(crate) fn with_little_memory(self) -> Self {
        Self { query: query::Config { result_bytes_max: 16 << 10, cache_bytes_max: 0, ..self.query }, ..self }
    }
}
