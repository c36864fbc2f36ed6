//! Replaces parts of a text.

use std::cell::RefCell;

use regex_automata::Anchored;
use regex_automata::meta::{Config, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::{interpolate, syntax};
use regex_automata::{Input, PatternID, meta::BuildError};

use super::config_error::LineConfigError;

/// What a match is replaced by, unless the setting says it.
const DEFAULT_TEXT: &str = "[redacted]";

/// The characters that may divide a substitution. Behind an `s`, others are a part of a regex.
const DIVIDERS: [char; 10] = ['/', '|', '#', ',', ':', ';', '!', '%', '~', '@'];

/// The largest automaton of a regex, in bytes.
const NFA_BYTES_MAX: usize = 512 << 10;

/// The cache of states of a regex, in bytes.
const CACHE_BYTES: usize = 1 << 20;

/// Compiles a regex as filter expressions have them: over bytes, with Unicode off, `^` and `$` at the lines of a record.
pub(super) fn compile(text: &str) -> Result<Regex, LineConfigError> {
    let syntax = syntax::Config::new().unicode(false).utf8(false).multi_line(true);
    let config = Config::new().utf8_empty(false).nfa_size_limit(Some(NFA_BYTES_MAX)).hybrid_cache_capacity(CACHE_BYTES);
    Regex::builder().syntax(syntax).configure(config).build(text).map_err(|error| {
        let reason = reason(&error);
        LineConfigError::Regex { text: text.to_owned(), reason }
    })
}

fn reason(error: &BuildError) -> String {
    match (error.syntax_error(), error.size_limit()) {
        (Some(error), _) => {
            error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
        (None, Some(_)) => "it is too large".to_owned(),
        (None, None) => error.to_string(),
    }
}

/// A regex whose matches are replaced.
#[derive(Clone, Debug)]
pub(super) struct Redaction {
    regex: Regex,
    text: String,
    /// Whether the text refers to groups of the match.
    has_groups: bool,
}

impl Redaction {
    /// A redaction as it is typed: a regex, or as in `sed` `s/REGEX/TEXT/`, also with another of [`DIVIDERS`] for the slash. `$1` or
    /// `${name}` in the text is a group of the regex, and `$$` a dollar sign. What only resembles a substitution is an error,
    /// as it would redact nothing.
    pub(super) fn parse(text: &str) -> Result<Self, LineConfigError> {
        let (regex, replacement) = match divider(text) {
            Some(mark) => {
                substitution(text, mark).ok_or_else(|| LineConfigError::Substitution(text.to_owned(), mark))?
            }
            None => (text, DEFAULT_TEXT),
        };
        if regex.is_empty() {
            return Err(LineConfigError::Empty);
        }
        let parsed =
            Self { regex: compile(regex)?, text: replacement.to_owned(), has_groups: replacement.contains('$') };
        match parsed.unknown_group() {
            Some(group) => Err(LineConfigError::Group { text: text.to_owned(), group }),
            None => Ok(parsed),
        }
    }

    /// A group that the replacement names and the regex has not.
    fn unknown_group(&self) -> Option<String> {
        let groups = self.regex.group_info();
        let unknown = RefCell::new(None);
        let group = |index: usize, _: &mut Vec<u8>| {
            if index >= groups.group_len(PatternID::ZERO) {
                unknown.borrow_mut().get_or_insert(format!("${index}"));
            }
        };
        let index = |name: &str| {
            let index = groups.to_index(PatternID::ZERO, name);
            if index.is_none() {
                unknown.borrow_mut().get_or_insert(format!("${name}"));
            }
            index
        };
        interpolate::bytes(self.text.as_bytes(), group, index, &mut Vec::new());
        unknown.into_inner()
    }

    /// Appends the text with all matches replaced; false, and nothing appended, if there is none. Empty matches stay. What
    /// becomes longer than `bytes_max` is cut there or a little behind.
    pub(super) fn apply(&self, text: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let mut copied = None;
        let mut captures = None;
        for found in self.regex.find_iter(text).filter(|found| !found.is_empty()) {
            if out.len() > bytes_max {
                return true;
            }
            let from = copied.unwrap_or_default();
            out.extend_from_slice(text.get(from..found.start()).unwrap_or_default());
            if self.has_groups {
                let captures: &mut Captures = captures.get_or_insert_with(|| self.regex.create_captures());
                // The same match again, with its groups.
                self.regex.captures(Input::new(text).range(found.start()..).anchored(Anchored::Yes), captures);
                let group = |index: usize, out: &mut Vec<u8>| {
                    out.extend_from_slice(
                        captures.get_group(index).and_then(|span| text.get(span.range())).unwrap_or_default(),
                    );
                };
                let index = |name: &str| self.regex.group_info().to_index(found.pattern(), name);
                interpolate::bytes(self.text.as_bytes(), group, index, out);
            } else {
                out.extend_from_slice(self.text.as_bytes());
            }
            copied = Some(found.end());
        }
        let Some(from) = copied else { return false };
        out.extend_from_slice(text.get(from..).unwrap_or_default());
        true
    }
}

/// The character behind the `s` of what is meant as a substitution.
fn divider(text: &str) -> Option<char> {
    text.strip_prefix('s')?.chars().next().filter(|mark| DIVIDERS.contains(mark))
}

/// The parts of `s/REGEX/TEXT/`.
fn substitution(text: &str, mark: char) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('s')?.strip_prefix(mark)?;
    let (regex, replacement) = rest.strip_suffix(mark)?.split_once(mark)?;
    (!replacement.contains(mark)).then_some((regex, replacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_replaced() {
        let check = |redaction: &str, text: &str, want: &str| {
            let mut out = Vec::new();
            let is_changed = Redaction::parse(redaction).unwrap().apply(text.as_bytes(), usize::MAX, &mut out);
            assert_eq!((String::from_utf8(out).unwrap().as_str(), is_changed), (want, !want.is_empty()), "{redaction}");
        };
        check(r"\d{4}-\d{4}", "card 1234-5678, 8765-4321.", "card [redacted], [redacted].");
        check("secret", "nothing here", "");
        check("x*", "axxb", "a[redacted]b");
        check("s/secret/***/", "a secret", "a ***");
        check("s|/home/[a-z]+|~|", "in /home/ann/x", "in ~/x");
        check(r"s/(user|mail)=\w+/$1=?/", "user=ann mail=b", "user=? mail=?");
        check(r"s/(?<key>token): \w+/${key}$$/", "token: abc", "token$");
        check("s/password=[^ ]*//", "a password=x b", "a  b");
        check("^b", "a\nb", "a\n[redacted]");
        // No substitution.
        check("secrets", "secrets", "[redacted]");
        check(r"s\d+", "s12", "[redacted]");
        check("s.c", "sec", "[redacted]");
    }

    #[test]
    fn wrong_regexes_are_errors() {
        let check = |text: &str, want: &str| {
            let error = Redaction::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("a[b", "the regex `a[b`: unclosed character class");
        check(r"\pL", "Unicode not allowed");
        check("(a{1000}){1000}", "it is too large");
        for text in ["s/a/X/g", "s/a", r"s/a\/b/x/", "s/a/b/c/", "s:a"] {
            check(text, "two parts");
        }
        check("", "the regex is empty");
        check("s///", "the regex is empty");
        check("s/(a)/$1x/", "no group `$1x`");
        check("s/(a)/$2/", "no group `$2`");
        check("s/(?<b>a)/${c}/", "no group `$c`");
    }

    #[test]
    fn a_text_that_grows_is_cut() {
        let redaction = Redaction::parse("s/a/bbb/").unwrap();
        let mut out = Vec::new();
        assert!(redaction.apply(&[b'a'; 1_000], 100, &mut out));
        assert!(out.len() > 100 && out.len() < 110, "{}", out.len());
    }
}
