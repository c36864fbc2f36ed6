//! Why an expression cannot be searched for.

use bucksaw_record::expr::Pattern;

/// What is wrong with an expression that was read but cannot be searched for. Prints on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A regex is not of the syntax.
    #[error("the regex {regex} is wrong in its column {column}: {reason}")]
    Regex {
        /// The regex as it is written in an expression, cut when it is long.
        regex: String,
        /// Where in the regex: counted from 1, in characters behind the opening slash, an escaped slash being one.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A regex would take too much memory or time.
    #[error("the regex {regex} is too large: {reason}")]
    TooLarge {
        /// The regex as it is written in an expression, cut when it is long.
        regex: String,
        /// The limit that it goes beyond.
        reason: String,
    },
    /// All regexes of the expression together would take too much memory.
    #[error("the regexes of the expression are too large together: more than {limit} bytes when compiled")]
    TooManyRegexes {
        /// Bytes that they may take.
        limit: usize,
    },
}

/// A regex is quoted up to this many characters, so that an error stays one readable line.
const SHOWN_CHARS_MAX: usize = 60;

/// A regex as a message shows it.
pub(crate) fn quoted_pattern(pattern: &Pattern) -> String {
    let mut text = String::new();
    for (count, char) in pattern.to_string().chars().enumerate() {
        match char {
            _ if count == SHOWN_CHARS_MAX => {
                text.push('…');
                break;
            }
            char if char.is_control() => text.extend(char.escape_default()),
            char => text.push(char),
        }
    }
    text
}
