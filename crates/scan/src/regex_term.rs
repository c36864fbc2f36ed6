//! Regex terms: compiles the source of a regex to automata, within limits.
//!
//! A regex has up to three automata: for a single record, for the text of many lines ([never matching an
//! LF](crate::line_regex)), and [for columns](crate::column_regex). A [`RegexEngine`] runs the first two.

use bucksaw_record::RecordView;
use bucksaw_record::expr::{Literal, Pattern};
use bucksaw_search::{CancelPoll, Needle};
use regex_syntax::hir::{self, Hir, HirKind};
use regex_syntax::{Error as SyntaxError, ParserBuilder};

use crate::CompileError;
use crate::column_regex::ColumnRegex;
use crate::error::quoted_pattern;
use crate::line_regex::{can_restrict_to_lines, restrict_to_lines};
use crate::literal_beside_classes::LiteralBesideClasses;
use crate::record_boundaries::{OCCURRENCE_WORK, ScanWindow, TESTED_BYTE_WORK, any_part};
use crate::regex_engine::RegexEngine;
use crate::required_literals::RequiredLiterals;
use crate::trim_repetitions::trim_repetitions;

/// The greatest nesting of groups, which bounds the recursion of the compiler. Regexes written by hand stay below ten.
const NEST_MAX: u32 = 100;

/// The longest source of a regex, in bytes. It allows an alternation of a thousand words, and bounds the time for large Unicode
/// classes before their size is measured.
const SOURCE_BYTES_MAX: usize = 16 * 1024;

/// The shortest text, in bytes, that is searched for before the regex is: a shorter one is in nearly every record.
const LEADING_LITERAL_BYTES_MIN: usize = 3;

/// The work of one call of an engine, and of one byte of text: that an engine reads, that it reads or skips, depending on the text,
/// and that it skips to the next literal. Rather too low: a query that searched text knows better.
const ENGINE_CALL_WORK: u64 = 1_200;
const ENGINE_BYTE_WORK: u64 = 20;
const MIXED_BYTE_WORK: u64 = 4;
const SKIPPED_BYTE_WORK: u64 = 2;

/// A compiled regex.
#[derive(Debug)]
pub(crate) struct RegexTerm {
    /// For a single record.
    record_engine: RegexEngine,
    /// For the text of many lines.
    chunk_engine: ChunkEngine,
    /// The regex as a literal beside classes, if it is one.
    literal_beside_classes: Option<LiteralBesideClasses>,
    /// Texts that every match contains.
    pub(crate) required_literals: RequiredLiterals,
    /// For columns: the regex or its branches.
    pub(crate) for_columns: Vec<ColumnRegex>,
}

#[derive(Debug)]
enum ChunkEngine {
    /// The automaton for a single record matches no LF, so it serves any text.
    Shared,
    /// Another automaton, valid only if each line is a record or a part of one.
    Separate(Box<RegexEngine>),
    /// None; each record is tested alone.
    Unsupported,
}

/// A compiled source.
#[derive(Debug)]
pub(crate) enum CompiledPattern {
    /// A regex whose only match is this text.
    Text(Vec<u8>),
    Regex(Box<RegexTerm>),
}

/// Compiles a regex for records.
pub(crate) fn compile_for_records(pattern: &Pattern) -> Result<CompiledPattern, CompileError> {
    let hir = parse(pattern, true)?;
    if let HirKind::Literal(literal) = hir.kind() {
        return Ok(CompiledPattern::Text(literal.0.to_vec()));
    }
    RegexTerm::from_hir(hir)
        .map(|regex| CompiledPattern::Regex(regex.into()))
        .map_err(|reason| too_large(pattern, reason))
}

/// The texts that a record must contain to match a regex: at least one of each list. A case-insensitive text may match in
/// more records than the regex. Empty if no text is required, and for a regex that does not compile.
///
/// ```
/// # use bucksaw_record::expr::Pattern;
/// let pattern = Pattern { source: "took \\d+ ms|timed out".to_owned(), case_insensitive: false };
/// let required = bucksaw_scan::required_texts(&pattern);
/// assert_eq!(required[0].iter().map(|text| text.bytes.as_slice()).collect::<Vec<_>>(), [b"took ".as_slice(), b"timed out"]);
/// ```
#[must_use]
pub fn required_texts(pattern: &Pattern) -> Vec<Vec<Literal>> {
    let literal = |needle: &Needle| Literal { bytes: needle.text().to_vec(), case_insensitive: needle.any_case() };
    match compile_for_records(pattern) {
        Ok(CompiledPattern::Text(bytes)) => vec![vec![Literal { bytes, case_insensitive: false }]],
        Ok(CompiledPattern::Regex(regex)) => {
            regex.required_literals.clauses.iter().map(|clause| clause.iter().map(literal).collect()).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Compiles a regex for values of a field: `^` and `$` are the bounds of the value.
pub(crate) fn compile_for_values(pattern: &Pattern) -> Result<RegexEngine, CompileError> {
    let hir = parse(pattern, false)?;
    RegexEngine::new(&hir).map_err(|reason| too_large(pattern, reason))
}

impl RegexTerm {
    /// A case-insensitive text. A regex finds it several times faster than a case-insensitive Aho-Corasick automaton, because it
    /// searches for some of the spellings as literals.
    pub(crate) fn any_case(text: &[u8]) -> Result<Self, CompileError> {
        let letters = text.iter().map(|byte| {
            let range = |byte| hir::ClassBytesRange::new(byte, byte);
            let ranges = [range(byte.to_ascii_lowercase()), range(byte.to_ascii_uppercase())];
            Hir::class(hir::Class::Bytes(hir::ClassBytes::new(ranges)))
        });
        let regex = "of a text in any case".to_owned();
        Self::from_hir(Hir::concat(letters.collect())).map_err(|reason| CompileError::TooLarge {
            regex,
            reason,
            number: None,
        })
    }

    fn from_hir(hir: Hir) -> Result<Self, String> {
        let record_engine = RegexEngine::new(&hir)?;
        let literal_beside_classes = LiteralBesideClasses::of(&hir);
        let required_literals = RequiredLiterals::of(&hir);
        let for_columns = ColumnRegex::branches(&hir, required_literals.is_exact);
        let chunk_engine = if can_restrict_to_lines(&hir) {
            match restrict_to_lines(hir) {
                (_, false) => ChunkEngine::Shared,
                (hir, true) => ChunkEngine::Separate(RegexEngine::new(&hir)?.into()),
            }
        } else {
            ChunkEngine::Unsupported
        };
        Ok(Self { record_engine, chunk_engine, literal_beside_classes, required_literals, for_columns })
    }

    /// Memory in bytes, without the caches of searches.
    pub(crate) fn memory(&self) -> usize {
        let own = if let ChunkEngine::Separate(regex) = &self.chunk_engine { regex.memory() } else { 0 };
        let columns = self.for_columns.iter().map(ColumnRegex::memory);
        self.record_engine.memory() + own + columns.sum::<usize>()
    }

    /// The text to search at once, in bytes.
    pub(crate) fn slice_bytes(&self) -> usize {
        let own = if let ChunkEngine::Separate(regex) = &self.chunk_engine { regex.slice_bytes() } else { usize::MAX };
        own.min(self.record_engine.slice_bytes())
    }

    /// Whether a match is in one line, whatever text surrounds the line.
    pub(crate) fn is_within_lines(&self) -> bool {
        matches!(self.chunk_engine, ChunkEngine::Shared)
    }

    pub(crate) fn matches_text(&self, text: &[u8], cancel_poll: &CancelPoll<'_>) -> bool {
        match &self.literal_beside_classes {
            Some(term) => term.find(text, 0, || ()).is_some(),
            None => self.record_engine.is_match(text, cancel_poll),
        }
    }

    pub(crate) fn matches_record(&self, record: RecordView<'_>, cancel_poll: &CancelPoll<'_>) -> bool {
        if record.names().is_none() || self.is_within_lines() {
            return self.matches_text(record.text(), cancel_poll);
        }
        any_part(record, |part| self.matches_text(part, cancel_poll))
    }

    /// A text inside every match, in place of which an engine would search every byte: no literal begins the match.
    fn leading_literal(&self) -> Option<&Needle> {
        let literals = &self.required_literals;
        let [needle] = literals.clauses.first()?.as_slice() else { return None };
        let is_fit = literals.literal_prefix != Some(0)
            && !needle.any_case()
            && needle.text().len() >= LEADING_LITERAL_BYTES_MIN
            && !needle.text().contains(&b'\n');
        is_fit.then_some(needle)
    }

    /// The estimated work of a search of text, per byte.
    pub(crate) fn text_weight(&self) -> u64 {
        match self.required_literals.clauses.as_slice() {
            [] => ENGINE_BYTE_WORK,
            _ if self.literal_beside_classes.is_some() => 1,
            _ if self.leading_literal().is_some() => 1,
            _ if self.required_literals.is_exact || self.required_literals.literal_prefix == Some(0) => {
                SKIPPED_BYTE_WORK
            }
            [clause, ..] if self.record_engine.is_accelerated() && !clause.iter().any(Needle::any_case) => {
                SKIPPED_BYTE_WORK
            }
            _ => MIXED_BYTE_WORK,
        }
    }

    /// The start of the first record at or after `from` in which the regex matches, found by a text inside every match: only
    /// records with the text are tested.
    fn seek_by_literal(&self, needle: &Needle, span: &ScanWindow<'_>, mut from: usize) -> Option<usize> {
        while from < span.end && !span.cancel_poll.is_cancelled() {
            let hit = needle.find(span.records.text.get(..span.end)?, from)?;
            let start = span.records.record_start(from, hit);
            let record = span.records.record(start);
            span.add_work(ENGINE_CALL_WORK + record.text().len() as u64 * TESTED_BYTE_WORK);
            if self.matches_record(record, span.cancel_poll) {
                return Some(start);
            }
            from = span.records.next_start(start);
        }
        None
    }

    /// The start of the first record at or after `from` in which the regex matches.
    pub(crate) fn seek(&self, span: &ScanWindow<'_>, from: usize) -> Option<usize> {
        if let Some(term) = &self.literal_beside_classes {
            let hit = term.find(span.records.text.get(..span.end)?, from, || span.add_work(OCCURRENCE_WORK))?;
            return Some(span.records.record_start(from, hit));
        }
        if let Some(needle) = self.leading_literal() {
            return self.seek_by_literal(needle, span, from);
        }
        span.add_work(ENGINE_CALL_WORK + OCCURRENCE_WORK);
        let regex = match &self.chunk_engine {
            ChunkEngine::Shared => &self.record_engine,
            ChunkEngine::Separate(regex) if span.records.is_line_per_part => regex,
            _ => return span.find_first(from, |record| self.matches_record(record, span.cancel_poll)),
        };
        // Without the last LF: an empty match behind it would belong to no record.
        let rest = span.records.text.get(from..span.end.saturating_sub(1))?;
        // A match ends in the record in which it starts.
        let hit = regex.find_end(rest, span.cancel_poll)?;
        Some(span.records.record_start(from, from + hit))
    }
}

/// Parses a regex that is to match anywhere in a text, and trims it; with `multi_line`, `^` and `$` also match at the bounds of lines.
fn parse(pattern: &Pattern, multi_line: bool) -> Result<Hir, CompileError> {
    if pattern.source.len() > SOURCE_BYTES_MAX {
        let reason = format!("its source may have {SOURCE_BYTES_MAX} bytes");
        return Err(too_large(pattern, reason));
    }
    let mut parser = ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .multi_line(multi_line)
        .case_insensitive(pattern.case_insensitive)
        .nest_limit(NEST_MAX)
        .build();
    parser.parse(&pattern.source).map(trim_repetitions).map_err(|error| {
        let (reason, span) = match &error {
            SyntaxError::Parse(error) => (error.kind().to_string(), *error.span()),
            SyntaxError::Translate(error) => (explain(error.kind()), *error.span()),
            error => (error.to_string().lines().collect::<Vec<_>>().join(" "), whole()),
        };
        let before = pattern.source.get(..span.start.offset).unwrap_or_default();
        CompileError::Regex { regex: quoted_pattern(pattern), column: before.chars().count() + 1, reason, number: 0 }
    })
}

/// The span of an error that concerns the whole regex.
fn whole() -> regex_syntax::ast::Span {
    regex_syntax::ast::Span::splat(regex_syntax::ast::Position::new(0, 1, 1))
}

fn explain(kind: &hir::ErrorKind) -> String {
    match kind {
        hir::ErrorKind::UnicodeNotAllowed => {
            "this needs Unicode, which is off for speed; `(?u)` in front turns it on".to_owned()
        }
        kind => kind.to_string(),
    }
}

fn too_large(pattern: &Pattern, reason: String) -> CompileError {
    CompileError::TooLarge { regex: quoted_pattern(pattern), reason, number: None }
}
