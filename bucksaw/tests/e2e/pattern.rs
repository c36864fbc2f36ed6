//! Random patterns from data, written for grep and for Bucksaw, and the lines that grep finds.
//!
//! Lines are those of grep: the text between two LFs, and a last one without. Regexes use the common syntax of both.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use bucksaw_faults::Random;

/// Maximum bytes of a line in a pattern.
const PIECE_BYTES_MAX: usize = 40;

/// A text or a regex.
#[derive(Clone, Debug)]
pub(crate) struct PatternTerm {
    pub(crate) regex: bool,
    pub(crate) any_case: bool,
    /// The grep flag `-F` or `-E`, and the pattern.
    grep: Vec<u8>,
    /// For `query`, `-F` or `-E`.
    pub(crate) bucksaw: Vec<u8>,
}

/// A combination of terms.
#[derive(Clone, Debug)]
pub(crate) enum PatternTree {
    Term(PatternTerm),
    And(Vec<PatternTree>),
    Or(Vec<PatternTree>),
    Not(Box<PatternTree>),
}

impl PatternTerm {
    /// A part of a line as a text.
    pub(crate) fn text(text: &[u8], random: &mut Random) -> Self {
        let (piece, _, _) = piece(text, random);
        Self { regex: false, any_case: random.one_in(3), grep: piece.to_vec(), bucksaw: piece.to_vec() }
    }

    /// A part of a line as a regex, with gaps.
    pub(crate) fn regex(text: &[u8], random: &mut Random) -> Self {
        let (piece, at_start, at_end) = piece(text, random);
        let mut both = PatternPair::default();
        if random.one_in(if at_start { 2 } else { 20 }) {
            both.push("^");
        }
        let mut rest = piece;
        while let [byte, behind @ ..] = rest {
            rest = behind;
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let letters = rest.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
            match random.below(16) {
                0 => both.push("."),
                1 => {
                    both.push(".*");
                    rest = &rest[random.below(6).min(rest.len())..];
                }
                2 => {
                    both.push("[^ ]*");
                    rest = &rest[random.below(6).min(rest.len())..];
                }
                3 => {
                    both.byte(*byte);
                    both.push(if random.one_in(2) { "?" } else { "+" });
                }
                4 => {
                    let mut other = PatternPair::default();
                    other.bytes(self::piece(text, random).0);
                    let mut this = PatternPair::default();
                    this.byte(*byte);
                    both.either(this, other);
                }
                _ if byte.is_ascii_digit() && random.one_in(2) => {
                    both.push("[0-9]+");
                    rest = &rest[digits..];
                }
                _ if byte.is_ascii_lowercase() && random.one_in(8) => {
                    both.push("[a-z]+");
                    rest = &rest[letters..];
                }
                _ => both.byte(*byte),
            }
        }
        if random.one_in(if at_end { 2 } else { 20 }) {
            both.push("$");
        }
        Self { regex: true, any_case: random.one_in(4), grep: both.grep, bucksaw: both.bucksaw.into_bytes() }
    }

    /// The term in a filter expression.
    fn to_expression(&self) -> String {
        let suffix = if self.any_case { "i" } else { "" };
        if self.regex {
            return format!("/{}/{suffix}", str::from_utf8(&self.bucksaw).unwrap());
        }
        let escape = |byte: &u8| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(*byte)),
            b' '..=b'~' => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        };
        format!("\"{}\"{suffix}", self.bucksaw.iter().map(escape).collect::<String>())
    }

    /// The numbers of the matching lines of a file.
    fn lines(&self, file: &Path) -> BTreeSet<u64> {
        let out = grep(&["-n"], Some(self), &[file]);
        let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| number(line.split(|byte| *byte == b':').next().unwrap())).collect()
    }
}

impl PatternTree {
    /// Two to four terms with random operators.
    pub(crate) fn random(text: &[u8], random: &mut Random) -> Self {
        let members = (0..2 + random.below(2)).map(|_| Self::member(text, random)).collect();
        if random.one_in(2) { Self::And(members) } else { Self::Or(members) }
    }

    fn member(text: &[u8], random: &mut Random) -> Self {
        match random.below(10) {
            0 | 1 => Self::Not(Box::new(Self::member(text, random))),
            2 => Self::And(vec![Self::member(text, random), Self::member(text, random)]),
            3 => Self::Or(vec![Self::member(text, random), Self::member(text, random)]),
            4 | 5 => Self::Term(PatternTerm::regex(text, random)),
            _ => Self::Term(PatternTerm::text(text, random)),
        }
    }

    /// A filter expression that can be part of another.
    pub(crate) fn expression(&self, random: &mut Random) -> String {
        match self {
            Self::Term(term) => term.to_expression(),
            Self::Not(inner) => {
                let sign = if random.one_in(2) { "NOT " } else { "-" };
                format!("{sign}{}", inner.expression(random))
            }
            Self::And(members) => {
                let between = if random.one_in(2) { " AND " } else { " " };
                format!("({})", join(members, between, random))
            }
            Self::Or(members) => format!("({})", join(members, " OR ", random)),
        }
    }

    /// The number of matching lines of a file, by grep for each term.
    pub(crate) fn count(&self, file: &Path) -> u64 {
        match self {
            // Simple patterns are counted by grep itself.
            Self::Term(term) => count(&["-c"], term, &[file]),
            Self::Not(inner) if matches!(&**inner, Self::Term(_)) => {
                let Self::Term(term) = &**inner else { unreachable!("it was looked at") };
                count(&["-c", "-v"], term, &[file])
            }
            _ => self.lines(file).len() as u64,
        }
    }

    /// The numbers of the matching lines of a file, from 1.
    pub(crate) fn lines(&self, file: &Path) -> BTreeSet<u64> {
        match self {
            Self::Term(term) => term.lines(file),
            Self::Not(inner) => {
                let (all, without) = (number(&grep(&["-c"], None, &[file])), inner.lines(file));
                (1..=all).filter(|line| !without.contains(line)).collect()
            }
            Self::And(members) => {
                let mut sets = members.iter().map(|member| member.lines(file));
                let first = sets.next().unwrap();
                sets.fold(first, |have, more| have.intersection(&more).copied().collect())
            }
            Self::Or(members) => members.iter().flat_map(|member| member.lines(file)).collect(),
        }
    }
}

/// The number of lines that a term matches, or with `-v` does not match.
pub(crate) fn count(letters: &[&str], term: &PatternTerm, files: &[&Path]) -> u64 {
    let counts = grep(&[letters, &["-h"]].concat(), Some(term), files);
    counts.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(number).sum()
}

/// The output of grep; without a term it searches the empty text, which every line has.
fn grep(letters: &[&str], term: Option<&PatternTerm>, files: &[&Path]) -> Vec<u8> {
    let mut command = Command::new("grep");
    command.env("LC_ALL", "C").arg("-a").args(letters);
    command.arg(if term.is_some_and(|term| term.regex) { "-E" } else { "-F" });
    if term.is_some_and(|term| term.any_case) {
        command.arg("-i");
    }
    let source = term.map_or(&b""[..], |term| &term.grep);
    let output = command.arg("-e").arg(OsStr::from_bytes(source)).arg("--").args(files).output().unwrap();
    let found = matches!(output.status.code(), Some(0 | 1));
    assert!(found && output.stderr.is_empty(), "{command:?}: {output:?}");
    output.stdout
}

fn number(digits: &[u8]) -> u64 {
    str::from_utf8(digits).unwrap().trim_end().parse().unwrap()
}

fn join(members: &[PatternTree], between: &str, random: &mut Random) -> String {
    members.iter().map(|member| member.expression(random)).collect::<Vec<_>>().join(between)
}

/// A part of a line without NUL, which arguments cannot have, and whether it begins and ends the line.
fn piece<'a>(text: &'a [u8], random: &mut Random) -> (&'a [u8], bool, bool) {
    loop {
        let at = random.below(text.len());
        let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| at + length);
        let from = if random.one_in(5) { start } else { at };
        let to = (from + 1 + random.below(PIECE_BYTES_MAX)).min(end);
        if from < to && !text[from..to].contains(&0) {
            return (&text[from..to], from == start, to == end);
        }
    }
}

/// A regex in both syntaxes.
#[derive(Default)]
struct PatternPair {
    grep: Vec<u8>,
    bucksaw: String,
}

impl PatternPair {
    fn push(&mut self, same: &str) {
        self.grep.extend_from_slice(same.as_bytes());
        self.bucksaw.push_str(same);
    }

    fn byte(&mut self, byte: u8) {
        if br"\.[]{}()*+?^$|".contains(&byte) {
            self.grep.push(b'\\');
        }
        self.grep.push(byte);
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'<' | b'>' => self.bucksaw.push(byte.into()),
            b'!'..=b'~' => self.bucksaw.extend(['\\', byte.into()]),
            byte => self.bucksaw.push_str(&format!("\\x{byte:02x}")),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn either(&mut self, one: Self, other: Self) {
        self.grep.extend([b"(", &one.grep[..], b"|", &other.grep[..], b")"].concat());
        self.bucksaw.push_str(&format!("({}|{})", one.bucksaw, other.bucksaw));
    }
}
