//! Estimates from samples how well zstd alone compresses a text.

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// The number of samples, spread over the text, and the bytes of each. Together they exceed 256 kB, as zstd uses smaller tables
/// for shorter input.
const SAMPLE_PIECES: usize = 8;
const SAMPLE_PIECE_BYTES: usize = 64 << 10;

/// A text is dense if its compression ratio under zstd is below this number, as for random words or base64.
const DENSE_RATIO_MAX: usize = 4;

/// The highest level of dense text, and the bytes of its window as a power of two. In dense text, the matches that level 3 finds
/// are short and save little. Level 3 reaches 130 to 1,000 MB/s, level 1 270 to 1,150 MB/s; the output of level 1 has 920 to 1,120
/// thousandths of the size.
const LEVEL_MAX: i32 = 3;
const WINDOW_LOG: u32 = 21;

/// The entries of the tables of the lower levels, as powers of two: twice that of level 1, and that of level 3. Fields in random
/// order pack 2.7 percent better by twice the table, at the same speed.
const TABLE_LOGS: [(i32, u32); 2] = [(1, 15), (2, 17)];

/// The lower levels, fastest first, and the size of the packed samples up to which each is chosen, in thousandths of the size at
/// the requested level. With its smaller table, level 1 packs a whole text up to 13 thousandths worse than the samples; level 2
/// packs it better.
const LOWER_LEVELS: [(i32, usize); 2] = [(1, 1_010), (2, 1_015)];

/// The result of packing samples of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZstdSample {
    /// The level for the text: the requested one, or for dense text a lower one that packs as well.
    pub(crate) level: i32,
    /// Whether the text is dense.
    pub(crate) is_dense: bool,
    bytes: usize,
    packed: usize,
}

impl ZstdSample {
    /// Packs samples of the text at this level or [`LEVEL_MAX`], and those of dense text at lower levels too.
    pub(crate) fn measure(text: &[u8], requested: i32) -> Option<Self> {
        let some = sample_pieces(text, SAMPLE_PIECE_BYTES);
        let level = requested.min(LEVEL_MAX);
        let packed = compress(&some, level)?.len();
        let is_dense = is_dense(some.len(), packed);
        let is_as_good = |(lower, most): &(i32, usize)| {
            *lower < level && compress(&some, *lower).is_some_and(|lower| lower.len() <= packed * most / 1_000)
        };
        let level = match is_dense {
            true => LOWER_LEVELS.iter().find(|lower| is_as_good(lower)).map_or(level, |(lower, _)| *lower),
            false => requested,
        };
        Some(Self { level, is_dense, bytes: some.len(), packed })
    }

    /// The approximate packed size of `bytes` bytes; too high for texts in which much recurs.
    pub(crate) fn expected_bytes(&self, bytes: usize) -> usize {
        (self.packed as f64 * bytes as f64 / self.bytes.max(1) as f64) as usize
    }
}

/// Whether a text of `bytes` bytes that zstd packs to `packed` is dense.
pub(crate) fn is_dense(bytes: usize, packed: usize) -> bool {
    packed * DENSE_RATIO_MAX > bytes
}

/// Samples spread over a text.
fn sample_pieces(text: &[u8], bytes: usize) -> Vec<u8> {
    let step = text.len().div_ceil(SAMPLE_PIECES).max(1);
    text.chunks(step).flat_map(|part| &part[..part.len().min(bytes)]).copied().collect()
}

/// Packs a text. Levels below [`LEVEL_MAX`] get its window and one of [`TABLE_LOGS`].
pub(crate) fn compress(text: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut packer = Compressor::new(level).ok()?;
    if level < LEVEL_MAX {
        packer.set_parameter(CParameter::WindowLog(WINDOW_LOG)).ok()?;
    }
    if let Some((_, table_log)) = TABLE_LOGS.iter().find(|(of, _)| *of == level) {
        packer.set_parameter(CParameter::HashLog(*table_log)).ok()?;
    }
    packer.compress(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::text::{lines_of, random};

    #[test]
    fn dense_text_is_packed_quickly_and_as_well() {
        let mut next = random();
        let text = lines_of(2 << 20, || (0..30).map(|_| char::from(b'a' + next(26) as u8)).chain(['\n']).collect());
        let sample = ZstdSample::measure(&text, 3).unwrap();
        assert!(sample.is_dense && sample.level < 3);
        let (quick, slow) = (compress(&text, sample.level).unwrap().len(), compress(&text, 3).unwrap().len());
        assert!(quick <= slow * 102 / 100, "{quick} of {slow}");
        assert!(
            sample.expected_bytes(text.len()) * 100 / slow > 97 && sample.expected_bytes(text.len()) * 100 / slow < 103
        );
        assert_eq!(ZstdSample::measure(&text, 12).unwrap().level, sample.level, "higher levels hardly save more");
    }

    /// Random letters between the delimiters of 100 layouts. The table of level 1 is too small for the recurring delimiters;
    /// level 2 with the table of level 3 finds them.
    #[test]
    fn tokens_are_packed_with_a_larger_table() {
        let mut next = random();
        let gaps = [" ", ";", "(", ")", "{", "|", " [", ", ", "] "];
        let layouts: Vec<Vec<&str>> = (0..100).map(|_| (0..300).map(|_| gaps[next(9) as usize]).collect()).collect();
        let text = lines_of(4 << 20, || {
            let layout = &layouts[next(100) as usize];
            let mut line: String = layout
                .iter()
                .flat_map(|gap| [char::from(b'a' + next(26) as u8).to_string(), (*gap).to_owned()])
                .collect();
            line.push('\n');
            line
        });
        let sample = ZstdSample::measure(&text, 3).unwrap();
        assert!(sample.is_dense && sample.level == 2, "{sample:?}");
        let packed = [1, 2, 3].map(|level| compress(&text, level).unwrap().len());
        assert!(packed[0] * 100 > packed[2] * 102 && packed[1] * 100 <= packed[2] * 102, "{packed:?}");
    }

    #[test]
    fn other_text_keeps_the_requested_level() {
        let mut next = random();
        let log = lines_of(1 << 20, || format!("GET /index/{} 200 took {} ms\n", next(30), next(9)));
        let sample = ZstdSample::measure(&log, 3).unwrap();
        assert!(!sample.is_dense && sample.level == 3);
        assert_eq!(ZstdSample::measure(&log, 12).unwrap().level, 12);
    }

    #[test]
    fn low_levels_have_the_window_of_the_highest() {
        let mut next = random();
        let once = lines_of(1 << 20, || (0..76).map(|_| char::from(b'!' + next(64) as u8)).chain(['\n']).collect());
        let packed = compress(&once.repeat(4), 1).unwrap().len();
        assert!(packed < once.len(), "{packed}");
    }
}
