//! How far each file is acknowledged.
//!
//! Batches are acknowledged by number, over all files. Each file remembers a few pairs of a batch and the offset after it, so
//! that its cost does not grow with the buffer. While no more than [`PAIRS_MAX`] batches of a file wait, its offset is exact;
//! otherwise it may be somewhat lower.

use std::collections::{HashMap, VecDeque};

use bucksaw_tailer::FileKey;

/// The most batches that are remembered of one file. Older ones are thinned.
const PAIRS_MAX: usize = 16;

/// The acknowledged offsets of files with batches since the start.
#[derive(Debug, Default)]
pub(super) struct AckedOffsets(HashMap<FileKey, FileAcks>);

#[derive(Debug)]
struct FileAcks {
    /// All bytes before it are acknowledged.
    acked: u64,
    /// Numbers of unacknowledged batches and the offsets after them, in order.
    unacked: VecDeque<(u64, u64)>,
}

impl AckedOffsets {
    /// Notes that a batch has the bytes from one offset to another. Batches before `first_unacked` are acknowledged.
    pub(super) fn note(&mut self, key: FileKey, batch: u64, (from, to): (u64, u64), first_unacked: u64) {
        let file = self.0.entry(key).or_insert(FileAcks { acked: from, unacked: VecDeque::new() });
        file.settle(first_unacked);
        if file.unacked.len() == PAIRS_MAX {
            // Of the older half every second pair goes, the first ones of pairs.
            let mut at = 0;
            file.unacked.retain(|_| {
                at += 1;
                at % 2 == 0 || at > PAIRS_MAX / 2
            });
        }
        file.unacked.push_back((batch, to));
    }

    /// The offset up to which a file is acknowledged, if it was read up to `read`.
    pub(super) fn acked(&mut self, key: FileKey, read: u64, first_unacked: u64) -> u64 {
        let Some(file) = self.0.get_mut(&key) else { return read };
        file.settle(first_unacked);
        if file.unacked.is_empty() { read } else { file.acked.min(read) }
    }

    /// Forgets the files that are not known any more.
    pub(super) fn retain(&mut self, is_known: impl Fn(FileKey) -> bool) {
        self.0.retain(|key, _| is_known(*key));
    }
}

impl FileAcks {
    fn settle(&mut self, first_unacked: u64) {
        while let Some((_, to)) = self.unacked.front().copied().filter(|(batch, _)| *batch < first_unacked) {
            self.acked = to;
            self.unacked.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_acknowledged_up_to_its_last_acknowledged_batch() {
        let (mut offsets, a, b) = (AckedOffsets::default(), FileKey(1), FileKey(2));
        assert_eq!(offsets.acked(a, 70, 0), 70);
        offsets.note(a, 0, (10, 20), 0);
        offsets.note(b, 1, (0, 5), 0);
        offsets.note(a, 2, (20, 30), 0);
        let mut acked = |first_unacked| [offsets.acked(a, 30, first_unacked), offsets.acked(b, 5, first_unacked)];
        assert_eq!([acked(0), acked(1), acked(2), acked(3)], [[10, 0], [20, 0], [20, 5], [30, 5]]);
        offsets.retain(|key| key == b);
        assert_eq!(offsets.0.len(), 1);
    }

    #[test]
    fn many_batches_are_thinned_and_never_counted_too_early() {
        let (mut offsets, key) = (AckedOffsets::default(), FileKey(1));
        for batch in 0..1_000 {
            offsets.note(key, batch, (batch * 10, batch * 10 + 10), 0);
        }
        assert!(offsets.0[&key].unacked.len() <= PAIRS_MAX);
        let mut before = 0;
        for first_unacked in 0..=1_000 {
            let acked = offsets.acked(key, 10_000, first_unacked);
            assert!(acked <= first_unacked * 10 && acked >= before, "{first_unacked}: {acked}");
            before = acked;
        }
        assert_eq!(before, 10_000);
    }
}
