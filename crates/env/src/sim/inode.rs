//! The bytes of one file: live bytes, durable bytes, and the pending changes between them.
//!
//! Unless a sync has failed, applying the pending changes to the durable bytes gives the live bytes.

use std::ops::Range;

use super::{Entropy, PowerCutLoss};

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<ContentChange>,
    /// Open handles. An open file uses space even without a name.
    pub(super) open_handles: usize,
    /// The number that [`crate::FileStat`] shows. Unlike an [`super::names::InodeNumber`] it may be reused.
    pub(super) number: u64,
    /// Milliseconds since 1970.
    pub(super) modified_ms: u64,
}

#[derive(Clone, Debug)]
enum ContentChange {
    Write { at: usize, bytes: Vec<u8> },
    Resize { size: usize },
}

impl Inode {
    /// A file whose bytes are durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { live: bytes.clone(), durable: bytes, ..Self::default() }
    }

    /// The same with this number and time.
    pub(super) fn with_state(self, number: u64, modified_ms: u64) -> Self {
        Self { number, modified_ms, ..self }
    }

    /// A copy without open handles.
    pub(super) fn without_handles(&self) -> Self {
        Self { open_handles: 0, ..self.clone() }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.pending.push(ContentChange::Write { at: self.live.len(), bytes: bytes.to_vec() });
        self.live.extend_from_slice(bytes);
    }

    pub(super) fn resize(&mut self, size: usize) {
        self.pending.push(ContentChange::Resize { size });
        self.live.resize(size, 0);
    }

    /// Bytes that the next sync makes durable.
    pub(super) fn unsynced_bytes(&self) -> u64 {
        let bytes = self.pending.iter().map(|change| match change {
            ContentChange::Write { bytes, .. } => bytes.len() as u64,
            ContentChange::Resize { .. } => 0,
        });
        bytes.sum()
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A failed sync marks the pages as clean: they are still read, but no later sync writes them.
    pub(super) fn fail_sync(&mut self) {
        self.pending.clear();
    }

    /// Flips a bit in live bytes, durable bytes and pending writes; false if the live bytes end before it.
    pub(super) fn flip_bit(&mut self, byte: usize, mask: u8) -> bool {
        let flip = |bytes: &mut [u8], index: Option<usize>| {
            index.and_then(|index| bytes.get_mut(index)).map(|byte| *byte ^= mask).is_some()
        };
        let is_flipped = flip(&mut self.live, Some(byte));
        if is_flipped {
            flip(&mut self.durable, Some(byte));
            for change in &mut self.pending {
                if let ContentChange::Write { at, bytes } = change {
                    flip(bytes, byte.checked_sub(*at));
                }
            }
        }
        is_flipped
    }

    /// Whether it has durable bytes and pending changes.
    pub(super) fn is_half_synced(&self) -> bool {
        !self.durable.is_empty() && !self.pending.is_empty()
    }

    /// Truncates live bytes, durable bytes and pending writes; false if the file is not longer than `size`.
    pub(super) fn truncate_all(&mut self, size: usize) -> bool {
        let is_longer = self.live.len() > size;
        if is_longer {
            self.live.truncate(size);
            self.durable.truncate(size);
            for change in &mut self.pending {
                match change {
                    ContentChange::Write { at, bytes } => bytes.truncate(size.saturating_sub(*at)),
                    ContentChange::Resize { size: to } => *to = size.min(*to),
                }
            }
            self.pending.retain(|change| !matches!(change, ContentChange::Write { bytes, .. } if bytes.is_empty()));
        }
        is_longer
    }

    /// Zeroes a range of live bytes, durable bytes and pending writes; false if the range was zero.
    pub(super) fn zero_range(&mut self, range: Range<usize>) -> bool {
        let zero = |bytes: &mut [u8], range: Range<usize>| {
            let end = range.end.min(bytes.len());
            let bytes = bytes.get_mut(range.start.min(end)..end).unwrap_or_default();
            let is_changed = bytes.iter().any(|byte| *byte != 0);
            bytes.fill(0);
            is_changed
        };
        let is_changed = zero(&mut self.live, range.clone());
        zero(&mut self.durable, range.clone());
        for change in &mut self.pending {
            if let ContentChange::Write { at, bytes } = change {
                zero(bytes, range.start.saturating_sub(*at)..range.end.saturating_sub(*at));
            }
        }
        is_changed
    }

    /// The bytes after a power cut.
    pub(super) fn after_power_cut(&self, how: PowerCutLoss, rng: &Entropy) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match how {
                PowerCutLoss::All => {}
                PowerCutLoss::None => change.apply(&mut bytes),
                PowerCutLoss::Torn => change.tear(&mut bytes, rng),
            }
        }
        bytes
    }
}

impl ContentChange {
    fn apply(&self, target: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                // If the file is shorter, a failed sync has dropped the bytes before: a hole.
                extend_to(target, *at, || 0);
                overwrite(target, *at, bytes);
            }
            Self::Resize { size } => target.resize(*size, 0),
        }
    }

    /// Applies the change in part, as a disk does that loses power meanwhile.
    fn tear(&self, target: &mut Vec<u8>, rng: &Entropy) {
        let Self::Write { at, bytes } = self else {
            if rng.one_in(2) {
                self.apply(target);
            }
            return;
        };
        let part = rng.below(bytes.len() + 1);
        let (written, length) = match rng.below(4) {
            0 => (bytes.len(), bytes.len()),
            1 => (0, 0),
            2 => (part, part),
            // The new length is durable, not all of the bytes.
            _ => (part, bytes.len()),
        };
        if length == 0 {
            return;
        }
        let garbage = rng.one_in(4);
        let mut fill = || if garbage { rng.below(256).to_le_bytes()[0] } else { 0 };
        extend_to(target, *at, &mut fill);
        overwrite(target, *at, bytes.get(..written).unwrap_or(bytes));
        extend_to(target, at + length, &mut fill);
    }
}

/// Extends `target` to `size` bytes if it is shorter.
fn extend_to(target: &mut Vec<u8>, size: usize, fill: impl FnMut() -> u8) {
    target.resize_with(target.len().max(size), fill);
}

/// Writes `bytes` into `target` at `at`, which is not beyond its end.
fn overwrite(target: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = target.len().min(at + bytes.len());
    target.splice(at..end, bytes.iter().copied());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A file with `synced` durable and `rest` appended since.
    fn inode(synced: &[u8], rest: &[&[u8]]) -> Inode {
        let mut node = Inode::durable(synced.to_vec());
        for part in rest {
            node.append(part);
        }
        node
    }

    /// The outcomes of many seeds.
    fn torn_outcomes(node: &Inode) -> BTreeSet<Vec<u8>> {
        (0..2_000).map(|seed| node.after_power_cut(PowerCutLoss::Torn, &Entropy::seeded(seed))).collect()
    }

    #[test]
    fn torn_writes_have_every_possible_outcome() {
        let outcomes = torn_outcomes(&inode(b"s", &[b"ab", b"cd"]));
        let check = |shape: &[u8]| assert!(outcomes.contains(shape), "no seed gives {}", shape.escape_ascii());
        check(b"s");
        check(b"sa");
        check(b"sab");
        check(b"sabc");
        check(b"sabcd");
        check(b"s\0\0cd");
        check(b"sa\0cd");
        check(b"s\0\0c");
        check(b"s\0\0");
        check(b"sab\0\0");
        let garbage = |bytes: &Vec<u8>| bytes.ends_with(b"cd") && !b"a\0".contains(&bytes[1]);
        assert!(outcomes.iter().any(garbage));
        assert!(outcomes.iter().all(|bytes| bytes.starts_with(b"s") && bytes.len() <= 5));
    }

    #[test]
    fn large_writes_are_lost_or_kept_whole_as_often_as_small_ones() {
        let node = inode(b"", &[&[b'x'; 10_000]]);
        let found = |seed| node.after_power_cut(PowerCutLoss::Torn, &Entropy::seeded(seed));
        let count = |want: &[u8]| (0..400).filter(|seed| found(*seed) == want).count();
        assert!((70..130).contains(&count(b"")));
        assert!((70..130).contains(&count(&[b'x'; 10_000])));
    }

    #[test]
    fn a_truncation_may_be_lost_while_a_later_write_is_not() {
        let mut node = inode(b"abcd", &[]);
        node.resize(1);
        node.append(b"X");
        let outcomes = torn_outcomes(&node);
        let check = |shape: &[u8]| assert!(outcomes.contains(shape), "no seed gives {}", shape.escape_ascii());
        check(b"abcd");
        check(b"a");
        check(b"aX");
        check(b"aXcd");
    }

    #[test]
    fn a_failed_sync_leaves_a_hole() {
        let mut node = inode(b"a", &[b"bc"]);
        node.fail_sync();
        node.append(b"d");
        node.sync();
        assert_eq!(node.live(), b"abcd");
        assert_eq!(node.after_power_cut(PowerCutLoss::None, &Entropy::seeded(0)), b"a\0\0d");
    }

    #[test]
    fn a_flipped_bit_is_flipped_in_live_and_durable_bytes() {
        let mut node = inode(b"a", &[b"a", b"a"]);
        assert!(node.flip_bit(0, 2) && node.flip_bit(2, 2));
        assert_eq!(node.live(), b"cac");
        assert_eq!(node.after_power_cut(PowerCutLoss::None, &Entropy::seeded(0)), b"cac");
        assert_eq!(node.after_power_cut(PowerCutLoss::All, &Entropy::seeded(0)), b"c");
        assert!(!node.flip_bit(3, 2));
    }

    #[test]
    fn a_truncated_file_is_truncated_in_live_and_durable_bytes() {
        let mut node = inode(b"ab", &[b"cd", b"ef"]);
        assert!(node.truncate_all(3) && !node.truncate_all(3));
        assert_eq!(node.live(), b"abc");
        assert_eq!(node.after_power_cut(PowerCutLoss::None, &Entropy::seeded(0)), b"abc");
        assert!(node.truncate_all(1));
        node.append(b"x");
        assert_eq!(
            (node.live(), node.after_power_cut(PowerCutLoss::None, &Entropy::seeded(0))),
            (&b"ax"[..], b"ax".to_vec())
        );
        assert_eq!(node.after_power_cut(PowerCutLoss::All, &Entropy::seeded(0)), b"a");
    }

    #[test]
    fn a_zeroed_page_is_zero_in_live_and_durable_bytes() {
        let mut node = inode(b"ab", &[b"cd", b"ef"]);
        assert!(node.zero_range(1..5) && !node.zero_range(1..5) && !node.zero_range(9..12));
        assert_eq!(node.live(), b"a\0\0\0\0f");
        assert_eq!(node.after_power_cut(PowerCutLoss::None, &Entropy::seeded(0)), b"a\0\0\0\0f");
        assert_eq!(node.after_power_cut(PowerCutLoss::All, &Entropy::seeded(0)), b"a\0");
    }
}
