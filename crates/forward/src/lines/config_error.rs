//! Why a setting of lines is invalid.

use bucksaw_record::InvalidAttributes;

/// The most attributes that every record gets.
pub(super) const ATTRIBUTES_MAX: usize = 64;

/// The longest values of them, in bytes: each record repeats them.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 4 << 10;

/// Why a setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineConfigError {
    /// An expression is invalid.
    #[error("the expression `{text}`: {reason}")]
    Expression {
        /// The expression.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A regex is invalid or too large.
    #[error("the regex `{text}`: {reason}")]
    Regex {
        /// The regex.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A regex is empty.
    #[error("the regex is empty")]
    Empty,
    /// An expression is empty, and so would apply to every record.
    #[error("the expression is empty, and so would match every record")]
    EmptyExpression,
    /// What begins as a substitution is none.
    #[error(
        "`{0}` is no substitution: write s{1}REGEX{1}TEXT{1} with two parts that do not contain `{1}`, and nothing behind it; a regex that begins so goes into parentheses"
    )]
    Substitution(String, char),
    /// The text of a substitution names a group that the regex has not.
    #[error(
        "the substitution `{text}`: the regex has no group `{group}`; write ${{1}} before a letter, and $$ for a dollar sign"
    )]
    Group {
        /// The substitution.
        text: String,
        /// The group.
        group: String,
    },
    /// The share of a sample is no number from 0 to 1.
    #[error("the share `{0}`: write a number from 0 to 1, such as 0.1, or a percentage, such as 10%")]
    Share(String),
    /// An attribute is not written as a name and a value.
    #[error("the attribute `{0}`: write it as name=value")]
    Attribute(String),
    /// The attributes are too many, or have an invalid name.
    #[error(transparent)]
    Attributes(#[from] InvalidAttributes),
    /// The attributes of every record are too many or too long.
    #[error(
        "at most {ATTRIBUTES_MAX} attributes with {ATTRIBUTE_BYTES_MAX} bytes of values, as every record repeats them"
    )]
    TooLong,
}
