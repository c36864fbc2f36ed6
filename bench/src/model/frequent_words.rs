//! The word that questions count: what `bucksaw plan` calls a frequent one.

use std::collections::HashMap;

/// The share of lines that have a frequent word.
const SHARE: f64 = 0.05;

/// Lines in which words are counted, and the length of a word.
const LINES: usize = 50_000;
const WORD_BYTES: std::ops::RangeInclusive<usize> = 5..=40;

/// The run of ASCII letters and digits whose share of the lines is nearest to [`SHARE`]; `None` if there is none.
pub(super) fn frequent_word(text: &[u8]) -> Option<String> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let step = (memchr::memchr_iter(b'\n', text).count() / LINES).max(1);
    let (mut counts, mut counted) = (HashMap::<&[u8], usize>::new(), 0_usize);
    for line in lines.step_by(step) {
        counted += 1;
        let words = line.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| WORD_BYTES.contains(&word.len()));
        let mut words: Vec<&[u8]> = words.collect();
        words.sort_unstable();
        words.dedup();
        words.into_iter().for_each(|word| *counts.entry(word).or_default() += 1);
    }
    let distance = |count: usize| (count as f64 / (SHARE * counted as f64)).ln().abs();
    let nearest = counts
        .into_iter()
        .min_by(|left, right| distance(left.1).total_cmp(&distance(right.1)).then_with(|| left.0.cmp(right.0)));
    nearest.map(|(word, _)| String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_in_one_of_twenty_lines() {
        let text: String = (0..2_000)
            .map(|at| format!("GET /item/{at:05} {} status{}\n", if at % 20 == 0 { "refused" } else { "done" }, at % 3))
            .collect();
        assert_eq!(frequent_word(text.as_bytes()).as_deref(), Some("refused"));
        assert_eq!(frequent_word(b"a b\n\n"), None);
    }
}
