//! Replaces parts of a text.

use regex_automata::Anchored;
use regex_automata::meta::{Config, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::util::{interpolate, syntax};
use regex_automata::{Input, meta::BuildError};

use super::config_error::LineConfigError;

/// What a match is replaced by, unless the setting says it.
const DEFAULT_TEXT: &str = "[redacted]";

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
    /// A redaction as it is typed: a regex, or as in `sed` `s/REGEX/TEXT/` with any punctuation character for the slash. `$1` or
    /// `${name}` in the text is a group of the regex, and `$$` a dollar sign.
    pub(super) fn parse(text: &str) -> Result<Self, LineConfigError> {
        let (regex, text) = substitution(text).unwrap_or((text, DEFAULT_TEXT));
        Ok(Self { regex: compile(regex)?, text: text.to_owned(), has_groups: text.contains('$') })
    }

    /// Appends the text with all matches replaced; false, and nothing appended, if there is none. Empty matches stay.
    pub(super) fn apply(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let mut copied = None;
        let mut captures = None;
        for found in self.regex.find_iter(text).filter(|found| !found.is_empty()) {
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

/// The parts of `s/REGEX/TEXT/`.
fn substitution(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('s')?;
    let mark = rest.chars().next().filter(char::is_ascii_punctuation)?;
    let (regex, replacement) = rest.strip_prefix(mark)?.strip_suffix(mark)?.split_once(mark)?;
    (!regex.is_empty() && !replacement.contains(mark)).then_some((regex, replacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_replaced() {
        let check = |redaction: &str, text: &str, want: &str| {
            let mut out = Vec::new();
            let is_changed = Redaction::parse(redaction).unwrap().apply(text.as_bytes(), &mut out);
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
        // No substitution: the delimiter is not at the end, or there are too many.
        check("s/x", "s/x", "[redacted]");
        check("secrets", "secrets", "[redacted]");
        check("s/a/b/c/", "s/a/b/c/", "[redacted]");
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
    }
}
