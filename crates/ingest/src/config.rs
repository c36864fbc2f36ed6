//! What can be set about the queue.

use std::time::Duration;

/// Settings of the queue.
#[derive(Clone, Debug)]
pub struct Config {
    /// A segment is closed when its file reaches this size, in bytes. Larger files cost less to hand over, smaller ones
    /// are handed over sooner.
    pub segment_bytes_max: u64,
    /// A segment is closed at this age.
    pub segment_age_max: Duration,
    /// How many `fast` segments are appended to at the same time. One core can fill a lane at memory speed.
    pub fast_slots: usize,
    /// How long a committed segment stays readable, for those who still read it.
    pub committed_grace: Duration,
    /// The same while stores of other nodes take from the queue; half of it while the disk is full. An answer of all nodes
    /// looks at each of them at another moment, all within ten seconds (`query`'s patience for heads): what left here before
    /// one of them was looked at must have been found there.
    pub committed_grace_remote: Duration,
    /// How many committed segments of the last run are kept at a start: of more the oldest are removed. A node that stops
    /// again and again before the grace period is over would collect them, until no descriptor is left for a start.
    pub committed_segments_max: usize,
    /// Nothing is accepted while the file system has less room than this, in bytes: the store needs room to write
    /// smaller copies of what is queued before the queue's files can go.
    pub free_bytes_min: u64,
    /// `durable` records that wait for their sync are held in memory, at most this many bytes.
    pub unsynced_bytes_max: u64,
    /// Memory for what is known of each segment, in bytes: some 1.4 KB each, and more with many streams. When they take more,
    /// nothing is accepted until stores have taken some; from half of it on, segments are closed by their size alone.
    pub index_bytes_max: u64,
    /// How many idempotency keys are remembered, for a day at most: in some 80 bytes each. Of more the oldest are forgotten,
    /// and a retry of their batches may be new records.
    pub keys_max: usize,
    /// How many sections behind the first of their batch are remembered, of all batches together: in some 96 bytes each. A
    /// section has up to 1 MiB of text.
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
            keys_max: 900_000,
            key_sections_max: 1 << 18,
        }
    }
}
