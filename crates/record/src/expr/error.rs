//! Syntax errors: the position, what was expected there, and what was found.

/// Why an input is not a filter expression. Prints on one line, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct SyntaxError {
    /// The position, counted from 1 in characters of the input after replacement of invalid UTF-8.
    pub column: usize,
    /// What was expected and what was found.
    pub message: String,
}

/// The column of the byte at `offset`.
pub(super) fn column(input: &[u8], offset: usize) -> usize {
    String::from_utf8_lossy(input.get(..offset).unwrap_or(input)).chars().count() + 1
}

/// Input for a message: valid UTF-8 of up to `chars_max` characters, without control characters.
pub fn escape_input(bytes: &[u8], chars_max: usize) -> String {
    // A character has at most four bytes. Truncating first avoids decoding a long input.
    let head = bytes.get(..4 * (chars_max + 1)).unwrap_or(bytes);
    let mut text = String::new();
    for (count, char) in String::from_utf8_lossy(head).chars().enumerate() {
        match char {
            _ if count == chars_max => {
                text.push('…');
                break;
            }
            char if char.is_control() => text.extend(char.escape_default()),
            char => text.push(char),
        }
    }
    text
}
