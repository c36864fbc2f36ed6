//! Digests of the ids in a segment, by which stores find out that they hold the same records: `docs/format.md`, "Replica
//! digests".
//!
//! A batch is stored by a *replica group*, some stores that each have all of its records. Each of these stores merges its own
//! segments, so their files differ. The sum of the hashes of all ids does not depend on files: two stores whose sums for a
//! group and an [`Interval`] are equal hold the same records of it.
//!
//! The digests are kept by block, because a merge copies blocks without reading their ids.
//!
//! Invariant: digests that are lost or damaged are absent. Then all records are searched on each store.

use std::fmt;
use std::num::NonZeroU64;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_env::File;
use bucksaw_record::{Id, Millis};

use crate::Rows;
use crate::file_header::checksum_seed;

const MAGIC: [u8; 8] = *b"BSWREPL1";

/// Bytes of the length, the checksum and the magic after the digests.
const TAIL_LEN: usize = 16;

/// Minimum bytes of a digest. It bounds the memory that a count can cause.
const DIGEST_BYTES_MIN: usize = 17;

/// Maximum bytes of the digests: those of 2 million intervals.
const BYTES_MAX: u32 = 40 << 20;

/// Stores that each have all records of a batch, as a number that is the same on all of them. Equal records are only looked for
/// within a group, so a number that two groups share by chance makes nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaGroup(pub NonZeroU64);

impl fmt::Display for ReplicaGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// The times with the same upper 30 of 48 bits: 4.4 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interval(pub u32);

impl Interval {
    /// Bits of its number.
    pub const BITS: u32 = 48 - Self::MS_BITS;

    const MS_BITS: u32 = 18;

    /// The interval of the record with this id.
    pub fn of(id: Id) -> Self {
        Self((id.time().0 >> Self::MS_BITS) as u32)
    }

    /// The first and the last interval of ids from the first inclusive to the second exclusive.
    pub fn range((from, to): (Id, Id)) -> (Self, Self) {
        (Self::of(from), Self::of(Id::from_bits(to.bits().saturating_sub(1))))
    }

    /// The first of the 2^`bits` intervals in which it lies.
    #[must_use]
    pub fn coarse(self, bits: u32) -> Self {
        Self(self.0.checked_shr(bits).unwrap_or(0).checked_shl(bits).unwrap_or(0))
    }

    /// The last of the 2^`bits` intervals in which it lies.
    #[must_use]
    pub fn coarse_last(self, bits: u32) -> Self {
        Self(self.0 | !u32::MAX.checked_shl(bits).unwrap_or(0))
    }

    /// Its first millisecond.
    pub fn start(self) -> Millis {
        Millis(u64::from(self.0) << Self::MS_BITS)
    }
}

/// The sum of the hashes of some ids, modulo 2^128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdSum(pub u128);

impl IdSum {
    /// The sum of these ids, in any order.
    pub fn of(ids: impl IntoIterator<Item = Id>) -> Self {
        let mut sum = Self::default();
        ids.into_iter().for_each(|id| sum.add_run(id, 1));
        sum
    }

    /// Adds the ids of another sum.
    pub fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Adds `count` ids from `first` on, whose sequence numbers do not overflow.
    fn add_run(&mut self, first: Id, count: u32) {
        // The time and the upper bits of the producer are the same in all ids of a run.
        let (upper, lower) = ((first.bits() >> 64) as u64, first.bits() as u64);
        let mixed_upper = mix(upper ^ 0x9e37_79b9_7f4a_7c15);
        for step in 0..u64::from(count) {
            let lower = lower.wrapping_add(step);
            let high = mix(lower ^ mixed_upper);
            let low = mix(mixed_upper.rotate_left(32) ^ mix(lower ^ 0xd1b5_4a32_d192_ed03));
            self.0 = self.0.wrapping_add((u128::from(high) << 64) | u128::from(low));
        }
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The sum of the ids of a block in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDigest {
    /// The number of the block in its segment.
    pub block: u32,
    /// The interval.
    pub interval: Interval,
    /// The sum of all ids of the block in it.
    pub sum: IdSum,
}

/// The digests of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDigests {
    /// The stores that had its records when they were gathered.
    pub group: ReplicaGroup,
    /// One for each interval of each block that has records of it, by block and interval.
    digests: Vec<BlockDigest>,
}

impl ReplicaDigests {
    /// Those of a segment without blocks.
    pub(super) fn new(group: ReplicaGroup) -> Self {
        Self { group, digests: Vec::new() }
    }

    /// All digests, by block and interval.
    pub fn iter(&self) -> impl Iterator<Item = &BlockDigest> {
        self.digests.iter()
    }

    /// The digests of a block, without its number.
    pub(super) fn of_block(&self, block: usize) -> Vec<(Interval, IdSum)> {
        let from = self.digests.partition_point(|digest| (digest.block as usize) < block);
        let digests = self.digests.iter().skip(from).take_while(|digest| digest.block as usize == block);
        digests.map(|digest| (digest.interval, digest.sum)).collect()
    }

    /// Adds those of the next block, by interval.
    pub(super) fn push_block(&mut self, block: usize, sums: &[(Interval, IdSum)]) {
        let block = block as u32;
        self.digests.extend(sums.iter().map(|(interval, sum)| BlockDigest { block, interval: *interval, sum: *sum }));
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        self.digests.capacity() * size_of::<BlockDigest>()
    }

    /// The bytes between the blocks and the backup of the segment `id`.
    pub(super) fn encode(&self, id: Id) -> Vec<u8> {
        let mut out = self.group.0.get().to_le_bytes().to_vec();
        put_varint(&mut out, self.digests.len() as u64);
        let (mut block, mut interval) = (0, 0);
        for digest in &self.digests {
            put_varint(&mut out, u64::from(digest.block - block));
            interval = if digest.block == block { interval } else { 0 };
            put_varint(&mut out, u64::from(digest.interval.0 - interval));
            out.extend_from_slice(&digest.sum.0.to_le_bytes());
            (block, interval) = (digest.block, digest.interval.0);
        }
        out.extend_from_slice(&(out.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c_append(checksum_seed(id), &out).to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Decodes what precedes the tail.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let group = ReplicaGroup(NonZeroU64::new(reader.u64()?)?);
        let count = reader.varint()?;
        let capacity = usize::try_from(count).unwrap_or(usize::MAX).min(reader.len() / DIGEST_BYTES_MIN);
        let mut digests = Vec::with_capacity(capacity);
        let (mut block, mut interval) = (0_u32, 0_u32);
        for _ in 0..count {
            let step = reader.varint_u32()?;
            block = block.checked_add(step)?;
            interval = if step == 0 { interval } else { 0 };
            interval = interval.checked_add(reader.varint_u32()?)?;
            digests.push(BlockDigest { block, interval: Interval(interval), sum: IdSum(reader.u128()?) });
        }
        reader.is_empty().then_some(Self { group, digests })
    }

    /// Reads the digests of the segment `id`, which end at `end`, and the offset at which they start. `None` if there are none, and
    /// if they are damaged or cannot be read.
    pub(super) fn read(file: &dyn File, end: u64, id: Id) -> Option<(u64, Self)> {
        let tail_at = end.checked_sub(TAIL_LEN as u64)?;
        let tail = file.read_bytes(tail_at, TAIL_LEN).ok()?;
        let mut reader = ByteReader(&tail);
        let (length, crc) = (reader.u32()?, reader.u32()?);
        if reader.bytes(MAGIC.len())? != MAGIC || length > BYTES_MAX {
            return None;
        }
        let start = tail_at.checked_sub(u64::from(length))?;
        let bytes = file.read_bytes(start, length as usize + 4).ok()?;
        let is_intact = crc32c::crc32c_append(checksum_seed(id), &bytes) == crc;
        let digests = Self::decode(bytes.get(..length as usize)?)?;
        is_intact.then_some((start, digests))
    }
}

/// The sums of the ids of some rows, by interval.
pub(crate) fn interval_sums<'a>(rows: impl Iterator<Item = &'a Rows>) -> Vec<(Interval, IdSum)> {
    let mut sums: Vec<(Interval, IdSum)> = Vec::new();
    for run in rows.flat_map(|rows| &rows.runs) {
        let interval = Interval::of(run.first_id);
        let at = match sums.last() {
            Some((last, _)) if *last == interval => sums.len() - 1,
            _ => match sums.binary_search_by_key(&interval, |(known, _)| *known) {
                Ok(at) => at,
                Err(at) => {
                    sums.insert(at, (interval, IdSum::default()));
                    at
                }
            },
        };
        if let Some((_, sum)) = sums.get_mut(at) {
            sum.add_run(run.first_id, run.count);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bucksaw_record::Producer;
    use proptest::prelude::*;

    use super::super::tests::file;
    use super::*;

    const ID: Id = Id::from_bits(77);

    fn rows(runs: &[(u64, u64, u32, u32)]) -> Rows {
        let mut rows = Rows::default();
        for (ms, producer, sequence, count) in runs {
            rows.push_run(Id::new(Millis(*ms), Producer::new(*producer), *sequence), *count);
        }
        rows
    }

    #[test]
    fn sums_depend_on_the_ids_alone() {
        let sums = |runs: &[(u64, u64, u32, u32)]| interval_sums([&rows(runs)].into_iter());
        let whole = sums(&[(5, 1, 0, 10), (5, 2, 0, 4), (1 << 18, 1, 10, 3)]);
        assert_eq!(whole.iter().map(|(interval, _)| interval.0).collect::<Vec<_>>(), [0, 1]);
        let parts = [rows(&[(1 << 18, 1, 10, 3), (5, 2, 0, 4)]), rows(&[(5, 1, 4, 6), (5, 1, 0, 4)])];
        assert_eq!(interval_sums(parts.iter()), whole);
        for other in [[(5, 1, 0, 9)], [(5, 1, 1, 10)], [(6, 1, 0, 10)], [(5, 3, 0, 10)]] {
            assert_ne!(sums(&other), sums(&[(5, 1, 0, 10)]), "{other:?}");
        }
        let intervals = [(0, 0), ((1 << 18) - 1, 0), (1 << 18, 1), (u64::MAX >> 16, u32::MAX >> 2)];
        for (ms, interval) in intervals {
            let at = Interval::of(Id::new(Millis(ms), Producer::new(1), 0));
            assert!(at == Interval(interval) && at.start().0 <= ms && ms < at.start().0 + (1 << 18), "{ms}");
        }
        let coarse = |bits| (Interval(0b1101).coarse(bits).0, Interval(0b1101).coarse_last(bits).0);
        assert_eq!([0, 1, 3, 40].map(coarse), [(13, 13), (12, 13), (8, 15), (0, u32::MAX)]);
    }

    /// No sum of a few ids equals that of other ones, also if they follow each other.
    #[test]
    fn sums_of_different_ids_differ() {
        let mut seen = BTreeMap::new();
        for ms in 0..40 {
            for sequence in 0..40 {
                for count in 1..8 {
                    let sum = interval_sums([&rows(&[(ms, 9, sequence, count)])].into_iter());
                    let halves = [sum[0].1.0 as u64, (sum[0].1.0 >> 64) as u64];
                    for (half, bits) in halves.into_iter().enumerate() {
                        assert_eq!(seen.insert((half, bits), (ms, sequence, count)), None, "{ms} {sequence} {count}");
                    }
                }
            }
        }
    }

    fn digests() -> impl Strategy<Value = ReplicaDigests> {
        let block = prop::collection::btree_map(0..u32::MAX >> 4, any::<u128>(), 0..5);
        (1..u64::MAX, prop::collection::vec(block, 0..5)).prop_map(|(group, blocks)| {
            let mut digests = ReplicaDigests::new(ReplicaGroup(NonZeroU64::new(group).unwrap()));
            for (number, block) in blocks.iter().enumerate() {
                let sums: Vec<_> = block.iter().map(|(at, sum)| (Interval(*at), IdSum(*sum))).collect();
                digests.push_block(number, &sums);
                assert_eq!(digests.of_block(number), sums);
            }
            digests
        })
    }

    proptest! {
        #[test]
        fn digests_round_trip(digests in digests(), before in prop::collection::vec(any::<u8>(), 0..9)) {
            let bytes = [&before[..], &digests.encode(ID)].concat();
            let read = ReplicaDigests::read(&*file(&bytes), bytes.len() as u64, ID);
            prop_assert_eq!(read, Some((before.len() as u64, digests)));
        }

        #[test]
        fn damaged_digests_are_absent(digests in digests(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut bytes = digests.encode(ID);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(ReplicaDigests::read(&*file(&bytes), bytes.len() as u64, ID), None);
            let intact = digests.encode(ID);
            prop_assert_eq!(ReplicaDigests::read(&*file(&intact[..at]), at as u64, ID), None);
            prop_assert_eq!(ReplicaDigests::read(&*file(&intact), intact.len() as u64, Id::from_bits(78)), None);
        }

        #[test]
        fn hostile_digests_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(ReplicaDigests::decode(&bytes).is_none_or(|digests| digests.memory() <= bytes.len() * 2));
            bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&crc32c::crc32c_append(checksum_seed(ID), &bytes).to_le_bytes());
            bytes.extend_from_slice(&MAGIC);
            ReplicaDigests::read(&*file(&bytes), bytes.len() as u64, ID);
        }
    }
}
