//! Regexes: from the source to automata, within bounds.
//!
//! A regex has up to three automata: one for a record alone, one for the text of many lines, from which the LF was
//! [taken out](crate::strip), and [one for columns](crate::automaton). The first two are searched by an [`Engine`].

use bucksaw_columns::Automaton;
use bucksaw_record::expr::Pattern;
use regex_automata::Anchored;
use regex_syntax::hir::{self, Hir, HirKind};
use regex_syntax::{Error as SyntaxError, ParserBuilder};

use crate::CompileError;
use crate::automaton::automaton;
use crate::engine::Engine;
use crate::error::shown;
use crate::needles::Needles;
use crate::records::Span;
use crate::strip::{is_possible, strip};
use crate::watch::Watch;

/// How deep the groups of a regex may nest. People stay below ten; the compiler recurses this deep.
const NEST_MAX: u32 = 100;

/// The longest source of a regex, in bytes: room for an alternation of a thousand words, and it bounds the time that
/// large Unicode classes take to be put together, before their size can be measured.
const SOURCE_BYTES_MAX: usize = 16 * 1024;

/// A compiled regex.
#[derive(Debug)]
pub(crate) struct Regex {
    /// For a record alone.
    alone: Engine,
    /// For the text of many lines.
    lines: Lines,
    /// Texts that are in every match.
    needles: Needles,
    /// For columns; there is none where the needles say all, or where it would be too large.
    columns: Option<Automaton>,
    /// The same, begun where a match begins; there is one where each begins with a text.
    head: Option<Automaton>,
}

#[derive(Debug)]
enum Lines {
    /// The automaton for a record alone can match no LF, so that it does for any text.
    Same,
    /// Another automaton, right only where each line is a record.
    Own(Box<Engine>),
    /// There is none: each record is looked at alone.
    Never,
}

/// What a source becomes.
#[derive(Debug)]
pub(crate) enum Compiled {
    /// It has one match, these bytes.
    Text(Vec<u8>),
    Regex(Box<Regex>),
}

/// Compiles a regex that is looked for in records.
pub(crate) fn for_records(pattern: &Pattern) -> Result<Compiled, CompileError> {
    let hir = parse(pattern, true)?;
    if let HirKind::Literal(literal) = hir.kind() {
        return Ok(Compiled::Text(literal.0.to_vec()));
    }
    Regex::from_hir(hir).map(|regex| Compiled::Regex(regex.into())).map_err(|reason| too_large(pattern, reason))
}

/// Compiles a regex that is looked for in the values of a field: `^` and `$` are the bounds of the value.
pub(crate) fn for_values(pattern: &Pattern) -> Result<Engine, CompileError> {
    let hir = parse(pattern, false)?;
    Engine::new(&hir).map_err(|reason| too_large(pattern, reason))
}

impl Regex {
    /// Text with ASCII letters in any case. As a regex it is searched several times faster than by an Aho-Corasick
    /// automaton of that kind, because some of its spellings are looked for as literals.
    pub(crate) fn any_case(text: &[u8]) -> Result<Self, CompileError> {
        let letters = text.iter().map(|byte| {
            let range = |byte| hir::ClassBytesRange::new(byte, byte);
            let ranges = [range(byte.to_ascii_lowercase()), range(byte.to_ascii_uppercase())];
            Hir::class(hir::Class::Bytes(hir::ClassBytes::new(ranges)))
        });
        let regex = "of a text in any case".to_owned();
        Self::from_hir(Hir::concat(letters.collect())).map_err(|reason| CompileError::TooLarge { regex, reason })
    }

    fn from_hir(hir: Hir) -> Result<Self, String> {
        let alone = Engine::new(&hir)?;
        let needles = Needles::of(&hir);
        let columns = if needles.exact { None } else { automaton(&hir, Anchored::No) };
        let head = if needles.head.is_some() && columns.is_some() { automaton(&hir, Anchored::Yes) } else { None };
        if !is_possible(&hir) {
            return Ok(Self { alone, lines: Lines::Never, needles, columns, head });
        }
        let lines = match strip(hir) {
            (_, false) => Lines::Same,
            (hir, true) => Lines::Own(Engine::new(&hir)?.into()),
        };
        Ok(Self { alone, lines, needles, columns, head })
    }

    /// Bytes of memory, without the caches of searches.
    pub(crate) fn memory(&self) -> usize {
        let own = if let Lines::Own(regex) = &self.lines { regex.memory() } else { 0 };
        let columns = self.columns.iter().chain(&self.head).map(Automaton::memory);
        self.alone.memory() + own + columns.sum::<usize>()
    }

    /// For the columns of lines.
    pub(crate) fn columns(&self) -> Option<&Automaton> {
        self.columns.as_ref()
    }

    /// For what follows the [head](Needles::head) of a match in columns.
    pub(crate) fn head(&self) -> Option<&Automaton> {
        self.head.as_ref()
    }

    /// Texts that are in every match.
    pub(crate) fn needles(&self) -> &Needles {
        &self.needles
    }

    /// Bytes of text that should be searched at once.
    pub(crate) fn slice_bytes(&self) -> usize {
        let own = if let Lines::Own(regex) = &self.lines { regex.slice_bytes() } else { usize::MAX };
        own.min(self.alone.slice_bytes())
    }

    pub(crate) fn is_in(&self, record: &[u8], watch: &Watch<'_>) -> bool {
        self.alone.is_match(record, watch)
    }

    /// The start of the first record at or after `from` in which the regex matches.
    pub(crate) fn seek(&self, span: &Span<'_>, from: usize) -> Option<usize> {
        let regex = match &self.lines {
            Lines::Same => &self.alone,
            Lines::Own(regex) if span.records.are_lines() => regex,
            _ => return span.first(from, |record| self.is_in(record, span.watch)),
        };
        // The last LF stays out: behind it there is no record, but an empty match.
        let rest = span.records.text.get(from..span.end.saturating_sub(1))?;
        // Where a match ends is enough: it is in the record where it starts.
        let hit = regex.find_end(rest, span.watch)?;
        Some(span.records.start_of(from, from + hit))
    }
}

/// Reads a regex; `multi_line` is whether `^` and `$` also match at the bounds of lines.
fn parse(pattern: &Pattern, multi_line: bool) -> Result<Hir, CompileError> {
    if pattern.source.len() > SOURCE_BYTES_MAX {
        let reason = format!("its source may have {SOURCE_BYTES_MAX} bytes");
        return Err(too_large(pattern, reason));
    }
    let mut parser = ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .multi_line(multi_line)
        .case_insensitive(pattern.any_case)
        .nest_limit(NEST_MAX)
        .build();
    parser.parse(&pattern.source).map_err(|error| {
        let (reason, span) = match &error {
            SyntaxError::Parse(error) => (error.kind().to_string(), *error.span()),
            SyntaxError::Translate(error) => (advise(error.kind()), *error.span()),
            error => (error.to_string().lines().collect::<Vec<_>>().join(" "), whole()),
        };
        let before = pattern.source.get(..span.start.offset).unwrap_or_default();
        CompileError::Regex { regex: shown(pattern), column: before.chars().count() + 1, reason }
    })
}

/// The bounds of a regex that is wrong as a whole.
fn whole() -> regex_syntax::ast::Span {
    regex_syntax::ast::Span::splat(regex_syntax::ast::Position::new(0, 1, 1))
}

fn advise(kind: &hir::ErrorKind) -> String {
    match kind {
        hir::ErrorKind::UnicodeNotAllowed => {
            "this needs Unicode, which is off for speed; `(?u)` in front turns it on".to_owned()
        }
        kind => kind.to_string(),
    }
}

fn too_large(pattern: &Pattern, reason: String) -> CompileError {
    CompileError::TooLarge { regex: shown(pattern), reason }
}
