//! The settings of the queue.

use std::time::Duration;

/// Settings of the queue.
#[derive(Clone, Debug)]
pub struct Config {
    /// A segment is closed when its file reaches this size, in bytes. Larger files cost less per fetch, smaller ones are
    /// fetched sooner.
    pub segment_bytes_max: u64,
    /// A segment is closed at this age.
    pub segment_age_max: Duration,
    /// The number of `fast` append slots. One core fills a slot at memory speed.
    pub fast_slots: usize,
    /// How long a committed segment stays readable.
    pub committed_grace: Duration,
    /// The same while stores of other nodes fetch segments; half of it while the disk is full. A query reads the nodes at
    /// different moments within ten seconds (the reply timeout of `query`), so a segment must stay longer than that.
    pub committed_grace_remote: Duration,
    /// The number of committed segments that a restart keeps; the oldest others are removed. Repeated restarts within the grace
    /// period would otherwise accumulate them until no file descriptor is left.
    pub committed_segments_max: usize,
    /// Nothing is accepted while the file system has fewer free bytes than this: the store needs space for stored segments
    /// before queue segments can be removed.
    pub free_bytes_min: u64,
    /// The maximum size of `durable` records that wait in memory for their sync, in bytes.
    pub unsynced_bytes_max: u64,
    /// Memory for the index of segments, in bytes; about 1.4 KB each, more with many streams. When it is used up, nothing is
    /// accepted until stores have fetched some; from half of it on, segments are closed by size only.
    pub index_bytes_max: u64,
    /// Memory for the newest frames, in bytes, from which [`Queue::take_recent`] saves one reader the read of the file.
    ///
    /// [`Queue::take_recent`]: crate::Queue::take_recent
    pub recent_bytes_max: usize,
    /// The maximum number of remembered idempotency keys, of about 80 bytes each. The oldest are forgotten first, and all after a
    /// day; a retry of a forgotten batch may be stored as new records.
    pub keys_max: usize,
    /// The maximum number of remembered sections over all batches. The first section of a batch does not count. Each takes about
    /// 96 bytes and stands for up to 1 MiB of text.
    pub key_sections_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            segment_bytes_max: 16 << 20,
            segment_age_max: Duration::from_secs(3),
            fast_slots: 2,
            committed_grace: Duration::from_secs(10),
            committed_grace_remote: Duration::from_secs(30),
            committed_segments_max: 256,
            free_bytes_min: 0,
            unsynced_bytes_max: 32 << 20,
            index_bytes_max: 128 << 20,
            recent_bytes_max: 0,
            keys_max: 900_000,
            key_sections_max: 1 << 18,
        }
    }
}
