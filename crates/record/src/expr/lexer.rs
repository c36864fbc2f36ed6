//! Splits an expression into tokens.
//!
//! A term (text, regex, or field with its test) is one token, because it contains no space outside quotes and slashes.
//! Tokens are produced on demand, so the error reported is the leftmost.

use super::SyntaxError;
use super::case_fold::case_insensitive_test;
use super::error::{self, column};
use super::tree::{Expr, Field, Literal, Pattern, Test};

/// Advice for text that was parsed as syntax.
pub(super) const HINT: &str = "put text in quotes to search for it as it is";

/// Maximum characters of input quoted in a message.
const QUOTED_CHARS_MAX: usize = 40;

fn escape_input(bytes: &[u8]) -> String {
    error::escape_input(bytes, QUOTED_CHARS_MAX)
}

/// A token.
#[derive(Debug)]
pub(super) enum Token {
    OpenParen,
    CloseParen,
    And,
    Or,
    /// `NOT` or `-`, as typed.
    Not(&'static str),
    /// A text, regex or field.
    Term(Expr),
    End,
}

/// The input and a position in it.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    input: &'a [u8],
    at: usize,
}

/// The operators of fields; an operator precedes its prefixes.
const OPERATORS: [(&[u8], Operator); 8] = [
    (b"!=", Operator::NotEqual),
    (b"!~", Operator::NotMatch),
    (b"=~", Operator::Match),
    (b">=", Operator::Number(Test::GreaterEqual)),
    (b"<=", Operator::Number(Test::LessEqual)),
    (b"=", Operator::Equal),
    (b">", Operator::Number(Test::Greater)),
    (b"<", Operator::Number(Test::Less)),
];

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Match,
    NotMatch,
    Number(fn(f64) -> Test),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    /// Takes the next token, and returns it with its offset.
    pub(super) fn next(&mut self) -> Result<(usize, Token), SyntaxError> {
        self.at += self.rest().iter().take_while(|byte| is_space(**byte)).count();
        let start = self.at;
        let token = match self.rest() {
            [] => Token::End,
            [b'(', ..] => self.skip(1, Token::OpenParen),
            [b')', ..] => self.skip(1, Token::CloseParen),
            [b'-', next, ..] if !is_space(*next) && *next != b')' => self.skip(1, Token::Not("-")),
            [b'"', ..] => self.quoted_term()?,
            [b'/', ..] => {
                let quoted = escape_input(Expr::literal(bare_word(self.rest())).to_string().as_bytes());
                let advice =
                    format!(r"a regex writes a slash as `\/`, text with a slash in front goes in quotes: {quoted}");
                Token::Term(Expr::Regex(self.regex(&advice)?))
            }
            _ => self.word()?,
        };
        Ok((start, token))
    }

    /// The offset after the last token.
    #[cfg(test)]
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// An error at `offset`.
    pub(super) fn error(&self, offset: usize, message: String) -> SyntaxError {
        SyntaxError { column: column(self.input, offset), message }
    }

    /// An error that names what was expected and found at `offset`.
    pub(super) fn expected(&self, what: &str, offset: usize) -> SyntaxError {
        self.error(offset, format!("expected {what}, found {}", self.describe_found(offset)))
    }

    /// As [`Self::expected`], with advice.
    pub(super) fn expected_with_advice(&self, what: &str, offset: usize, advice: &str) -> SyntaxError {
        self.error(offset, format!("expected {what}, found {}; {advice}", self.describe_found(offset)))
    }

    /// The column of `offset`.
    pub(super) fn column(&self, offset: usize) -> usize {
        column(self.input, offset)
    }

    fn describe_found(&self, offset: usize) -> String {
        match self.input_from(offset) {
            [] => "the end of the expression".to_owned(),
            [b'(', ..] => "`(`".to_owned(),
            [b')', ..] => "`)`".to_owned(),
            [byte, ..] if is_space(*byte) => "a space".to_owned(),
            rest => format!("`{}`", escape_input(bare_word(rest))),
        }
    }

    fn input_from(&self, offset: usize) -> &'a [u8] {
        self.input.get(offset..).unwrap_or_default()
    }

    fn rest(&self) -> &'a [u8] {
        self.input_from(self.at)
    }

    fn skip(&mut self, bytes: usize, token: Token) -> Token {
        self.at += bytes;
        token
    }

    /// Takes a keyword, a field with an unquoted name, or text.
    fn word(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let word = bare_word(self.rest());
        let (name, after) = word.split_at(name_length(word));
        if !name.is_empty()
            && let Some(operator) = operator(after)
        {
            self.at += name.len();
            return self.field(start, String::from_utf8_lossy(name).into_owned(), operator);
        }
        self.at += word.len();
        Ok(match word {
            b"AND" => Token::And,
            b"OR" => Token::Or,
            b"NOT" => Token::Not("NOT"),
            _ => Token::Term(Expr::literal(word)),
        })
    }

    /// Takes a field with a quoted name, or quoted text.
    fn quoted_term(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let bytes = self.quoted()?;
        if let Some(operator) = operator(self.rest()) {
            let name = String::from_utf8(bytes)
                .map_err(|_| self.error(start, "expected a field name in UTF-8, found other bytes".to_owned()))?;
            return self.field(start, name, operator);
        }
        let case_insensitive = self.quote_suffix()?;
        Ok(Token::Term(Expr::Literal(Literal { bytes, case_insensitive })))
    }

    /// The rest of a field that began at `start`, from its operator on.
    fn field(&mut self, start: usize, name: String, operator: (usize, Operator)) -> Result<Token, SyntaxError> {
        let (length, operator) = operator;
        self.at += length;
        let before = escape_input(self.input.get(start..self.at).unwrap_or_default());
        let test = match operator {
            Operator::Equal => self.value(&before, Test::Equal)?,
            Operator::NotEqual => self.value(&before, Test::NotEqual)?,
            Operator::Match => Test::Match(self.field_regex(&before)?),
            Operator::NotMatch => Test::NotMatch(self.field_regex(&before)?),
            Operator::Number(test) => test(self.number(&before)?),
        };
        Ok(Token::Term(Expr::Field(Field { name, test })))
    }

    /// Takes the value of an equality test, bare or quoted.
    fn value(&mut self, before: &str, test: fn(Vec<u8>) -> Test) -> Result<Test, SyntaxError> {
        if self.rest().starts_with(b"\"") {
            let test = test(self.quoted()?);
            return Ok(if self.quote_suffix()? { case_insensitive_test(test) } else { test });
        }
        let value = bare_word(self.rest());
        if value.is_empty() {
            return Err(self.expected(&format!("a value after `{before}`"), self.at));
        }
        self.at += value.len();
        Ok(test(value.to_vec()))
    }

    fn field_regex(&mut self, before: &str) -> Result<Pattern, SyntaxError> {
        if self.rest().starts_with(b"/") {
            return self.regex(r"a regex writes a slash as `\/`");
        }
        Err(self.expected_with_advice(&format!("a regex such as `/…/` after `{before}`"), self.at, HINT))
    }

    fn number(&mut self, before: &str) -> Result<f64, SyntaxError> {
        let text = bare_word(self.rest());
        let Some(number) = parse_number(text) else {
            return Err(self.expected_with_advice(&format!("a number after `{before}`"), self.at, HINT));
        };
        self.at += text.len();
        Ok(number)
    }

    /// Takes a quoted string with its quotes.
    fn quoted(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let hex = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let (length, byte) = match *self.rest() {
                [b'"', ..] => break,
                [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    (4, hex(high) << 4 | hex(low))
                }
                [b'\\', b'x', _, ..] => return Err(self.expected("two hex digits after `\\x`", self.at + 2)),
                [b'\\', b'"', ..] => (2, b'"'),
                [b'\\', b'\\', ..] => (2, b'\\'),
                [b'\\', b'n', ..] => (2, b'\n'),
                [b'\\', b'r', ..] => (2, b'\r'),
                [b'\\', b't', ..] => (2, b'\t'),
                [b'\\', b'0', ..] => (2, 0),
                [b'\\', next, ..] if next != b'x' => return Err(self.unknown_escape()),
                // An escape at the end of the input is reported as an unclosed quote.
                [] | [b'\\'] | [b'\\', b'x'] => {
                    let what = format!("`\"` to close the quote in column {}", self.column(start));
                    return Err(self.expected(&what, self.input.len()));
                }
                [byte, ..] => (1, byte),
            };
            bytes.push(byte);
            self.at += length;
        }
        self.at += 1;
        Ok(bytes)
    }

    fn unknown_escape(&self) -> SyntaxError {
        let next = String::from_utf8_lossy(self.input_from(self.at + 1)).chars().next().unwrap_or_default();
        let mut buffer = [0; 4];
        let next = escape_input(next.encode_utf8(&mut buffer).as_bytes());
        let known = r#"`\"`, `\\`, `\n`, `\r`, `\t`, `\0` or `\xHH`"#;
        self.error(self.at, format!(r"expected {known}, found `\{next}`; a backslash in quotes is written `\\`"))
    }

    /// Takes an optional `i` after a closing quote, where the token must end.
    fn quote_suffix(&mut self) -> Result<bool, SyntaxError> {
        self.suffix().map_err(|at| {
            let advice = "inside quotes a `\"` is written `\\\"`";
            self.expected_with_advice("a space or `i` after the closing quote", at, advice)
        })
    }

    /// Takes a regex with its slashes and its suffix. Errors end with `advice` about slashes.
    fn regex(&mut self, advice: &str) -> Result<Pattern, SyntaxError> {
        let start = self.at;
        let body = self.input_from(start + 1);
        let Some(length) = regex_length(body) else {
            let what = format!("`/` to close the regex in column {}", self.column(start));
            return Err(self.expected_with_advice(&what, self.input.len(), advice));
        };
        let body = body.get(..length).unwrap_or_default();
        let source = std::str::from_utf8(body).map_err(|error| {
            let at = error.valid_up_to();
            let byte = body.get(at).copied().unwrap_or_default();
            let message =
                format!(r"expected UTF-8 in a regex, found the byte 0x{byte:02X}; write it `(?-u:\x{byte:02X})`");
            self.error(start + 1 + at, message)
        })?;
        self.at = start + length + 2;
        let case_insensitive = self.suffix().map_err(|at| {
            let what = format!("a space or `i` after the regex `/{}/`", escape_input(body));
            self.expected_with_advice(&what, at, advice)
        })?;
        Ok(Pattern { source: unescape_slashes(source), case_insensitive })
    }

    /// Takes an optional `i`. The error is the offset at which the token should end.
    fn suffix(&mut self) -> Result<bool, usize> {
        match bare_word(self.rest()) {
            [] => Ok(false),
            b"i" => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.at),
        }
    }
}

/// Replaces `\/` in a regex by `/`, and keeps all other escapes.
pub(super) fn unescape_slashes(escaped: &str) -> String {
    let mut source = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            source.push(char);
            continue;
        }
        match chars.next() {
            Some('/') => source.push('/'),
            next => {
                source.push('\\');
                source.extend(next);
            }
        }
    }
    source
}

/// Whether `name` needs no quotes before an operator.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name_length(name) == name.len()
}

/// Whether a byte separates tokens.
pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The length of the field name at the start of a word, or 0.
fn name_length(word: &[u8]) -> usize {
    match word {
        [b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'@', ..] => word
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'-'))
            .count(),
        _ => 0,
    }
}

/// The operator at the start of `text`, with its length.
fn operator(text: &[u8]) -> Option<(usize, Operator)> {
    OPERATORS
        .iter()
        .find(|(spelling, _)| text.starts_with(spelling))
        .map(|(spelling, operator)| (spelling.len(), *operator))
}

/// The bytes up to the next space or parenthesis.
fn bare_word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| is_space(*byte) || matches!(byte, b'(' | b')'));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The number of bytes before the closing slash of a regex.
fn regex_length(body: &[u8]) -> Option<usize> {
    let mut escaped = false;
    body.iter().position(|byte| {
        let closes = *byte == b'/' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

/// Parses a finite decimal number. Unlike `str::parse`, rejects `inf`, `nan` and overflow.
#[must_use]
pub fn parse_number(text: &[u8]) -> Option<f64> {
    let shape = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let text = str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| shape(&byte)))?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
