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
