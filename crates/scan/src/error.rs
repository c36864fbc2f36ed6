//! Errors of compiling an expression.

use bucksaw_record::expr::{Pattern, escape_input};

/// Why a parsed expression cannot be compiled. Displays on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A regex has a syntax error.
    #[error("the regex {regex} is wrong in its column {column}: {reason}")]
    Regex {
        /// The regex as written in the expression, shortened if long.
        regex: String,
        /// The column of the error in the regex: from 1, in characters behind the opening slash; an escaped slash is one.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A regex would take too much memory or time.
    #[error("the regex {regex} is too large: {reason}")]
    TooLarge {
        /// The regex as written in the expression, shortened if long.
        regex: String,
        /// The limit that it exceeds.
        reason: String,
    },
    /// All regexes of the expression together would take too much memory.
    #[error("the regexes of the expression are too large together: more than {limit} bytes when compiled")]
    TooManyRegexes {
        /// The limit in bytes.
        limit: usize,
    },
}

/// A regex is quoted up to this many characters, so that an error stays one readable line.
const SHOWN_CHARS_MAX: usize = 60;

/// A regex as shown in a message.
pub(crate) fn quoted_pattern(pattern: &Pattern) -> String {
    escape_input(pattern.to_string().as_bytes(), SHOWN_CHARS_MAX)
}
