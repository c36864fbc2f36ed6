//! The lines that a measurement uses, and the words that it searches for in them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use bytes::Bytes;

/// The most text that is read, and the least that says something about the cost of storing: a block has 16 MB.
const BYTES_MAX: u64 = 64 << 20;
const BYTES_MIN: usize = 1 << 20;

/// Lines in which words are counted, and the most words that are counted.
const COUNTED_LINES: usize = 20_000;
const COUNTED_WORDS_MAX: usize = 500_000;

/// The length of a word that is searched for.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 5..=40;

/// Whole lines of a file, held in memory.
#[derive(Debug)]
pub(super) struct Sample {
    text: Bytes,
    lines: usize,
}

impl Sample {
    /// The first 64 MB of a file, up to the last line end in them.
    ///
    /// # Errors
    /// The file cannot be read, or has less than 1 MB of lines.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut text = Vec::new();
        let file = File::open(path).with_context(|| format!("--sample: cannot open {}", path.display()))?;
        file.take(BYTES_MAX)
            .read_to_end(&mut text)
            .with_context(|| format!("--sample: cannot read {}", path.display()))?;
        text.truncate(memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1));
        if text.len() < BYTES_MIN {
            bail!(
                "--sample: {} has less than 1 MB of lines: give more, so that the result means something",
                path.display()
            );
        }
        let lines = memchr::memchr_iter(b'\n', &text).count();
        Ok(Self { text: Bytes::from(text), lines })
    }

    pub(super) fn line_bytes(&self) -> f64 {
        self.text.len() as f64 / self.lines as f64
    }

    /// The text with each `count` lines joined to one.
    pub(super) fn with_joined_lines(&self, count: usize) -> Self {
        let mut text = self.text.to_vec();
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', &self.text).collect();
        for end in ends.chunks(count).flat_map(|joined| joined.split_last().map_or(&[][..], |(_, ends)| ends)) {
            if let Some(byte) = text.get_mut(*end) {
                *byte = b' ';
            }
        }
        let lines = memchr::memchr_iter(b'\n', &text).count();
        Self { text: Bytes::from(text), lines }
    }

    /// The text in bodies of about this size, each of whole lines.
    pub(super) fn bodies(&self, bytes: usize) -> Vec<Bytes> {
        let mut bodies = Vec::new();
        let mut rest = self.text.clone();
        while !rest.is_empty() {
            let end = match rest.get(bytes..) {
                Some(after) => bytes + memchr::memchr(b'\n', after).map_or(after.len(), |at| at + 1),
                None => rest.len(),
            };
            bodies.push(rest.split_to(end));
        }
        bodies
    }

    /// Whole lines of about this many bytes at the start.
    pub(super) fn first_lines(&self, bytes: usize) -> &[u8] {
        let after = self.text.get(bytes..).unwrap_or_default();
        let end = bytes + memchr::memchr(b'\n', after).map_or(after.len(), |at| at + 1);
        self.text.get(..end).unwrap_or(&self.text)
    }

    /// Up to `count` words whose share of the lines is nearest to `share`, most similar first. Words are runs of ASCII
    /// letters and digits, and are counted in lines from the whole sample.
    pub(super) fn words(&self, share: f64, count: usize) -> Vec<String> {
        let step = (self.lines / COUNTED_LINES).max(1);
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        let mut counted = 0_usize;
        for line in self.text.split(|byte| *byte == b'\n').step_by(step) {
            counted += 1;
            let mut words: Vec<&[u8]> = line
                .split(|byte| !byte.is_ascii_alphanumeric())
                .filter(|word| WORD_BYTES.contains(&word.len()))
                .collect();
            words.sort_unstable();
            words.dedup();
            for word in words {
                if counts.len() < COUNTED_WORDS_MAX || counts.contains_key(word) {
                    *counts.entry(word).or_default() += 1;
                }
            }
        }
        let wanted = (share * counted as f64).max(1.0);
        let distance = |found: usize| (found as f64 / wanted).ln().abs();
        let mut words: Vec<(&[u8], usize)> = counts.into_iter().collect();
        words.sort_by(|left, right| distance(left.1).total_cmp(&distance(right.1)).then_with(|| left.0.cmp(right.0)));
        words.into_iter().take(count).map(|(word, _)| String::from_utf8_lossy(word).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(lines: usize) -> Sample {
        let text: String = (0..lines).map(|at| format!("GET /item/{at:07} status{} end\n", at % 10)).collect();
        Sample { text: Bytes::from(text), lines }
    }

    #[test]
    fn bodies_are_whole_lines() {
        let sample = sample(1_000);
        let bodies = sample.bodies(1_000);
        assert!(bodies.len() > 10 && bodies.iter().all(|body| body.ends_with(b"\n") && body.len() < 1_100));
        assert_eq!(bodies.concat(), sample.text);
        assert_eq!(sample.bodies(usize::MAX).concat(), sample.text);
        assert!(sample.first_lines(100).ends_with(b"\n") && sample.first_lines(100).len() < 140);
    }

    #[test]
    fn joined_lines_are_fewer() {
        let sample = sample(1_001);
        let joined = sample.with_joined_lines(8);
        assert_eq!((joined.lines, joined.text.len()), (126, sample.text.len()));
        assert!(joined.text.ends_with(b"\n"));
    }

    #[test]
    fn words_have_the_wanted_share() {
        let sample = sample(10_000);
        let frequent = sample.words(0.1, 3);
        assert!(frequent.iter().all(|word| word.starts_with("status")), "{frequent:?}");
        let rare = sample.words(1e-4, 3);
        assert!(rare.iter().all(|word| word.len() == 7), "{rare:?}");
    }
}
