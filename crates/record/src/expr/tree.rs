//! The syntax tree of a filter expression.

/// A condition on records.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Every record.
    All,
    /// The record contains these bytes.
    Literal(Literal),
    /// The regex matches somewhere in the record.
    Regex(Pattern),
    /// A field passes a test.
    Field(Field),
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

/// A test of one field: a label of the stream, else a key of the record.
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
    /// Is a number below this one.
    Less(f64),
    /// Is a number of at most this one.
    LessEqual(f64),
    /// Is a number above this one.
    Greater(f64),
    /// Is a number of at least this one.
    GreaterEqual(f64),
    /// The regex matches somewhere in the value.
    Match(Pattern),
    /// The regex matches nowhere in the value.
    NotMatch(Pattern),
}
