//! The interface of a store, as the node and its queries use it.
//!
//! A queue's segments are appended in batches; the store makes them durable and searchable, and removes them after
//! their retention. A query selects the blocks to read ([`Store::select`]); each block is the work of one scan job.
//! [`SegmentStore`](crate::SegmentStore) reads blocks from its files; a store over a database can fetch them when they
//! are opened.
//!
//! A store over a database has no blocks but [ranges of ids](RecordRange). It gets the expression, so that the database
//! can leave out records that cannot match; the query checks each record that it returns.
//!
//! A count has no call of its own. It needs the ids of its matches, because other nodes may hold the same records, so it
//! selects and scans blocks as a search does, without building lines.
//!
//! Replicas, repair and offline repair are not part of the interface. They send, compare and verify files, and a database
//! replicates by itself. [`Replication`](crate::Replication) has them for the segment store.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::{FetchThreshold, Queue, QueueBacklog, SegmentView};
use bucksaw_record::{Expr, Id, LabelScope, Labels, Millis};
use bucksaw_segment::stored::{ReplicaGroup, SearchableBlock};
use bucksaw_segment::{Block, ReadError, RecordSummary, StreamSlice};

use crate::batch_sink::SinkStatus;
use crate::clock_guard::Suspension;
use crate::encryption_status::{EncryptionStatus, KeylessSegment};
use crate::erasure::{ErasureBook, ErasureSet, ErasureStatus};
use crate::error::StoreError;
use crate::foreground::Foreground;
use crate::record_range::RecordRange;
use crate::search_share::{ReplicaState, SearchShare, ShareStatus};
use crate::stored_segment::{DamagedSegment, StoredSegment};
use crate::stream_retention::StreamRetention;

/// Keeps records fetched from queues, and searches them.
pub trait Store: Debug + Send + Sync {
    /// The backlog at which a queue's segments are worth a batch.
    fn fetch_threshold(&self) -> FetchThreshold;

    /// Bytes of text to fetch for the next batch, at least 1.
    fn batch_bytes_max(&self) -> u64;

    /// Stores a batch: after return its records are durable, and in every later selection.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing of the batch is stored.
    fn append(&self, batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError>;

    /// The blocks to read for a search or a count, as of now. Removes from `queued` the ids of queue segments whose records
    /// the store has. So a query that lists the queue first finds each record of a batch that moves meanwhile exactly once.
    fn select(&self, filter: &BlockSelector<'_>, queued: &mut HashSet<Id>) -> Selection;

    /// The replicated records of a range of ids, for a comparison with other stores; `None` without replicas.
    fn replica_state(&self, _: (Id, Id)) -> Option<ReplicaState> {
        None
    }

    /// Changes with what [`Self::replica_state`] says, except for damage; much cheaper. `None` without replicas.
    fn replica_version(&self) -> Option<u64> {
        None
    }

    /// The time before which answers find nothing, by the retention age: records whose time and arrival are both earlier
    /// are past their retention. `None` without a retention age, and while the wall clock is not trusted.
    fn answers_since(&self) -> Option<Millis>;

    /// The same time for each stream, as streams may be kept for different ages.
    fn retention(&self) -> StreamRetention {
        StreamRetention::of_all(self.answers_since())
    }

    /// Removes records that are past their retention, also from the queue.
    fn retain(&self, queue: &Queue);

    /// Does the next piece of background maintenance, such as a merge. Returns the bytes of text that it rewrote; 0 when
    /// nothing is due. For one thread at a time. Polls `is_stopped` between blocks.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing has changed.
    fn maintain(&self, queue: &Queue, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError>;

    /// The erasures in effect: what they select is in no answer. The store applies them to its blocks itself.
    fn erasures(&self) -> ErasureSet {
        ErasureSet::default()
    }

    /// Where erasures are kept; `None` for a store that has none.
    fn erasure_book(&self) -> Option<&Arc<ErasureBook>> {
        None
    }

    /// Scans or rewrites the next file for the erasures, as [`Self::maintain`] does besides its other work. Returns the bytes of
    /// text in it; 0 when nothing is due.
    ///
    /// # Errors
    /// [`StoreError`]; the file is due again.
    fn sweep_erasures(&self, _queue: &Queue, _is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// How far an erasure is on this node; `None` if it is not known.
    fn erasure_status(&self, _id: Id, _queue: &Queue) -> Option<ErasureStatus> {
        None
    }

    /// Marks work that a client waits for, so that background work is throttled.
    fn foreground(&self) -> &Arc<Foreground>;

    /// Sizes, times and damage, for facts and status.
    fn status(&self) -> StoreStatus;

    /// The number of stores that must hold a batch before the queues commit it; 1 for a store that replicates by itself.
    fn replication_factor(&self) -> usize {
        1
    }

    /// How long a batch is sent to the same other stores as the one before.
    fn replica_group_age(&self) -> Duration {
        Duration::MAX
    }

    /// Removes a batch without a replica on another store: its records return to their queues.
    fn withdraw(&self, _segment: &StoredSegment) {}

    /// Whether the store takes no batches now, because its index memory is used up. Then the queue refuses records.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether the store takes no batches now, because a database failed a moment ago. The queue goes on.
    fn is_paused(&self) -> bool {
        false
    }

    /// Whether the store is so far behind that its work is not throttled.
    fn is_backlogged(&self) -> bool {
        false
    }

    /// Sets the bytes of text in the local queue, which are part of the backlog.
    fn set_queued_bytes(&self, _text_bytes: u64) {}

    /// Ends all throttling, also of running work: the node is stopping.
    fn stop_throttling(&self) {}

    /// The identity of the database, if several stores share its records: equal on all nodes that use it. One node reads
    /// it for an answer of all, and no node is missing from an answer because its store is.
    fn database_id(&self) -> Option<String> {
        None
    }

    /// Number of files that the store keeps open.
    fn open_files(&self) -> usize {
        0
    }
}

/// Queue segments to store together.
#[derive(Debug)]
pub struct StoreBatch<'a> {
    /// The segments.
    pub segments: &'a [SegmentView],
    /// The backlog of their queues before they were fetched.
    pub backlog: QueueBacklog,
    /// The queue of this node, if it has one.
    pub queue: Option<&'a Queue>,
    /// The stores that will have its records, this one included; `None` for a single one.
    pub group: Option<ReplicaGroup>,
}

/// What became of a batch.
#[derive(Debug)]
pub struct StoredBatch {
    /// Bytes of text in the batch.
    pub text_bytes: u64,
    /// The file to replicate before the queues may commit. `None` when the batch has no records, or when the store
    /// replicates by itself.
    pub segment: Option<Arc<StoredSegment>>,
}

/// Which blocks a query has to read.
#[derive(Clone, Copy)]
pub struct BlockSelector<'a> {
    /// Whether records within a summary may be in the answer.
    pub may_contain: &'a dyn Fn(&RecordSummary) -> bool,
    /// Whether records of a stream may match.
    pub may_match: &'a dyn Fn(&Labels) -> bool,
    /// When the records of each stream are past their retention.
    pub retention: &'a StreamRetention,
    /// First and last time of the search, for damage and trash.
    pub times: (Millis, Millis),
    /// The lowest requested id, inclusive, and the highest, exclusive.
    pub ids: (Id, Id),
    /// The condition on records. A store may return records that do not meet it.
    pub expr: &'a Expr,
    /// If set, only this stream is requested.
    pub stream: Option<&'a Labels>,
    /// If set, only the streams of this scope are requested.
    pub scope: Option<&'a LabelScope>,
    /// If set, the part of the search that this store does.
    pub share: Option<&'a SearchShare>,
}

/// Blocks to read, and what the search does without.
#[derive(Debug, Default)]
pub struct Selection {
    /// The blocks.
    pub blocks: Vec<BlockRef>,
    /// The ranges of ids to read instead of blocks. They do not overlap.
    pub ranges: Vec<Arc<dyn RecordRange>>,
    /// Segments of which at least one block is selected.
    pub segments_read: u64,
    /// Segments of which none is.
    pub segments_skipped: u64,
    /// Bytes of text in blocks that are not selected.
    pub bytes_skipped: u64,
    /// Names of damaged files whose records may be missing from the answer.
    pub damaged: Vec<String>,
    /// Segments without their keys whose records may be missing from the answer.
    pub keyless: Vec<KeylessSegment>,
    /// Segments in the trash with records of the time of the search.
    pub trashed_segments: u64,
    /// Records of these segments.
    pub trashed_records: u64,
    /// What has become of the share of the search.
    pub share: ShareStatus,
}

/// One block of a source: the unit of reading and of parallel search.
#[derive(Clone, Debug)]
pub struct BlockRef {
    /// Where it is read from.
    pub source: Arc<dyn BlockSource>,
    /// Its index there.
    pub index: usize,
}

/// A stored segment, or what takes its place in another store: blocks that are opened one by one.
///
/// An index that the source does not have yields `None`, an empty list or an error.
pub trait BlockSource: Debug + Send + Sync {
    /// An id that is never used for other content, so that blocks can be cached by it.
    fn id(&self) -> Id;

    /// The name in reports of damage.
    fn name(&self) -> String;

    /// What a block contains.
    fn summary(&self, index: usize) -> Option<&RecordSummary>;

    /// Whether the numbers of a summary are those of the records that are read; otherwise they may be higher.
    fn is_exact(&self, _index: usize) -> bool {
        true
    }

    /// The labels of the streams in a block.
    fn streams(&self, index: usize) -> Vec<&Labels>;

    /// The streams in a block with their rows and the length of their text, without the text itself.
    ///
    /// # Errors
    /// [`ReadError`].
    fn slices(&self, index: usize) -> Result<Vec<StreamSlice>, ReadError>;

    /// Whether a record of a block may have attributes. Cheap: a search calls it before it reads the block.
    fn may_have_attributes(&self, index: usize) -> bool;

    /// Memory, in bytes, that the scan of a block takes.
    fn scan_bytes(&self, index: usize) -> u64;

    /// The skip filter of a block; empty when it has none.
    ///
    /// # Errors
    /// [`ReadError`].
    fn filter(&self, index: usize) -> Result<Vec<u8>, ReadError>;

    /// Opens a block for a search.
    ///
    /// # Errors
    /// [`ReadError`].
    fn open(&self, index: usize) -> Result<SearchableBlock, ReadError>;

    /// Opens a block as text.
    ///
    /// # Errors
    /// [`ReadError`].
    fn open_text(&self, index: usize) -> Result<Block, ReadError>;

    /// Remembers damage that was found while a block was searched, and returns it as an error.
    fn mark_damaged(&self, index: usize, what: &'static str) -> ReadError;
}

/// Sizes, times and damage of a store.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    /// Stored segments.
    pub segments: usize,
    /// Records in them, copies counted.
    pub records: u64,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// Bytes of their files.
    pub stored_bytes: u64,
    /// The newest version of their format, or 0.
    pub version: u32,
    /// Bytes of the files when the store was opened.
    pub stored_bytes_at_open: u64,
    /// Memory, in bytes, of the index.
    pub index_bytes: u64,
    /// Maximum of `index_bytes`.
    pub index_bytes_max: u64,
    /// Whether the index takes three quarters of its memory.
    pub is_index_high: bool,
    /// The time of the first record.
    pub oldest: Option<Millis>,
    /// The time of the last record.
    pub newest: Option<Millis>,
    /// Segments in the trash, the longest there first.
    pub trash: Arc<Vec<TrashedSegment>>,
    /// Quarantined files, also those that are re-replicated.
    pub quarantined_files: Vec<DamagedSegment>,
    /// Segments with damaged blocks, also those that are re-replicated.
    pub damaged_segments: Vec<DamagedSegment>,
    /// Segments with damage that parity or the backup has replaced.
    pub rebuilt_segments: usize,
    /// Whether retention by age is suspended.
    pub suspension: Option<Suspension>,
    /// The database of the store, if it has one.
    pub database: Option<DatabaseStatus>,
    /// What gets the batches besides the segments, if anything does.
    pub sink: Option<SinkStatus>,
    /// Under which keys the segments are.
    pub encryption: EncryptionStatus,
}

/// The state of a database that a node writes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// Its address without credentials, such as `clickhouse://127.0.0.1:8123/logs`.
    pub address: String,
    /// Why the last call failed; `None` if it did not.
    pub failure: Option<String>,
    /// Since when no call has succeeded, if the last one failed.
    pub failing_since: Option<Millis>,
}

/// A segment in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedSegment {
    /// The file's name in the trash.
    pub name: String,
    /// When it was moved.
    pub since: Millis,
    /// The time of its first record.
    pub low: Millis,
    /// The time of its last record.
    pub high: Millis,
    /// Number of records; `None` if the file cannot be read.
    pub records: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
}
