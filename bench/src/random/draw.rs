//! Draws questions at random from the lines of a log.
//!
//! Nothing here knows the log: a question is a piece of a line that was drawn, its words, or a regex made of it, in which
//! numbers become `\d+`. So every question has at least one match, and none can be prepared for.

use std::sync::LazyLock;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::text::LogText;

/// The kind of a question. The order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A piece of a line.
    Literal,
    /// A word in any case.
    AnyCase,
    /// A piece of a line whose numbers are `\d+`.
    Regex,
    /// Three words or regexes.
    Alternation,
    /// `[a-z0-9]+` before a short regex.
    ClassFirst,
    /// Two pieces of the same line.
    Conjunction,
    /// A word without another.
    Negation,
    /// A key of a JSON object with its value.
    Field,
    /// The newest 100 lines with a piece of a line.
    NewestPage,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Literal,
        Self::AnyCase,
        Self::Regex,
        Self::Alternation,
        Self::ClassFirst,
        Self::Conjunction,
        Self::Negation,
        Self::Field,
        Self::NewestPage,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Literal => "literal",
            Self::AnyCase => "any case",
            Self::Regex => "regex",
            Self::Alternation => "alternation",
            Self::ClassFirst => "class before a literal",
            Self::Conjunction => "conjunction",
            Self::Negation => "negation",
            Self::Field => "field",
            Self::NewestPage => "newest 100",
        }
    }
}

/// A question for Bucksaw and for `rg`.
#[derive(Clone, Debug)]
pub(super) struct DrawnQuestion {
    pub(super) kind: Kind,
    /// The expression.
    pub(super) expr: String,
    /// The searches of `rg`; the second reads what the first prints.
    pub(super) searches: Vec<RgSearch>,
    /// The field and its value, for an oracle that reads JSON. `rg` finds the text wherever it stands.
    pub(super) field: Option<(String, String)>,
}

/// One search of `rg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RgSearch {
    pub(super) pattern: String,
    pub(super) options: &'static [&'static str],
}

impl RgSearch {
    fn fixed(pattern: &str, options: &'static [&'static str]) -> Self {
        Self { pattern: pattern.to_owned(), options }
    }
}

/// Questions about a log, from a seed.
pub(super) struct Questioner<'a> {
    log: &'a LogText,
    random: Xoshiro256PlusPlus,
}

/// Lines that questions are drawn from, in bytes.
const LINE_BYTES: std::ops::Range<usize> = 20..4_000;

/// Lines that are tried for a question.
const TRIES: usize = 2_000;

impl<'a> Questioner<'a> {
    pub(super) fn new(log: &'a LogText, seed: u64) -> Self {
        Self { log, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// A question of this kind; `None` if the log has no lines for it.
    pub(super) fn draw(&mut self, kind: Kind) -> Option<DrawnQuestion> {
        let question = |expr: String, searches: Vec<RgSearch>| DrawnQuestion { kind, expr, searches, field: None };
        Some(match kind {
            Kind::Literal | Kind::NewestPage => {
                let piece = self.piece(4, 20)?;
                question(quoted(&piece), vec![RgSearch::fixed(&piece, &["-F"])])
            }
            Kind::AnyCase => {
                let word = self.word()?;
                question(quoted(&word) + "i", vec![RgSearch::fixed(&word, &["-F", "-i"])])
            }
            Kind::Regex => {
                let regex = regex_of(&self.piece(8, 24)?);
                question(slashed(&regex), vec![RgSearch::fixed(&regex, &[])])
            }
            Kind::Alternation => {
                let mut parts = Vec::new();
                for _ in 0..3 {
                    parts.push(if self.below(2) == 0 { regex_of(&self.piece(4, 12)?) } else { self.word()? });
                }
                let regex = parts.join("|");
                question(slashed(&regex), vec![RgSearch::fixed(&regex, &[])])
            }
            Kind::ClassFirst => {
                let regex = format!("[a-z0-9]+{}", regex_of(&self.piece(5, 10)?));
                question(slashed(&regex), vec![RgSearch::fixed(&regex, &[])])
            }
            Kind::Conjunction => {
                let line = self.line()?;
                let (one, other) = (self.piece_of(&line, 4, 16), self.piece_of(&line, 4, 16));
                let expr = format!("{} {}", quoted(&one), quoted(&other));
                question(expr, vec![RgSearch::fixed(&one, &["-F"]), RgSearch::fixed(&other, &["-F"])])
            }
            Kind::Negation => {
                let (one, other) = (self.word()?, self.word()?);
                let expr = format!("{} NOT {}", quoted(&one), quoted(&other));
                question(expr, vec![RgSearch::fixed(&one, &["-F"]), RgSearch::fixed(&other, &["-F", "-v"])])
            }
            Kind::Field => {
                let (name, value, text) = self.field()?;
                let expr = format!("{name}={}", quoted(&value));
                DrawnQuestion { field: Some((name, value)), ..question(expr, vec![RgSearch::fixed(&text, &["-F"])]) }
            }
        })
    }

    fn below(&mut self, bound: usize) -> usize {
        // The bias is below 1 in 4 billion.
        ((u128::from(self.random.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A random line of printable ASCII. The line around a random byte is taken, so a long line is taken more often.
    fn line(&mut self) -> Option<String> {
        (0..TRIES).find_map(|_| {
            let at = self.below(self.log.bytes().len());
            let line = self.log.line_at(at);
            let is_fit = LINE_BYTES.contains(&line.len()) && line.iter().all(|byte| (b' '..=b'~').contains(byte));
            is_fit.then(|| String::from_utf8_lossy(line).into_owned())
        })
    }

    fn piece(&mut self, least: usize, most: usize) -> Option<String> {
        let line = self.line()?;
        Some(self.piece_of(&line, least, most))
    }

    fn piece_of(&mut self, line: &str, least: usize, most: usize) -> String {
        let length = least + self.below(most - least + 1);
        let start = self.below(line.len().saturating_sub(length).max(1));
        line.get(start..(start + length).min(line.len())).unwrap_or_default().to_owned()
    }

    /// A word of four letters or more.
    fn word(&mut self) -> Option<String> {
        (0..TRIES).find_map(|_| {
            let line = self.line()?;
            let words: Vec<&str> =
                line.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| word.len() >= 4).collect();
            (!words.is_empty()).then(|| words.get(self.below(words.len())).map(|word| (*word).to_owned()))?
        })
    }

    /// A key at the top of a JSON object, its text value, and the bytes of both in the line.
    fn field(&mut self) -> Option<(String, String, String)> {
        (0..TRIES / 10).find_map(|_| {
            let line = self.line()?;
            let Ok(Value::Object(object)) = serde_json::from_str(&line) else { return None };
            let fields: Vec<(&String, &str)> = object
                .iter()
                .filter_map(|(name, value)| Some((name, value.as_str()?)))
                .filter(|(name, value)| is_name(name) && (2..60).contains(&value.len()))
                .collect();
            let (name, value) = *fields.get(self.below(fields.len().max(1)))?;
            let texts = [format!("\"{name}\":\"{value}\""), format!("\"{name}\": \"{value}\"")];
            let text = texts.into_iter().find(|text| line.contains(text))?;
            Some((name.clone(), value.to_owned(), text))
        })
    }
}

/// Whether a key is a name in expressions without quotes, and no name with a meaning of its own.
fn is_name(name: &str) -> bool {
    static RESERVED: LazyLock<[&str; 3]> = LazyLock::new(|| ["AND", "OR", "NOT"]);
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !RESERVED.contains(&name)
}

/// A literal of an expression.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A regex of an expression.
fn slashed(regex: &str) -> String {
    format!("/{}/", regex.replace('/', "\\/"))
}

/// A regex that matches the text, and texts with other numbers.
fn regex_of(text: &str) -> String {
    let mut regex = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if regex.ends_with("\\d+") => {}
            '0'..='9' => regex.push_str("\\d+"),
            '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
                regex.push('\\');
                regex.push(letter);
            }
            _ => regex.push(letter),
        }
    }
    regex
}

#[cfg(test)]
mod tests {
    use bucksaw_record::Expr;

    use super::*;

    fn log() -> LogText {
        let mut text = Vec::new();
        for at in 0..2_000 {
            text.extend_from_slice(
                format!(
                    "{{\"type\":\"push\",\"user\": \"u{}\",\"text\":\"a \\\"b\\\\ {at}.5 [x] /etc/passwd\"}}\n",
                    at % 7
                )
                .as_bytes(),
            );
            text.extend_from_slice(
                format!("2026-11-24 10:00:{:02} GET /a/b?c={at} HTTP/1.1 (ok)\n", at % 60).as_bytes(),
            );
        }
        LogText::new(text)
    }

    #[test]
    fn regexes_keep_words_and_generalise_numbers() {
        assert_eq!(regex_of("a.b 10:05 (x)"), "a\\.b \\d+:\\d+ \\(x\\)");
        assert_eq!(regex_of("\\d"), "\\\\d");
        assert_eq!(slashed("a/b"), "/a\\/b/");
        assert_eq!(quoted("a\"\\"), "\"a\\\"\\\\\"");
    }

    #[test]
    fn questions_of_all_kinds_are_expressions_and_the_same_for_a_seed() {
        let log = log();
        let draw = |seed| {
            let mut questioner = Questioner::new(&log, seed);
            (0..180).map(|at| questioner.draw(Kind::ALL[at % Kind::ALL.len()]).unwrap()).collect::<Vec<_>>()
        };
        let questions = draw(3);
        for question in &questions {
            assert!(Expr::parse(question.expr.as_bytes()).is_ok(), "{}", question.expr);
            assert_eq!(question.field.is_some(), question.kind == Kind::Field);
        }
        let exprs =
            |questions: &[DrawnQuestion]| questions.iter().map(|question| question.expr.clone()).collect::<Vec<_>>();
        assert_eq!(exprs(&questions), exprs(&draw(3)));
        assert_ne!(exprs(&questions), exprs(&draw(4)));
    }

    #[test]
    fn a_log_without_lines_for_a_kind_has_no_such_question() {
        let log = LogText::new(b"short\n".repeat(100));
        assert!(Kind::ALL.into_iter().all(|kind| Questioner::new(&log, 1).draw(kind).is_none()));
    }
}
