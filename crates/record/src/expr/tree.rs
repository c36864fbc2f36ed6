//! The syntax tree of a filter expression.

use std::fmt::Write as _;

use super::quantity::Limit;
use crate::level::Level;

/// The characters with a meaning in a regex.
const META_CHARS: &str = r"\.+*?()|[]{}^$#&-~";

/// A condition on records.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Every record.
    All,
    /// The line of the record or the value of an attribute contains these bytes.
    Literal(Literal),
    /// The regex matches somewhere in the line of the record or in the value of an attribute.
    Regex(Pattern),
    /// A field passes a test.
    Field(Field),
    /// The level of the record passes a test.
    Level(LevelTest),
    /// The line of the record, without its attributes, passes a test.
    Line(LineTest),
    /// Every member holds. The parser builds at least two members, none of them an `And` or `All`.
    And(Vec<Expr>),
    /// At least one member holds. The parser builds at least two members, none of them an `Or` or `All`.
    Or(Vec<Expr>),
    /// The inner expression does not hold.
    Not(Box<Expr>),
}

/// Bytes to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The bytes, not necessarily UTF-8. Every record contains the empty literal.
    pub bytes: Vec<u8>,
    /// Whether ASCII letters match in either case. Other letters always match exactly.
    pub case_insensitive: bool,
}

/// The source of a regex, not validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// In the syntax of the `regex` crate, without the enclosing slashes. Slashes are not escaped.
    pub source: String,
    /// Whether letters match in either case, as with the regex flag `i`: ASCII letters, and others where the source
    /// enables Unicode with `(?u)`.
    pub case_insensitive: bool,
}

impl Pattern {
    /// The source of a regex that matches exactly these bytes.
    #[must_use]
    pub fn escape(bytes: &[u8]) -> String {
        let mut source = String::new();
        for chunk in bytes.utf8_chunks() {
            for char in chunk.valid().chars() {
                if META_CHARS.contains(char) {
                    source.push('\\');
                }
                source.push(char);
            }
            for byte in chunk.invalid() {
                // `\xHH` is a byte only with Unicode off. Writing to a string cannot fail.
                let _ = write!(source, r"(?-u:\x{byte:02X})");
            }
        }
        source
    }
}

/// A test of one field: a label of the stream, else an attribute of the record, else a key of its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name; dots lead into nested fields.
    pub name: String,
    /// The condition on its value.
    pub test: Test,
}

/// A condition on the value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Equals these bytes.
    Equal(Vec<u8>),
    /// Differs from these bytes.
    NotEqual(Vec<u8>),
    /// Is of the kind of this limit, and below it.
    Less(Limit),
    /// Is of the kind of this limit, and at most as great.
    LessEqual(Limit),
    /// Is of the kind of this limit, and above it.
    Greater(Limit),
    /// Is of the kind of this limit, and at least as great.
    GreaterEqual(Limit),
    /// The regex matches somewhere in the value.
    Match(Pattern),
    /// The regex matches nowhere in the value.
    NotMatch(Pattern),
    /// The record has the field.
    Exists,
    /// The record does not have the field.
    NotExists,
}

/// A condition on the level of a record; `None` is no level. A record without a level passes no comparison of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelTest {
    /// Is this level.
    Equal(Option<Level>),
    /// Is another level, or none.
    NotEqual(Option<Level>),
    /// Ranks below this level.
    Less(Level),
    /// Is this level, or ranks below it.
    LessEqual(Level),
    /// Ranks above this level.
    Greater(Level),
    /// Is this level, or ranks above it.
    GreaterEqual(Level),
    /// Is any level.
    Exists,
    /// Is none.
    NotExists,
}

/// A condition on the line of a record. Every record has a line, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineTest {
    /// Contains these bytes.
    Contains(Literal),
    /// Does not contain these bytes.
    NotContains(Literal),
    /// The regex matches somewhere in the line.
    Match(Pattern),
    /// The regex matches nowhere in the line.
    NotMatch(Pattern),
}

impl LevelTest {
    /// Whether a record of this level passes.
    #[must_use]
    pub fn accepts(self, level: Option<Level>) -> bool {
        let ranks = |compare: fn(&Level, &Level) -> bool, limit: Level| level.is_some_and(|own| compare(&own, &limit));
        match self {
            Self::Equal(wanted) => level == wanted,
            Self::NotEqual(unwanted) => level != unwanted,
            Self::Less(limit) => ranks(Level::lt, limit),
            Self::LessEqual(limit) => ranks(Level::le, limit),
            Self::Greater(limit) => ranks(Level::gt, limit),
            Self::GreaterEqual(limit) => ranks(Level::ge, limit),
            Self::Exists => level.is_some(),
            Self::NotExists => level.is_none(),
        }
    }
}
