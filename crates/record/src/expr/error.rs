//! What is said when an expression cannot be read: where, what was expected there, and what was found.

/// Why an input is not a filter expression. Prints on one line, and shows no control character of the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct SyntaxError {
    /// Where: counted from 1, in characters of the input with what is not UTF-8 replaced.
    pub column: usize,
    /// What was expected and what was found.
    pub message: String,
}

/// Input is quoted up to this many characters, so that an error stays one readable line.
const QUOTED_CHARS_MAX: usize = 40;

/// The column of the byte at `offset`.
pub(super) fn column(input: &[u8], offset: usize) -> usize {
    String::from_utf8_lossy(input.get(..offset).unwrap_or(input)).chars().count() + 1
}

/// `bytes` as they may stand in a message.
pub(super) fn escape_input(bytes: &[u8]) -> String {
    // A character has at most four bytes; cutting there first keeps a long input from being decoded whole.
    let head = bytes.get(..4 * (QUOTED_CHARS_MAX + 1)).unwrap_or(bytes);
    let mut text = String::new();
    for (count, char) in String::from_utf8_lossy(head).chars().enumerate() {
        match char {
            _ if count == QUOTED_CHARS_MAX => {
                text.push('…');
                break;
            }
            char if char.is_control() => text.extend(char.escape_default()),
            char => text.push(char),
        }
    }
    text
}
