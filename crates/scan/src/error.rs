//! Errors of compiling an expression.

use bucksaw_record::expr::{Pattern, SyntaxError, escape_input, regex_column};

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
        /// The position among the regexes of the expression, from 0.
        number: usize,
    },
    /// A regex would take too much memory or time.
    #[error("the regex {regex} is too large: {reason}")]
    TooLarge {
        /// The regex as written in the expression, shortened if long.
        regex: String,
        /// The limit that it exceeds.
        reason: String,
        /// The position among the regexes of the expression, from 0; `None` for a text in any case.
        number: Option<usize>,
    },
    /// All regexes of the expression together would take too much memory.
    #[error("the regexes of the expression are too large together: more than {limit} bytes when compiled")]
    TooManyRegexes {
        /// The limit in bytes.
        limit: usize,
    },
}

impl CompileError {
    /// The same error for the regex with this number.
    pub(crate) fn of_regex(self, position: usize) -> Self {
        match self {
            Self::Regex { regex, column, reason, .. } => Self::Regex { regex, column, reason, number: position },
            Self::TooLarge { regex, reason, .. } => Self::TooLarge { regex, reason, number: Some(position) },
            other => other,
        }
    }

    /// The error with its position in `input`, from which the expression was parsed.
    #[must_use]
    pub fn in_expression(&self, input: &[u8]) -> SyntaxError {
        match self {
            Self::Regex { regex, column, reason, number } => SyntaxError {
                column: regex_column(input, *number, *column),
                message: format!("the regex {regex} is wrong here: {reason}"),
            },
            Self::TooLarge { number: Some(number), .. } => {
                SyntaxError { column: regex_column(input, *number, 0), message: self.to_string() }
            }
            Self::TooLarge { .. } | Self::TooManyRegexes { .. } => SyntaxError { column: 1, message: self.to_string() },
        }
    }
}

/// A regex is quoted up to this many characters, so that an error stays one readable line.
const SHOWN_CHARS_MAX: usize = 60;

/// A regex as shown in a message.
pub(crate) fn quoted_pattern(pattern: &Pattern) -> String {
    escape_input(pattern.to_string().as_bytes(), SHOWN_CHARS_MAX)
}
