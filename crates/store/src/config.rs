//! Settings of the store.

use std::time::Duration;

use bucksaw_segment::Codec;

use crate::repair;
use crate::stream_retention::LabelRetention;

/// Settings of the store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of text in a full segment: the target of gathering and compaction.
    pub segment_bytes: u64,
    /// Maximum bytes of text per batch, if less than `segment_bytes`: frames with overlapping times are in memory together.
    pub gather_bytes: u64,
    /// Memory, in bytes, for the blocks that one merge has open. Segments that need more are not merged.
    pub merge_bytes_max: u64,
    /// Age at which pending segments are gathered even if they are few. Queries find them before; a longer age extends the
    /// time in which a power cut can destroy `fast` records.
    pub gather_age: Duration,
    /// Bytes of text in a block: the unit of reading, compression and parallel search. Larger blocks compress better,
    /// smaller ones can be skipped more precisely.
    pub block_bytes: u64,
    /// Codec for text that must be stored quickly, or that is too little to stay as it is. If it differs from `codec_final`,
    /// large segments are recompressed in the background.
    pub codec_quick: Codec,
    /// Codec for text that stays: small, and quick to search.
    pub codec_final: Codec,
    /// Compaction backlog, in bytes of text, above which background work is not throttled. The default is the input of the
    /// largest merge, so that no single merge exceeds it.
    pub backlog_bytes_max: u64,
    /// Replicas from other stores are refused if they would leave less free disk space than this, in bytes.
    pub free_bytes_min: u64,
    /// On how many stores each record is kept.
    pub replication_factor: usize,
    /// How long a store sends its replicas to the same stores. Segments with other replicas are not merged with each other.
    pub replica_group_age: Duration,
    /// Segments go to the trash when their newest record and their newest arrival are older.
    pub retention_age: Option<Duration>,
    /// Streams that are kept for another age. The first rule that has a stream decides. All stores have the same rules.
    pub retention_labels: Vec<LabelRetention>,
    /// Bytes of all files above which the oldest segments go to the trash.
    pub retention_bytes: Option<u64>,
    /// Memory of the index, in bytes. When it is used up, the store accepts nothing; a store whose index needs 1.5 times as
    /// much is not opened.
    pub index_bytes_max: u64,
    /// Settings of repair.
    pub repair: repair::Config,
    /// How long a segment stays in the trash, from where an operator can restore it.
    pub trash_age: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            segment_bytes: 128 << 20,
            gather_bytes: 128 << 20,
            merge_bytes_max: u64::MAX,
            gather_age: Duration::from_secs(10),
            block_bytes: 16 << 20,
            codec_quick: Codec::Lz4,
            codec_final: Codec::Columns(3),
            backlog_bytes_max: 2 << 30,
            free_bytes_min: 0,
            replication_factor: 1,
            replica_group_age: Duration::from_secs(3_600),
            retention_age: Some(Duration::from_secs(7 * 24 * 3600)),
            retention_labels: Vec::new(),
            retention_bytes: None,
            index_bytes_max: u64::MAX,
            repair: repair::Config::default(),
            trash_age: Duration::from_secs(3600),
        }
    }
}

impl Config {
    /// Bytes of text in a full block: at most those of a full segment.
    pub(crate) fn full_block_bytes(&self) -> u64 {
        self.block_bytes.min(self.segment_bytes)
    }

    /// Maximum bytes of text per batch.
    pub(crate) fn gather_bytes_max(&self) -> u64 {
        self.gather_bytes.min(self.segment_bytes)
    }

    /// The codec whose blocks are recompressed, if any.
    pub(crate) fn recompress_codec(&self) -> Option<Codec> {
        (self.codec_quick != self.codec_final).then_some(self.codec_quick)
    }
}
