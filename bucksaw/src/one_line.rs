//! Texts from outside, shown in one line.

/// Characters of a text that are shown.
pub(crate) const CHARS_MAX: usize = 2_000;

/// A text from outside as part of one line.
pub(crate) fn one_line(text: &str) -> String {
    let text: Vec<&str> = text.split_whitespace().collect();
    text.join(" ").chars().take(CHARS_MAX).collect()
}
