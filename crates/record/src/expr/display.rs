//! Prints an expression so that it parses into the same tree.
//!
//! Holds for every tree that the parser builds, unless quoting makes the text longer than the parser accepts. A tree that
//! the parser does not build (a group of one, an escaped slash in a regex) prints as an equivalent expression.

use std::fmt::{self, Formatter, Write};

use super::lexer::{LEVEL_NAME, LINE_NAME, NO_LEVEL, name_length};
use super::tree::{Expr, Field, LevelTest, LineTest, Literal, Pattern, Test};
use crate::level::Level;

/// The precedence of the context of an expression. An expression of lower precedence is put in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Or,
    And,
    Unary,
}

/// The alternate form, `{:#}`, has all literals in quotes, for which there are no [`hints`](super::hints()).
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            expr => write_expr(f, expr, Precedence::Or),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let starts_as_word = !matches!(self.bytes.as_slice(), [b'-' | b'/', ..] | b"AND" | b"OR" | b"NOT");
        if starts_as_word && !self.case_insensitive && !f.alternate() && is_plain(&self.bytes) {
            return write_plain(f, &self.bytes);
        }
        write_quoted(f, &self.bytes)?;
        if self.case_insensitive { f.write_char('i') } else { Ok(()) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('/')?;
        let mut escaped = false;
        for char in self.source.chars() {
            if char == '/' && !escaped {
                f.write_char('\\')?;
            }
            escaped = char == '\\' && !escaped;
            f.write_char(char)?;
        }
        f.write_str(if self.case_insensitive { "/i" } else { "/" })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // A name outside ASCII needs no quotes, but earlier versions expect them.
        let is_name =
            !self.name.is_empty() && self.name.is_ascii() && name_length(self.name.as_bytes()) == self.name.len();
        if is_name && self.name != LEVEL_NAME && self.name != LINE_NAME {
            f.write_str(&self.name)?;
        } else {
            write_quoted(f, self.name.as_bytes())?;
        }
        match &self.test {
            Test::Equal(value) => write_value(f, "=", value),
            Test::NotEqual(value) => write_value(f, "!=", value),
            Test::Match(pattern) => write!(f, "=~{pattern}"),
            Test::NotMatch(pattern) => write!(f, "!~{pattern}"),
            Test::Less(limit) => write!(f, "<{limit}"),
            Test::LessEqual(limit) => write!(f, "<={limit}"),
            Test::Greater(limit) => write!(f, ">{limit}"),
            Test::GreaterEqual(limit) => write!(f, ">={limit}"),
            Test::Exists => f.write_str("=*"),
            Test::NotExists => f.write_str("!=*"),
        }
    }
}

impl fmt::Display for LevelTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |level: &Option<Level>| level.map_or(NO_LEVEL, Level::name);
        f.write_str(LEVEL_NAME)?;
        match self {
            Self::Equal(level) => write!(f, "={}", name(level)),
            Self::NotEqual(level) => write!(f, "!={}", name(level)),
            Self::Less(level) => write!(f, "<{}", level.name()),
            Self::LessEqual(level) => write!(f, "<={}", level.name()),
            Self::Greater(level) => write!(f, ">{}", level.name()),
            Self::GreaterEqual(level) => write!(f, ">={}", level.name()),
            Self::Exists => f.write_str("=*"),
            Self::NotExists => f.write_str("!=*"),
        }
    }
}

impl fmt::Display for LineTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let write_text = |f: &mut Formatter<'_>, operator, text: &Literal| {
            if !text.case_insensitive {
                return write_value(f, operator, &text.bytes);
            }
            f.write_str(operator)?;
            write!(f, "{text}")
        };
        f.write_str(LINE_NAME)?;
        match self {
            Self::Contains(text) => write_text(f, "=", text),
            Self::NotContains(text) => write_text(f, "!=", text),
            Self::Match(pattern) => write!(f, "=~{pattern}"),
            Self::NotMatch(pattern) => write!(f, "!~{pattern}"),
        }
    }
}

fn write_expr(f: &mut Formatter<'_>, expr: &Expr, outer: Precedence) -> fmt::Result {
    match expr {
        // `All` has no syntax inside another expression; the empty text is equivalent.
        Expr::All => f.write_str("\"\""),
        Expr::Literal(text) => fmt::Display::fmt(text, f),
        Expr::Regex(pattern) => write!(f, "{pattern}"),
        Expr::Field(field) => write!(f, "{field}"),
        Expr::Level(test) => write!(f, "{test}"),
        Expr::Line(test) => write!(f, "{test}"),
        Expr::And(members) => write_members(f, members, " ", Precedence::And, outer),
        Expr::Or(members) => write_members(f, members, " OR ", Precedence::Or, outer),
        Expr::Not(inner) => {
            f.write_str("NOT ")?;
            write_expr(f, inner, Precedence::Unary)
        }
    }
}

/// Prints members joined by an operator of precedence `own` into a context of precedence `outer`.
fn write_members(
    f: &mut Formatter<'_>,
    members: &[Expr],
    between: &str,
    own: Precedence,
    outer: Precedence,
) -> fmt::Result {
    let inner = if own == Precedence::Or { Precedence::And } else { Precedence::Unary };
    if outer > own {
        f.write_char('(')?;
    }
    for (index, member) in members.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { between })?;
        write_expr(f, member, inner)?;
    }
    if outer > own { f.write_char(')') } else { Ok(()) }
}

fn write_value(f: &mut Formatter<'_>, operator: &str, value: &[u8]) -> fmt::Result {
    f.write_str(operator)?;
    if is_plain(value) { write_plain(f, value) } else { write_quoted(f, value) }
}

/// Whether bytes are printed without quotes: letters, digits, and characters of names, paths and addresses. Quotes are
/// always correct.
fn is_plain(bytes: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/' | b'@');
    !bytes.is_empty() && bytes.iter().all(plain)
}

fn write_plain(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| f.write_char(char::from(*byte)))
}

/// Prints bytes in quotes, on one line and as UTF-8.
fn write_quoted(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\0' => f.write_str("\\0")?,
                char if char.is_control() => write_hex(f, char.encode_utf8(&mut [0; 4]).as_bytes())?,
                char => f.write_char(char)?,
            }
        }
        write_hex(f, chunk.invalid())?;
    }
    f.write_char('"')
}

fn write_hex(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02X}"))
}
