//! The words that questions count in turn: what `bucksaw plan` calls frequent ones.

use std::collections::HashMap;

/// The share of lines that have a frequent word.
const SHARE: f64 = 0.05;

/// Lines in which words are counted, and the length of a word.
const LINES: usize = 50_000;
const WORD_BYTES: std::ops::RangeInclusive<usize> = 5..=40;

/// The number of words: each has a cost of its own, and a plan predicts their mean.
const WORDS: usize = 6;

/// The runs of ASCII letters and digits whose shares of the lines are nearest to [`SHARE`]; empty if there is none.
pub(super) fn frequent_words(text: &[u8]) -> Vec<String> {
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
    let mut words: Vec<(&[u8], usize)> = counts.into_iter().collect();
    words.sort_by(|left, right| distance(left.1).total_cmp(&distance(right.1)).then_with(|| left.0.cmp(right.0)));
    words.into_iter().take(WORDS).map(|(word, _)| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_in_one_of_twenty_lines() {
        let text: String = (0..2_000)
            .map(|at| format!("GET /item/{at:05} {} status{}\n", if at % 20 == 0 { "refused" } else { "done" }, at % 3))
            .collect();
        let words = frequent_words(text.as_bytes());
        assert_eq!((words.len(), words[0].as_str()), (WORDS, "refused"));
        assert!(frequent_words(b"a b\n\n").is_empty());
    }
}
