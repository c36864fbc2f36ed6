//! The syntax of filter expressions, as typed on the command line, in the API and in the search box.
//!
//! An expression is parsed into the tree [`Expr`]. Input and literals are bytes, because log records are bytes. The parser
//! never panics, and the limits below bound its work. [`Expr`] prints as an expression that parses into the same tree;
//! nodes send it to each other in this form.
//!
//! ```text
//! expression = [ any ]                                    empty or only space: matches everything
//! any        = all , { "OR" , all }
//! all        = one , { [ "AND" ] , one }                  so AND binds tighter than OR
//! one        = ( "NOT" | "-" ) , one | "(" , any , ")" | field | text | regex
//! text       = word | quoted , [ "i" ]                    i: ASCII letters in any case
//! regex      = "/" , source , "/" , [ "i" ]               i: letters in any case
//! field      = name , ( "=" | "!=" ) , ( bare | quoted , [ "i" ] )
//!            | name , ( "=~" | "!~" ) , regex
//!            | name , ( "=" | "!=" ) , "*"                  the field exists, does not exist
//!            | name , ( "<" | "<=" | ">" | ">=" ) , limit
//!            | "@level" , ( "=" | "!=" ) , ( level | "none" | "*" )
//!            | "@level" , ( "<" | "<=" | ">" | ">=" ) , level
//!            | "_line" , ( "=" | "!=" ) , ( bare | quoted , [ "i" ] )
//!            | "_line" , ( "=~" | "!~" ) , regex
//! name       = ( letter | "_" | "@" ) , { letter | digit | [_.@-] } | quoted
//!                                                         letters and digits of Unicode; quoted, it may be any UTF-8
//! bare       = one or more bytes other than ASCII space, "(" and ")"
//! word       = bare, not starting with a quote, "/" or a "-" that negates
//! quoted     = '"' , { byte | \" | \\ | \n | \r | \t | \0 | \xHH } , '"'
//! source     = UTF-8; "\/" is a slash, every other escape is part of the regex
//! limit      = number | duration | size                   see [`Limit`]
//! number     = decimal, with or without sign, fraction and exponent of up to 15 digits
//! level      = a name as in [`Level::from_name`], bare or quoted
//! ```
//!
//! - `AND`, `OR` and `NOT` are keywords only as whole words in capitals; in quotes they are text.
//! - `-` negates at the start of a token, directly before a term or a group. Elsewhere (`a-b`, a lone `-`) it is text.
//! - `/` at the start of a token opens a regex, so text that starts with a slash is quoted: `"/api"`. The value of a field
//!   needs no quotes: `path=/api`.
//! - The name of a field, its operator and its value are not separated by space. A word whose left side is not a name
//!   (`a/b=c`, `=x`) is text, so that most pasted log text works. `a==b` tests whether field `a` equals `=b`.
//! - `@level` is derived from the record by the rule of [`level`](crate::level). In quotes, `"@level"` is an ordinary field.
//! - `_line` is the line of the record without its attributes: `_line=x` tests whether it contains `x`. A bare star is refused,
//!   because every record has a line. In quotes, `"_line"` is an ordinary field.
//! - A quoted text or a regex ends its token: a space, a parenthesis or the end of the expression follows.
//!
//! Compiling regexes and matching are in `scan`. `cases.json` is a table of inputs with their tokens, their canonical form
//! or error, and the terms to highlight; the tests of this module and of the page in `ui/` read it.
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
mod hints;
mod lexer;
mod names;
mod number;
mod parser;
mod quantity;
mod regex_column;
#[cfg(test)]
mod tests;
mod tree;
mod version;

pub use error::{SyntaxError, escape_input};
pub use hints::{Hint, hints};
pub use names::nearest_name;
pub use number::Number;
pub use parser::{DEPTH_MAX, INPUT_BYTES_MAX, TERMS_MAX};
pub use quantity::{Limit, Quantity};
pub use regex_column::regex_column;
pub use tree::{Expr, Field, LevelTest, LineTest, Literal, Pattern, Test};
pub use version::GRAMMAR_VERSION;

#[cfg(doc)]
use crate::Level;

impl Expr {
    /// Parses an expression; see the [grammar](self).
    ///
    /// # Errors
    /// The first syntax error, or the position at which the input exceeds [`INPUT_BYTES_MAX`], [`DEPTH_MAX`] or
    /// [`TERMS_MAX`].
    pub fn parse(input: &[u8]) -> Result<Self, SyntaxError> {
        parser::parse(input)
    }

    /// Matches records that contain `bytes`, case-sensitive. No byte has a special meaning.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// assert_eq!(Expr::literal("a OR b").to_string(), r#""a OR b""#);
    /// ```
    #[must_use]
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Literal(Literal { bytes: bytes.into(), case_insensitive: false })
    }

    /// Matches records in which the regex `source`, given without enclosing slashes, matches.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// assert_eq!(Expr::regex("^/api").to_string(), r"/^\/api/");
    /// ```
    #[must_use]
    pub fn regex(source: &str) -> Self {
        // `\/` and `/` are equivalent in a regex. The tree has one spelling, so that printing and parsing agree.
        Self::Regex(Pattern { source: lexer::unescape_slashes(source), case_insensitive: false })
    }

    /// Makes texts, regexes and the values (not the names) of fields case-insensitive.
    ///
    /// Equality becomes a match with the regex `^value$`, with the value escaped, so that [`Test`] needs no further
    /// variants; inequality likewise.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// let expr = Expr::parse(b"timeout host=a.example").unwrap().into_case_insensitive();
    /// assert_eq!(expr.to_string(), r#""timeout"i host=~/^a\.example$/i"#);
    /// ```
    #[must_use]
    pub fn into_case_insensitive(mut self) -> Self {
        case_fold::make_case_insensitive(&mut self);
        self
    }

    /// Negates the expression. The negation of `NOT x` is `x`.
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
