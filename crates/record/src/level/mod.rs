//! The severity level of a record, if it has one.
//!
//! Programs write the level in different ways, so it is searched for in this order:
//!
//! 1. a label of the stream named as one of [`KEYS`], with a level's name;
//! 2. an attribute of the record so named, or with such a last part behind dots, with a level's name;
//! 3. such a key in the line, as in JSON or logfmt: `"level":"warn"`, `severity=ERROR`, or the numbers of pino and bunyan;
//! 4. the first word that is the name of a level and is written like one: in capitals (`ERROR`), in brackets (`[error]`,
//!    `<warn>`), or before a colon (`fatal: …`);
//! 5. glog's letter and date at the start: `E1121 …`.
//!
//! Only the first bytes of a text are examined: a level comes early, and the search costs time for each record. The page colours
//! records by the same rules; `cases.txt` tests both.
//!
//! ```
//! use bucksaw_record::{Labels, Level, RecordView};
//! let level = |line: &[u8]| Level::of(&Labels::default(), RecordView::line_only(line));
//! assert_eq!(level(br#"{"msg":"no ERROR at all","level":"info"}"#), Some(Level::Info));
//! assert_eq!(level(b"2026-11-20 [error] connection refused"), Some(Level::Error));
//! assert_eq!(level(b"GET /error 200"), None);
//! ```

mod pattern;

use crate::{Labels, RecordView};

pub use pattern::pattern;

/// Bytes of a text that are examined.
const PREFIX_BYTES_MAX: usize = 512;

/// The keys that name a level, in any case of letters. Of a key with dots, such as `log.level`, the last part counts.
pub const KEYS: [&str; 8] =
    ["level", "severity", "lvl", "loglevel", "log_level", "levelname", "severity_text", "severitytext"];

/// The severity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Level {
    /// Steps, for debugging.
    Trace,
    /// Details, for debugging.
    Debug,
    /// Normal events.
    Info,
    /// Possible problems.
    Warn,
    /// Errors.
    Error,
    /// Errors that end a program or need an operator.
    Fatal,
}

impl Level {
    /// All levels, the least severe first.
    pub const ALL: [Self; 6] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error, Self::Fatal];

    /// Its name: `trace`, `debug`, `info`, `warn`, `error` or `fatal`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The level of a record, if [it has one](self).
    pub fn of(labels: &Labels, record: RecordView<'_>) -> Option<Self> {
        Self::of_labels(labels).or_else(|| Self::of_record(record))
    }

    /// The level that the attributes of a record give, else its line.
    pub fn of_record(record: RecordView<'_>) -> Option<Self> {
        Self::of_attributes(record).or_else(|| Self::of_text(record.line()))
    }

    /// The level that the attributes of a record give.
    fn of_attributes(record: RecordView<'_>) -> Option<Self> {
        let mut names = record.names()?.iter();
        if !names.any(is_attribute_key) {
            return None;
        }
        let mut named = record.attributes().into_iter().filter(|(name, _)| is_attribute_key(name));
        named.find_map(|(_, value)| Self::from_name(value))
    }

    /// The level that the labels of a stream give to all its records.
    pub fn of_labels(labels: &Labels) -> Option<Self> {
        let mut named = labels.iter().filter(|(name, _)| is_key(name.as_bytes()));
        named.find_map(|(_, value)| Self::from_name(value.as_bytes()))
    }

    /// The level written in a text.
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let head = text.get(..PREFIX_BYTES_MAX).unwrap_or(text);
        let (mut found, mut at) = (None, 0);
        while let Some(rest) = head.get(at..)
            && let Some(first) = rest.first()
        {
            if *first == 0x1b {
                at += escape_length(rest);
                continue;
            }
            let length = rest.iter().take_while(|byte| is_word(**byte)).count();
            let (word, behind) = rest.split_at(length);
            if is_key(word)
                && let Some(level) = level_after_key(behind)
            {
                return Some(level);
            }
            if found.is_none() && length > 2 {
                let before = head.get(at.wrapping_sub(1)).copied();
                found = Self::from_name(word).filter(|_| is_level_token(before, word, behind.first().copied()));
                if found.is_none() && word == b"LOG" && behind.first() == Some(&b':') {
                    found = Some(Self::Info);
                }
            }
            at += length.max(1);
        }
        found.or_else(|| glog_level(head))
    }

    /// The level of this name, in any case of letters: its own, or another that programs write, such as `warning` or `crit`.
    #[must_use]
    pub fn from_name(word: &[u8]) -> Option<Self> {
        if !(3..=13).contains(&word.len()) {
            return None;
        }
        let is = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
        // The most frequent first.
        let ordered = [Self::Info, Self::Error, Self::Warn, Self::Debug, Self::Trace, Self::Fatal];
        ordered.into_iter().find(|level| level.names().iter().any(is))
    }

    /// Its names, as programs write them, in lower case.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Trace => &["trace", "trc", "verbose", "finest"],
            Self::Debug => &["debug", "dbg"],
            Self::Info => &["info", "inf", "information", "informational", "notice"],
            Self::Warn => &["warn", "warning", "wrn"],
            Self::Error => &["error", "err", "severe"],
            Self::Fatal => &["fatal", "critical", "crit", "panic", "alert", "emerg", "emergency", "ftl"],
        }
    }

    /// The number that pino and bunyan write for it.
    const fn number(self) -> u8 {
        match self {
            Self::Trace => 10,
            Self::Debug => 20,
            Self::Info => 30,
            Self::Warn => 40,
            Self::Error => 50,
            Self::Fatal => 60,
        }
    }

    /// The letter that glog writes for it.
    const fn glog_letter(self) -> Option<char> {
        match self {
            Self::Trace | Self::Debug => None,
            Self::Info => Some('I'),
            Self::Warn => Some('W'),
            Self::Error => Some('E'),
            Self::Fatal => Some('F'),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether an attribute of this name may give a level: of a name with dots, such as `log.level`, the last part counts.
fn is_attribute_key(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|part| is_key(part.as_bytes()))
}

/// Whether a word is one of [`KEYS`].
#[must_use]
pub fn is_key(word: &[u8]) -> bool {
    (3..=13).contains(&word.len()) && KEYS.iter().any(|key| word.eq_ignore_ascii_case(key.as_bytes()))
}

/// The level in the text behind a key: `":"info"`, `=info`, `: 30`.
fn level_after_key(behind: &[u8]) -> Option<Level> {
    let rest = behind.strip_prefix(b"\"").unwrap_or(behind).trim_ascii_start();
    let rest = match rest {
        [b':' | b'=', rest @ ..] => rest.trim_ascii_start(),
        _ => return None,
    };
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let length = rest.iter().take_while(|byte| is_word(**byte)).count();
    let word = rest.get(..length)?;
    let is_number =
        |level: &Level| matches!(word, [tens, b'0'] if level.number() == (tens.wrapping_sub(b'0')).wrapping_mul(10));
    Level::ALL.into_iter().find(is_number).or_else(|| Level::from_name(word))
}

fn is_level_token(before: Option<u8>, word: &[u8], behind: Option<u8>) -> bool {
    let bracketed = matches!((before, behind), (Some(b'['), Some(b']')) | (Some(b'<'), Some(b'>')));
    // `a-error:` and `/error:` are parts of other names.
    let starts = before.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'm' | b']' | b'['));
    bracketed || word.iter().all(u8::is_ascii_uppercase) || (starts && behind == Some(b':'))
}

/// Bytes of the escape sequence that colours a text, at the start of `rest`.
fn escape_length(rest: &[u8]) -> usize {
    match rest {
        [_, b'[', parameters @ ..] => {
            let end = parameters.iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map_or(rest.len(), |end| end + 3)
        }
        _ => 1,
    }
}

fn glog_level(head: &[u8]) -> Option<Level> {
    let [letter, date @ ..] = head.get(..6)? else { return None };
    let dated = matches!(date.split_last(), Some((b' ', digits)) if digits.iter().all(u8::is_ascii_digit));
    let is_letter = |level: &Level| level.glog_letter() == Some(char::from(*letter));
    Level::ALL.into_iter().find(is_letter).filter(|_| dated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttributeNames, AttributeShape};

    #[test]
    fn levels_are_found_as_the_cases_say() {
        let mut cases = 0;
        for case in include_str!("cases.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (want, text) = case.split_once(' ').unwrap();
            let text = text.replace("\\e", "\x1b");
            let found =
                Level::of(&Labels::default(), RecordView::line_only(text.as_bytes())).map_or("none", Level::name);
            assert_eq!(found, want, "{text}");
            cases += 1;
        }
        assert!(cases > 40, "{cases}");
    }

    #[test]
    fn labels_come_first_and_only_a_prefix_is_read() {
        let labels = |text: &str| Labels::parse(text).unwrap();
        let error = RecordView::line_only(b"level=error");
        assert_eq!(Level::of(&labels("app=web,severity=Warning"), error), Some(Level::Warn));
        assert_eq!(Level::of(&labels("level=7"), error), Some(Level::Error));
        let attributes = |names: &[&str], text: &str| {
            let names = AttributeNames::new(names.iter().copied()).unwrap();
            let shape = AttributeShape { names: &names, value_lines: &[] };
            Level::of(&labels(""), RecordView::new(text.as_bytes(), Some(shape)))
        };
        assert_eq!(attributes(&["a", "log.level"], "level=error\nfatal\nWARN"), Some(Level::Warn));
        assert_eq!(attributes(&["severity"], "level=error\n7"), Some(Level::Error));
        assert_eq!(attributes(&["severity_text", "level"], "x\n7\ndebug"), Some(Level::Debug));
        assert_eq!(attributes(&["a"], "x\nlevel=error"), None);
        let far = |before: usize| [&b" ".repeat(before)[..], b"ERROR"].concat();
        assert_eq!(Level::of_text(&far(PREFIX_BYTES_MAX - 5)), Some(Level::Error));
        assert_eq!(Level::of_text(&far(PREFIX_BYTES_MAX - 4)), None);
    }
}
