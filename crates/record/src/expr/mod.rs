//! The filter expression: what people type on the command line, in the API and in the search box.
//!
//! An expression is read into the tree [`Expr`], which says what is asked and nothing of how it is answered. Input and
//! literals are bytes, because log records are. The parser never panics and its work is bounded by the limits below.
//! [`Expr`] prints as an expression that reads back as the same tree, which is how a node hands a query to another.
//!
//! ```text
//! expression = [ any ]                                    nothing or only space: everything matches
//! any        = all , { "OR" , all }
//! all        = one , { [ "AND" ] , one }                  so AND binds tighter than OR
//! one        = ( "NOT" | "-" ) , one | "(" , any , ")" | field | text | regex
//! text       = word | quoted , [ "i" ]                    i: ASCII letters in any case
//! regex      = "/" , source , "/" , [ "i" ]               i: letters in any case
//! field      = name , ( "=" | "!=" ) , ( bare | quoted , [ "i" ] )
//!            | name , ( "=~" | "!~" ) , regex
//!            | name , ( "<" | "<=" | ">" | ">=" ) , number
//! name       = [A-Za-z_@] , { [A-Za-z0-9_.@-] } | quoted  quoted, it may be any UTF-8
//! bare       = one or more bytes other than ASCII space, "(" and ")"
//! word       = bare, not starting with a quote, "/" or a "-" that negates
//! quoted     = '"' , { byte | \" | \\ | \n | \r | \t | \0 | \xHH } , '"'
//! source     = UTF-8, where "\/" stands for a slash and every other backslash is the regex's own
//! number     = decimal, with or without sign, fraction and exponent; finite as a 64-bit float
//! ```
//!
//! - `AND`, `OR` and `NOT` are keywords only in capitals and only as whole words; in quotes they are text.
//! - `-` negates at the start of a token with something right behind it; elsewhere (`a-b`, a lone `-`) it is text.
//! - `/` at the start of a token opens a regex, so text with a slash in front goes in quotes: `"/api"`. As the value of
//!   a field it needs none: `path=/api`.
//! - Nothing stands between a field's name, its operator and its value. A word whose left side is not a name (`a/b=c`,
//!   `=x`) is text, so that pasted log text mostly works. `a==b` asks whether field `a` equals `=b`.
//! - A quote or a regex ends its token: a space, a parenthesis or the end comes next.
//!
//! What it does not do: regexes are not compiled here and nothing is matched; both are `scan`'s.
//!
//! ```
//! use bucksaw_record::Expr;
//! let expr = Expr::parse(b"level=error (timeout OR \"connection refused\") -/health(z|y)/i").unwrap();
//! assert_eq!(expr.to_string(), "level=error (timeout OR \"connection refused\") NOT /health(z|y)/i");
//! let error = Expr::parse(b"level=").unwrap_err();
//! assert_eq!(error.to_string(), "column 7: expected a value after `level=`, found the end of the expression");
//! ```

mod case_fold;
mod display;
mod error;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

pub use error::SyntaxError;

/// The longest expression, in bytes: room for a pasted stack trace, too little to keep a node busy with parsing.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// How deep parentheses and negations may nest. People stay below ten; every walk over the tree recurses this deep, so
/// that it may not be what an attacker's stack can hold.
pub const DEPTH_MAX: usize = 64;

/// The most terms (texts, regexes and fields) in one expression: each costs a search over every block that is read.
pub const TERMS_MAX: usize = 1_000;

/// What a record must satisfy.
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
    /// Every member is satisfied. From the parser: two members or more, none of them an `And` or `All`.
    And(Vec<Expr>),
    /// Some member is satisfied. From the parser: two members or more, none of them an `Or` or `All`.
    Or(Vec<Expr>),
    /// The inner expression is not satisfied.
    Not(Box<Expr>),
}

/// Bytes to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// What to find; may be empty, which every record contains, and need not be UTF-8.
    pub bytes: Vec<u8>,
    /// Whether ASCII letters match in either case. Letters beyond ASCII always match as they are.
    pub case_insensitive: bool,
}

/// A regex, not compiled and not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// In the syntax of Rust's `regex`, without the slashes around it. A slash stands for itself.
    pub source: String,
    /// Whether letters match in either case, as by the regex flag `i`: ASCII letters, and others only where the source
    /// turns Unicode on with `(?u)`.
    pub case_insensitive: bool,
}

/// A test of one field: a label of the stream, else a key of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name; dots lead into nested fields.
    pub name: String,
    /// What its value must pass.
    pub test: Test,
}

/// What a field's value must pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// It is these bytes.
    Equal(Vec<u8>),
    /// It is not these bytes.
    NotEqual(Vec<u8>),
    /// It is a number below this.
    Less(f64),
    /// It is a number of at most this.
    LessEqual(f64),
    /// It is a number above this.
    Greater(f64),
    /// It is a number of at least this.
    GreaterEqual(f64),
    /// The regex matches somewhere in it.
    Match(Pattern),
    /// The regex matches nowhere in it.
    NotMatch(Pattern),
}

impl Expr {
    /// The expression that `input` spells; the grammar stands [above](self).
    ///
    /// # Errors
    /// The first place where `input` is not an expression, or goes beyond [`INPUT_BYTES_MAX`], [`DEPTH_MAX`] or
    /// [`TERMS_MAX`].
    pub fn parse(input: &[u8]) -> Result<Self, SyntaxError> {
        parser::parse(input)
    }

    /// Records that contain `bytes`, in this case of letters; no byte has a special meaning.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// assert_eq!(Expr::literal("a OR b").to_string(), r#""a OR b""#);
    /// ```
    #[must_use]
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Literal(Literal { bytes: bytes.into(), case_insensitive: false })
    }

    /// Records in which the regex `source`, without slashes around it, matches.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// assert_eq!(Expr::regex("^/api").to_string(), r"/^\/api/");
    /// ```
    #[must_use]
    pub fn regex(source: &str) -> Self {
        // `\/` and `/` are the same to a regex. One spelling in the tree makes printing and parsing agree.
        Self::Regex(Pattern { source: lexer::unescape_slashes(source), case_insensitive: false })
    }

    /// The same with letters in any case: in texts, in regexes, and in the values (not the names) of fields.
    ///
    /// A field that must equal a value becomes one that must match the regex `^value$`, with what is special to a regex
    /// escaped, so that [`Test`] needs no further kinds; likewise for one that must not equal it.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// let expr = Expr::parse(b"timeout host=a.example").unwrap().any_case();
    /// assert_eq!(expr.to_string(), r#""timeout"i host=~/^a\.example$/i"#);
    /// ```
    #[must_use]
    pub fn into_case_insensitive(self) -> Self {
        case_fold::case_insensitive(self)
    }

    /// The records that this does not match. A negation loses its `NOT` rather than gaining a second one.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// assert_eq!(Expr::literal("a").negate().to_string(), "NOT a");
    /// assert_eq!(Expr::literal("a").negate().negate().to_string(), "a");
    /// ```
    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }
}
