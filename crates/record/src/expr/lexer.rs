//! Splits an expression into tokens.
//!
//! A term (text, regex, or field with its test) is one token, because it contains no space outside quotes and slashes.
//! Tokens are produced on demand, so the error reported is the leftmost.

use super::SyntaxError;
use super::case_fold::case_insensitive_test;
use super::error::{self, column};
use super::quantity::Limit;
use super::tree::{Expr, Field, LevelTest, LineTest, Literal, Pattern, Test};
use crate::level::{self, Level};

/// The name of the level of records without a level.
pub(super) const NO_LEVEL: &str = "none";

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
    /// The offset of the regex of the last token, or of the quoted value that became one.
    pattern_at: Option<usize>,
}

/// The operators of fields; an operator precedes its prefixes.
const OPERATORS: [(&[u8], Operator); 8] = [
    (b"!=", Operator::NotEqual),
    (b"!~", Operator::NotMatch),
    (b"=~", Operator::Match),
    (b">=", Operator::Compare(Test::GreaterEqual, LevelTest::GreaterEqual)),
    (b"<=", Operator::Compare(Test::LessEqual, LevelTest::LessEqual)),
    (b"=", Operator::Equal),
    (b">", Operator::Compare(Test::Greater, LevelTest::Greater)),
    (b"<", Operator::Compare(Test::Less, LevelTest::Less)),
];

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Match,
    NotMatch,
    Compare(fn(Limit) -> Test, fn(Level) -> LevelTest),
}

/// The name of the level, which is derived from a record. In quotes it is an ordinary field.
pub(super) const LEVEL_NAME: &str = "@level";

/// The name of the line of a record. In quotes it is an ordinary field.
pub(super) const LINE_NAME: &str = "_line";

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0, pattern_at: None }
    }

    /// Takes the next token, and returns it with its offset.
    pub(super) fn next(&mut self) -> Result<(usize, Token), SyntaxError> {
        self.at += self.rest().iter().take_while(|byte| is_space(**byte)).count();
        let start = self.at;
        self.pattern_at = None;
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

    /// The offset of the regex of the last token, or of the quoted value that became one.
    pub(super) fn pattern_offset(&self) -> Option<usize> {
        self.pattern_at
    }

    /// The offset after the last token.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// An error at `offset`.
    pub(super) fn error(&self, offset: usize, message: String) -> SyntaxError {
        SyntaxError { column: column(self.input, offset), message }
    }

    /// An error with the expected and the found token at `offset`.
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
            if name == LEVEL_NAME.as_bytes() {
                return self.level(start, operator);
            }
            if name == LINE_NAME.as_bytes() {
                return self.line(start, operator);
            }
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
            Operator::Equal => self.value(&before, Test::Equal, Test::Exists)?,
            Operator::NotEqual => self.value(&before, Test::NotEqual, Test::NotExists)?,
            Operator::Match => Test::Match(self.field_regex(&before)?),
            Operator::NotMatch => Test::NotMatch(self.field_regex(&before)?),
            Operator::Compare(test, _) => test(self.limit(&name, &before)?),
        };
        Ok(Token::Term(Expr::Field(Field { name, test })))
    }

    /// The rest of a test of the level that began at `start`, from its operator on.
    fn level(&mut self, start: usize, operator: (usize, Operator)) -> Result<Token, SyntaxError> {
        let (length, operator) = operator;
        self.at += length;
        let before = escape_input(self.input.get(start..self.at).unwrap_or_default());
        let (value_at, is_star) = (self.at, bare_word(self.rest()) == b"*");
        let wants_star = matches!(operator, Operator::Equal | Operator::NotEqual);
        let mut value = bare_word(self.rest()).to_vec();
        if self.rest().starts_with(b"\"") {
            value = self.quoted()?;
            self.quote_suffix()?;
        } else {
            self.at += value.len();
        }
        let level = Level::from_name(&value);
        let is_none = value.eq_ignore_ascii_case(NO_LEVEL.as_bytes());
        let test = match operator {
            Operator::Equal if is_star => Some(LevelTest::Exists),
            Operator::NotEqual if is_star => Some(LevelTest::NotExists),
            Operator::Equal if is_none => Some(LevelTest::Equal(None)),
            Operator::NotEqual if is_none => Some(LevelTest::NotEqual(None)),
            Operator::Equal => level.map(|level| LevelTest::Equal(Some(level))),
            Operator::NotEqual => level.map(|level| LevelTest::NotEqual(Some(level))),
            Operator::Compare(_, test) => level.map(test),
            Operator::Match | Operator::NotMatch => {
                let what = "`=`, `!=`, `<`, `<=`, `>` or `>=` after `@level`";
                return Err(self.expected(what, start + LEVEL_NAME.len()));
            }
        };
        test.map(|test| Token::Term(Expr::Level(test))).ok_or_else(|| {
            let others = if wants_star { ", `none` or `*`" } else { "" };
            let names = Level::ALL.map(|level| format!("`{}`", level.name())).join(", ");
            self.expected(&format!("a level after `{before}` ({names}{others})"), value_at)
        })
    }

    /// The rest of a test of the line that began at `start`, from its operator on.
    fn line(&mut self, start: usize, operator: (usize, Operator)) -> Result<Token, SyntaxError> {
        let (length, operator) = operator;
        self.at += length;
        let before = escape_input(self.input.get(start..self.at).unwrap_or_default());
        let test = match operator {
            Operator::Equal => LineTest::Contains(self.line_text(&before)?),
            Operator::NotEqual => LineTest::NotContains(self.line_text(&before)?),
            Operator::Match => LineTest::Match(self.field_regex(&before)?),
            Operator::NotMatch => LineTest::NotMatch(self.field_regex(&before)?),
            Operator::Compare(..) => {
                return Err(self.expected("`=`, `!=`, `=~` or `!~` after `_line`", start + LINE_NAME.len()));
            }
        };
        Ok(Token::Term(Expr::Line(test)))
    }

    /// Takes the text that a line contains, bare or quoted.
    fn line_text(&mut self, before: &str) -> Result<Literal, SyntaxError> {
        if self.rest().starts_with(b"\"") {
            let bytes = self.quoted()?;
            return Ok(Literal { bytes, case_insensitive: self.quote_suffix()? });
        }
        let text = bare_word(self.rest());
        match text {
            b"" => return Err(self.expected(&format!("text after `{before}`"), self.at)),
            b"*" => {
                let advice = "every record has a line; put a star in quotes to search for it";
                return Err(self.expected_with_advice(&format!("text after `{before}`"), self.at, advice));
            }
            _ => {}
        }
        self.at += text.len();
        Ok(Literal { bytes: text.to_vec(), case_insensitive: false })
    }

    /// Takes the value of an equality test, bare or quoted; `any_value` is the test for a bare star.
    fn value(&mut self, before: &str, test: fn(Vec<u8>) -> Test, any_value: Test) -> Result<Test, SyntaxError> {
        if self.rest().starts_with(b"\"") {
            let start = self.at;
            let test = test(self.quoted()?);
            if self.quote_suffix()? {
                self.pattern_at = Some(start);
                return Ok(case_insensitive_test(test));
            }
            return Ok(test);
        }
        let value = bare_word(self.rest());
        if value.is_empty() {
            return Err(self.expected(&format!("a value after `{before}`"), self.at));
        }
        self.at += value.len();
        Ok(if value == b"*" { any_value } else { test(value.to_vec()) })
    }

    fn field_regex(&mut self, before: &str) -> Result<Pattern, SyntaxError> {
        if self.rest().starts_with(b"/") {
            return self.regex(r"a regex writes a slash as `\/`");
        }
        Err(self.expected_with_advice(&format!("a regex such as `/…/` after `{before}`"), self.at, HINT))
    }

    /// Takes the limit of a comparison of the field `name`.
    fn limit(&mut self, name: &str, before: &str) -> Result<Limit, SyntaxError> {
        let text = bare_word(self.rest());
        let Some(limit) = Limit::parse(text) else {
            let what = format!("a number, a duration such as `10ms` or a size such as `1MB` after `{before}`");
            let advice = match Level::from_name(text).filter(|_| level::is_key(name.as_bytes())) {
                Some(level) => format!("the rank of levels is compared by `@level`, as in `@level>={}`", level.name()),
                None => HINT.to_owned(),
            };
            return Err(self.expected_with_advice(&what, self.at, &advice));
        };
        self.at += text.len();
        Ok(limit)
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
            let advice = match self.input_from(at) {
                // A selector of labels of another language.
                [b'}' | b',', ..] => "labels and fields are written without braces and commas: `app=x level=y`",
                _ => "inside quotes a `\"` is written `\\\"`",
            };
            self.expected_with_advice("a space or `i` after the closing quote", at, advice)
        })
    }

    /// Takes a regex with its slashes and its suffix. Errors end with `advice` about slashes.
    fn regex(&mut self, advice: &str) -> Result<Pattern, SyntaxError> {
        let start = self.at;
        self.pattern_at = Some(start);
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

/// Whether a byte separates tokens.
pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// The length of the field name at the start of a word, or 0.
pub(super) fn name_length(word: &[u8]) -> usize {
    let Some(valid) = word.utf8_chunks().next().map(|chunk| chunk.valid()) else { return 0 };
    if !valid.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '@')) {
        return 0;
    }
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '@' | '-');
    valid.find(|char| !is_part(char)).unwrap_or(valid.len())
}

/// The operator at the start of `text`, with its length.
fn operator(text: &[u8]) -> Option<(usize, Operator)> {
    OPERATORS
        .iter()
        .find(|(spelling, _)| text.starts_with(spelling))
        .map(|(spelling, operator)| (spelling.len(), *operator))
}

/// The operator of a field at the start of `text`, with its length.
pub(super) fn operator_length(text: &[u8]) -> Option<(&'static str, usize)> {
    let (spelling, _) = OPERATORS.iter().find(|(spelling, _)| text.starts_with(spelling))?;
    Some((str::from_utf8(spelling).ok()?, spelling.len()))
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
