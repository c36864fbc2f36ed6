//! What all nodes of a fleet have in common.

use std::time::Duration;

use bucksaw_ingest as ingest;
use bucksaw_node::balance;
use bucksaw_query as query;
use bucksaw_segment::Codec;
use bucksaw_store::{self as store, repair};

use crate::plant::Mutation;

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Settings of the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) join: Vec<String>,
    /// The replication factor that people were promised.
    pub(crate) copies: usize,
    pub(crate) queue: ingest::Config,
    pub(crate) shelf: store::Config,
    pub(crate) query: query::Config,
    pub(crate) balance: balance::Config,
    /// What is wrong with them on purpose.
    pub(crate) planted: Option<Mutation>,
    /// Draws the version that each start is of; the present one when there is none.
    pub(crate) mixes: Option<u64>,
}

impl Settings {
    /// Small files and short times, so that much happens soon.
    pub(crate) fn small(copies: usize, reserve: u64, join: Vec<String>, planted: Option<Mutation>) -> Self {
        let mut queue =
            ingest::Config { segment_bytes_max: 4 << 10, free_bytes_min: reserve, ..ingest::Config::default() };
        let mut shelf = store::Config {
            segment_bytes: 32 << 10,
            block_bytes: 4 << 10,
            gather_age: Duration::from_secs(4),
            codec_quick: Codec::Plain,
            codec_final: Codec::Lz4,
            free_bytes_min: reserve / 2,
            copies,
            repair: repair::Config {
                lost_after: Duration::from_secs(20),
                margin: Duration::from_secs(30),
                period: Duration::from_secs(60),
                again: Duration::from_secs(2),
                ..repair::Config::default()
            },
            ..store::Config::default()
        };
        match planted {
            Some(Mutation::OneCopy) => shelf.copies = 1,
            Some(Mutation::NoGrace) => (queue.committed_grace, queue.shared_grace) = (Duration::ZERO, Duration::ZERO),
            Some(Mutation::EarlyRetention) => shelf.retention_age = Some(Duration::from_secs(30)),
            _ => {}
        }
        if planted.is_some_and(|mutation| mutation == Mutation::RepairSkips || mutation.is_mended()) {
            (shelf.repair.lost_after, shelf.repair.period) = (NEVER, NEVER);
        }
        Self {
            join,
            copies,
            queue,
            shelf,
            query: query::Config::default(),
            balance: balance::Config::default(),
            planted,
            mixes: None,
        }
    }
    /// The same with next to no memory for queries: answers are found in many small parts, and nothing is kept.
    pub(crate) fn tight(self) -> Self {
        Self { query: query::Config { held_bytes_max: 16 << 10, opened_bytes_max: 0, ..self.query }, ..self }
    }
}
