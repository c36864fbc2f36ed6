//! What can be set about the store.

use std::time::Duration;

use bucksaw_segment::Codec;

use crate::repair;

/// Settings of the store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of text that are gathered into one segment, and that compaction aims at.
    pub segment_bytes: u64,
    /// Bytes of text that are gathered at once, where that is less: frames whose times overlap are in memory together.
    pub gather_bytes: u64,
    /// Memory for the blocks that one merge has open at a time, in bytes. Segments that need more stay as they are.
    pub merge_bytes_max: u64,
    /// Pending segments are gathered at this age even when they are few. They can be searched all the while, so there is
    /// no hurry but for `fast` records, which a power cut could take until then.
    pub gather_age: Duration,
    /// Bytes of text in a block: the unit of reading, packing and parallel search. Larger blocks pack better, smaller
    /// ones are skipped more finely.
    pub block_bytes: u64,
    /// How text is packed when that has to be quick, or when there is too little of it to stay as it is. Where this is
    /// another codec, what is large enough is packed anew in the background.
    pub codec_quick: Codec,
    /// How text is packed for good: small, and quick to search.
    pub codec_final: Codec,
    /// Of a hundred parts of its time, so many at least are left for gathering, and as many for merging, while queries
    /// run: 1 to 100. More keeps the store in better order under queries that never end, fewer makes these quicker.
    pub share_percent_min: u32,
    /// When more text than this waits in the queue, is due to be merged or packed anew, in bytes, queries are not given
    /// way to. The default is what the largest merge reads: one merge, however large, is no reason to hurry.
    pub backlog_bytes_max: u64,
    /// Copies of other stores' segments are refused when they would leave less room than this on the disk, in bytes.
    pub free_bytes_min: u64,
    /// On how many stores each record is kept.
    pub replication_factor: usize,
    /// Segments whose newest record, and newest arrival, are older go to the trash.
    pub retention_age: Option<Duration>,
    /// When the files take more than this together, the oldest go to the trash.
    pub retention_bytes: Option<u64>,
    /// Memory for what is known of the segments, in bytes. When it is used up, nothing comes to the store; and a store that takes
    /// half more is not opened.
    pub index_bytes_max: u64,
    /// How copies that are missing are made.
    pub repair: repair::Config,
    /// How long what is in the trash can still be taken out by hand.
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
            share_percent_min: 20,
            backlog_bytes_max: 2 << 30,
            free_bytes_min: 0,
            replication_factor: 1,
            retention_age: Some(Duration::from_secs(7 * 24 * 3600)),
            retention_bytes: None,
            index_bytes_max: u64::MAX,
            repair: repair::Config::default(),
            trash_age: Duration::from_secs(3600),
        }
    }
}

impl Config {
    /// Bytes of text of a full block: no more than of a full segment.
    pub(crate) fn full_block_bytes(&self) -> u64 {
        self.block_bytes.min(self.segment_bytes)
    }

    /// Bytes of text that are gathered at once.
    pub(crate) fn gather_bytes_max(&self) -> u64 {
        self.gather_bytes.min(self.segment_bytes)
    }

    /// The codec whose blocks are packed anew, if there is one.
    pub(crate) fn recompress_codec(&self) -> Option<Codec> {
        (self.codec_quick != self.codec_final).then_some(self.codec_quick)
    }
}
