//! What zstd alone makes of a text.

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// Pieces from all over the text that are packed first to see what that brings, and the bytes of each; in dense text as much
/// that what recurs within the reach of zstd's tables recurs in them too.
const PIECES: usize = 8;
const PIECE_BYTES: usize = 64 << 10;
const PIECE_BYTES_DENSE: usize = 128 << 10;

/// Where zstd does not make a [`DENSE`]th part of the pieces, hardly anything recurs, as in random words or base64.
const DENSE: usize = 4;

/// The highest level for which a lower one is tried, the bytes of the window at that level as a power of two, and the
/// thousandths of its output that a lower one may take. In dense texts it looks long for matches of some bytes, and those
/// bring little: 60 to 130 MB/s, where level 1 takes 200 to 900 and makes 880 to 1,010 thousandths.
const LEVEL_MAX: i32 = 3;
const WINDOW_LOG: u32 = 21;
const AS_GOOD: usize = 1_015;

/// What became of the pieces of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The level at which the text is packed best: that which was asked for, or a quicker one that packs as well.
    pub(crate) level: i32,
    /// Whether little recurs.
    pub(crate) is_dense: bool,
    bytes: usize,
    packed: usize,
}

impl Sample {
    /// Packs pieces of the text at a level, and where they are dense at lower ones.
    pub(crate) fn of(text: &[u8], level: i32) -> Option<Self> {
        let some = pieces(text, PIECE_BYTES);
        let is_dense = pack(&some, level.min(1))?.len() * DENSE > some.len();
        let some = if is_dense { pieces(text, PIECE_BYTES_DENSE) } else { some };
        let packed = pack(&some, level)?.len();
        let does = |lower: &i32| pack(&some, *lower).is_some_and(|lower| lower.len() <= packed * AS_GOOD / 1_000);
        let lower = if is_dense && level <= LEVEL_MAX { (1..level).find(does) } else { None };
        Some(Self { level: lower.unwrap_or(level), is_dense, bytes: some.len(), packed })
    }

    /// About how many bytes zstd alone makes of so many: rather more, where much recurs.
    pub(crate) fn expected(&self, bytes: usize) -> usize {
        (self.packed as f64 * bytes as f64 / self.bytes.max(1) as f64) as usize
    }
}

/// Pieces from all over a text.
fn pieces(text: &[u8], bytes: usize) -> Vec<u8> {
    let step = text.len().div_ceil(PIECES).max(1);
    text.chunks(step).flat_map(|part| &part[..part.len().min(bytes)]).copied().collect()
}

/// Packs a text. At low levels it looks as far back as at [`LEVEL_MAX`].
pub(crate) fn pack(text: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut packer = Compressor::new(level).ok()?;
    if level < LEVEL_MAX {
        packer.set_parameter(CParameter::WindowLog(WINDOW_LOG)).ok()?;
    }
    packer.compress(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{lines_of, random};

    #[test]
    fn dense_text_is_packed_quickly_and_as_well() {
        let mut next = random();
        let text = lines_of(2 << 20, || (0..30).map(|_| char::from(b'a' + next(26) as u8)).chain(['\n']).collect());
        let sample = Sample::of(&text, 3).unwrap();
        assert!(sample.is_dense && sample.level < 3);
        let (quick, slow) = (pack(&text, sample.level).unwrap().len(), pack(&text, 3).unwrap().len());
        assert!(quick <= slow * 102 / 100, "{quick} of {slow}");
        assert!(sample.expected(text.len()) * 100 / slow > 97 && sample.expected(text.len()) * 100 / slow < 103);
        assert_eq!(Sample::of(&text, 5).unwrap().level, 5, "who asks for more gets it");
    }

    #[test]
    fn other_text_is_packed_as_it_was_asked_for() {
        let mut next = random();
        let log = lines_of(1 << 20, || format!("GET /index/{} 200 took {} ms\n", next(30), next(9)));
        let sample = Sample::of(&log, 3).unwrap();
        assert!(!sample.is_dense && sample.level == 3);
    }

    #[test]
    fn quick_levels_look_far_back() {
        let mut next = random();
        let once = lines_of(1 << 20, || (0..76).map(|_| char::from(b'!' + next(64) as u8)).chain(['\n']).collect());
        let packed = pack(&once.repeat(4), 1).unwrap().len();
        assert!(packed < once.len(), "{packed}");
    }
}
