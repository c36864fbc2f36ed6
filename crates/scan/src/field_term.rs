//! Field terms: tests of fields that are attributes of records, or are read from their lines.
//!
//! Parsing fields is slow compared with searching bytes. So a record is parsed only if it contains the parts of the
//! name and, for an equality, the value. Either may be written with escapes, so a record with such an escape is always
//! parsed.
//!
//! The name of an attribute is not in the text of a record, but its value is, without escapes.

use std::cmp::Ordering;

use bucksaw_record::RecordView;
use bucksaw_record::expr::{self, Limit, Test};
use bucksaw_search::{AsciiSet, CancelPoll, Needle};

use crate::error::CompileError;
use crate::fields::lookup;
use crate::record_boundaries::{OCCURRENCE_WORK, ScanWindow};
use crate::regex_engine::RegexEngine;
use crate::regex_term::compile_for_values;

/// The work of reading a field of a record, and of one byte of the record: up to the field, and for its name and escapes.
const READ_WORK: u64 = 1_200;
const READ_BYTE_WORK: u64 = 5;

/// A field and the test of its value. A negated test is a negation of such a term.
#[derive(Debug)]
pub(crate) struct FieldTerm {
    pub(crate) name: String,
    value_test: ValueTest,
    /// Texts that a record must contain unless it contains an escape, the rarer one first.
    pub(crate) needles: Vec<Needle>,
    /// The starts of all escapes in which a needle may be written.
    escapes: Vec<Needle>,
    /// A text that the value of an attribute must contain; `None` if it may be any.
    pub(crate) attribute_needle: Option<Needle>,
    /// Whether candidates are found by a value, and so are rarer than records with the field.
    pub(crate) has_value_needle: bool,
}

#[derive(Debug)]
enum ValueTest {
    Equal(Vec<u8>),
    Match(Box<RegexEngine>),
    Compare(fn(Ordering) -> bool, Limit),
    Exists,
}

/// The progress of the search for candidates in one window.
#[derive(Clone, Debug, Default)]
pub(crate) struct CandidatePositions {
    needle: KnownPosition,
    /// Of each escape.
    escapes: Vec<KnownPosition>,
}

/// The next occurrence of a text; `usize::MAX` if none is left, `None` if not yet searched for.
#[derive(Clone, Copy, Debug, Default)]
struct KnownPosition(Option<usize>);

impl KnownPosition {
    /// The first occurrence at or after `from`. Offsets only rise, so an occurrence found ahead is still the next.
    fn next_from(&mut self, from: usize, search: impl FnOnce() -> Option<usize>) -> usize {
        match self.0 {
            Some(at) if at >= from => at,
            _ => *self.0.insert(search().map_or(usize::MAX, |at| from + at)),
        }
    }
}

impl FieldTerm {
    /// The term, and whether it is negated.
    pub(crate) fn compile(field: &expr::Field) -> Result<(Self, bool), CompileError> {
        let value_test = match &field.test {
            Test::Equal(value) | Test::NotEqual(value) => ValueTest::Equal(value.clone()),
            Test::Match(pattern) | Test::NotMatch(pattern) => ValueTest::Match(compile_for_values(pattern)?.into()),
            Test::Less(limit) => ValueTest::Compare(Ordering::is_lt, limit.clone()),
            Test::LessEqual(limit) => ValueTest::Compare(Ordering::is_le, limit.clone()),
            Test::Greater(limit) => ValueTest::Compare(Ordering::is_gt, limit.clone()),
            Test::GreaterEqual(limit) => ValueTest::Compare(Ordering::is_ge, limit.clone()),
            Test::Exists | Test::NotExists => ValueTest::Exists,
        };
        let value = if let ValueTest::Equal(value) = &value_test { value_needle(value) } else { None };
        let has_value_needle = value.is_some();
        let attribute_needle = match &value_test {
            ValueTest::Equal(value) if !value.is_empty() => Some(Needle::new(value, false)),
            _ => None,
        };
        // Values are rarer than names.
        let needles: Vec<&[u8]> = value.into_iter().chain(name_needles(&field.name)).collect();
        let escapes = escapes_of(&needles);
        let needles = needles.into_iter().map(|needle| Needle::new(needle, false)).collect();
        let name = field.name.clone();
        let term = Self { name, value_test, needles, escapes, attribute_needle, has_value_needle };
        Ok((term, matches!(field.test, Test::NotEqual(_) | Test::NotMatch(_) | Test::NotExists)))
    }

    /// Texts that a line with the field contains, escapes aside.
    pub(crate) fn name_needles(&self) -> &[Needle] {
        self.needles.get(usize::from(self.has_value_needle)..).unwrap_or_default()
    }

    /// The starts of the escapes in which a needle may be written in lines that write at most these ASCII bytes as escapes.
    pub(crate) fn escapes(&self, escaped_bytes: AsciiSet) -> &[Needle] {
        let may_be_escaped = |byte: &u8| !byte.is_ascii() || escaped_bytes.contains(*byte);
        let is_escaped = self.needles.iter().any(|needle| needle.text().iter().any(may_be_escaped));
        if is_escaped { &self.escapes } else { &[] }
    }

    /// Memory of a regex in bytes; other tests take little.
    pub(crate) fn memory(&self) -> usize {
        if let ValueTest::Match(regex) = &self.value_test { regex.memory() } else { 0 }
    }

    /// The text to search at once, in bytes.
    pub(crate) fn slice_bytes(&self) -> usize {
        if let ValueTest::Match(regex) = &self.value_test { regex.slice_bytes() } else { usize::MAX }
    }

    pub(crate) fn value_matches(&self, value: &[u8], cancel_poll: &CancelPoll<'_>) -> bool {
        match &self.value_test {
            ValueTest::Equal(wanted) => wanted == value,
            ValueTest::Match(regex) => regex.is_match(value, cancel_poll),
            ValueTest::Compare(passes, limit) => limit.compare(value).is_some_and(passes),
            ValueTest::Exists => true,
        }
    }

    /// Whether every value passes.
    pub(crate) fn is_existence(&self) -> bool {
        matches!(self.value_test, ValueTest::Exists)
    }

    pub(crate) fn matches_record(&self, record: RecordView<'_>, cancel_poll: &CancelPoll<'_>) -> bool {
        match record.attribute(&self.name) {
            Some(value) => self.value_matches(value, cancel_poll),
            None => self.matches_line(record.line(), cancel_poll),
        }
    }

    fn matches_line(&self, record: &[u8], cancel_poll: &CancelPoll<'_>) -> bool {
        let candidate = self.needles.iter().all(|needle| needle.find(record, 0).is_some())
            || self.escapes.iter().any(|escape| escape.find(record, 0).is_some());
        candidate && lookup(record, &self.name).is_some_and(|value| self.value_matches(&value, cancel_poll))
    }

    /// The start of the first record at or after `from` that passes.
    pub(crate) fn seek(
        &self,
        window: &ScanWindow<'_>,
        mut from: usize,
        ahead: &mut CandidatePositions,
    ) -> Option<usize> {
        // Records with such an attribute need not contain the name, so only a value is a candidate.
        let is_attribute = window.records.has_names(|names| names.position(&self.name).is_some());
        let needle = self.needles.first().filter(|_| !is_attribute || self.has_value_needle);
        let Some(needle) = needle else {
            return window.find_first(from, |record| self.matches_record(record, window.cancel_poll));
        };
        while let Some(rest) = window.records.text.get(from..window.end).filter(|rest| !rest.is_empty()) {
            let needle = ahead.needle.next_from(from, || needle.find(rest, 0));
            ahead.escapes.resize_with(self.escapes.len(), KnownPosition::default);
            let escapes = self.escapes.iter().zip(&mut ahead.escapes);
            let hit =
                escapes.fold(needle, |hit, (escape, ahead)| hit.min(ahead.next_from(from, || escape.find(rest, 0))));
            window.add_work(OCCURRENCE_WORK);
            if hit == usize::MAX {
                return None;
            }
            let start = window.records.record_start(from, hit);
            let record = window.records.record(start);
            window.add_work(READ_WORK + record.text().len() as u64 * READ_BYTE_WORK);
            if self.matches_record(record, window.cancel_poll) || window.cancel_poll.is_cancelled() {
                return Some(start);
            }
            from = window.records.next_start(start);
        }
        None
    }
}

/// The starts of all escapes in which a byte of these texts may be written. JSON has escapes of one letter for few bytes, and `\u`
/// with a code for all others; logfmt has some of the former.
fn escapes_of(needles: &[&[u8]]) -> Vec<Needle> {
    let has = |byte: u8| needles.iter().any(|needle| needle.contains(&byte));
    let is_ascii = needles.iter().all(|needle| needle.is_ascii());
    let letters = [(b'"', b'"'), (b'\\', b'\\'), (b'/', b'/')];
    let controls = [(8, b'b'), (12, b'f'), (b'\n', b'n'), (b'\r', b'r'), (b'\t', b't')];
    let short = letters.into_iter().chain(controls).filter(|(byte, _)| has(*byte));
    let code: &[u8] = if is_ascii { b"\\u00" } else { b"\\u" };
    let escapes = short.map(|(_, letter)| Needle::new(&[b'\\', letter], false));
    std::iter::once(Needle::new(code, false)).chain(escapes).collect()
}

/// Texts that every record with a field of this name contains, escapes aside, the longest first: the parts of the name between dots.
/// Numbers are left out, because they may be positions in an array; a name of numbers alone starts with a key.
fn name_needles(name: &str) -> Vec<&[u8]> {
    let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let first = name.split('.').next().filter(|_| name.split('.').all(numeric));
    let words = name.split('.').filter(|part| !numeric(part)).chain(first);
    let mut needles: Vec<&[u8]> = words.filter(|part| !part.is_empty()).map(str::as_bytes).collect();
    needles.sort_by_key(|part| std::cmp::Reverse(part.len()));
    needles.dedup();
    needles
}

/// A text that every record with a field of this value contains, escapes aside. The text of an object or array may contain space that
/// its value does not.
fn value_needle(value: &[u8]) -> Option<&[u8]> {
    (!value.is_empty() && !value.starts_with(b"{") && !value.starts_with(b"[")).then_some(value)
}
