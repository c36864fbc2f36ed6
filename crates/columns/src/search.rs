//! Searching columns for text, without building lines.
//!
//! A question goes down the tree of columns: which values contain the text, or begin with it, end with it, are it? A
//! dictionary is asked once for its values, whatever the number of rows; numbers are asked only what digits can answer;
//! tables are asked in all [`Ways`] in which the text can lie over their columns.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use memchr::memmem;

use crate::automaton::Automaton;
use crate::bits::{Bits, Rows};
use crate::decimal::NUMBER_BYTES_MAX;
use crate::decode::Decoded;
use crate::fixed::{self, Place};
use crate::head::Head;
use crate::hits::Hits;
use crate::lines;
use crate::open::Block;
use crate::rebuild::{Out, Source};
use crate::tree::{Kind, List, Part, Table};
use crate::ways::Ways;

/// Room for a value that is built to be looked at, in bytes; it grows.
const VALUE_ROOM: usize = 4 << 10;

/// Bytes that a core leaves out at either end of a needle, and bytes that it has at least.
const CORE_MARGIN: usize = 2;
const CORE_BYTES_MIN: usize = 4;

/// The longest needle with a core or as a head, in bytes: what is done for these takes time that grows with the square.
const SHORT_BYTES_MAX: usize = 256;

/// A text that is looked for.
#[derive(Clone, Debug)]
pub struct Needle {
    text: Vec<u8>,
    any_case: bool,
    finder: memmem::Finder<'static>,
    /// A part of the text, or all of it.
    core: Range<usize>,
    /// Whether no two of its places overlap, so that a search that goes on behind each finds all.
    core_is_found: bool,
    core_finder: memmem::Finder<'static>,
    /// The bytes that are in it.
    bytes: [u64; 4],
}

impl Needle {
    /// Text without an LF; with `any_case`, ASCII letters match in either case.
    #[must_use]
    pub fn new(text: &[u8], any_case: bool) -> Self {
        let any_case = any_case && text.iter().any(u8::is_ascii_alphabetic);
        let text = if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
        let finder = memmem::Finder::new(&text).into_owned();
        let found_core = core_of(&text);
        let (core, core_is_found) = (found_core.clone().unwrap_or(0..text.len()), found_core.is_some());
        let core_finder = memmem::Finder::new(text.get(core.clone()).unwrap_or_default()).into_owned();
        let mut bytes = [0; 4];
        let upper = text.iter().filter(|_| any_case).map(u8::to_ascii_uppercase);
        for byte in text.iter().copied().chain(upper) {
            if let Some(word) = bytes.get_mut(byte as usize / 64) {
                *word |= 1 << (byte % 64);
            }
        }
        Self { text, any_case, finder, core, core_is_found, core_finder, bytes }
    }

    /// Whether the byte may be a part of what is found.
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.bytes.get(byte as usize / 64).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// What is looked for; in lower case when any case will do.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether ASCII letters match in either case.
    #[must_use]
    pub fn any_case(&self) -> bool {
        self.any_case
    }

    /// Whether all places of the core are found, and not only some of those that overlap.
    pub(crate) fn core_is_found(&self) -> bool {
        self.core_is_found
    }

    /// What most parts of the needle have that columns are asked for: where it is not, neither are they.
    pub(crate) fn core(&self) -> Range<usize> {
        self.core.clone()
    }

    /// Where the text is found at or after `from`.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.finder, text, from)
    }

    /// Where its core is found at or after `from`.
    pub(crate) fn find_core(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.core_finder, text, from)
    }

    fn find_with(&self, finder: &memmem::Finder<'_>, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = if self.any_case { find_any_case(rest, finder.needle()) } else { finder.find(rest) };
        found.map(|at| from + at)
    }
}

/// A core of a needle: with as much left out as may be, for then it is in more of the parts that columns are asked for.
fn core_of(text: &[u8]) -> Option<Range<usize>> {
    if text.len() > SHORT_BYTES_MAX {
        return None;
    }
    let mut cores = (0..=CORE_MARGIN).rev().map(|margin| margin..text.len().saturating_sub(margin));
    cores.find(|core| {
        let is_long = core.len() >= CORE_BYTES_MIN || core.len() == text.len();
        is_long && text.get(core.clone()).is_some_and(|core| !overlaps_itself(core))
    })
}

/// Whether a text can begin within itself and go on behind its end.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|from| text.get(from..).is_some_and(|end| text.starts_with(end)))
}

/// Looks for text in lower case in any case, by its rarest byte.
fn find_any_case(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let commonness = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b'0'..=b'9' | b' ' | b'.' | b'/' | b'"' | b':' => 2,
        b'j' | b'k' | b'q' | b'v' | b'w' | b'x' | b'y' | b'z' => 0,
        _ => 1,
    };
    let (rare, byte) = wanted.iter().enumerate().min_by_key(|(_, byte)| commonness(byte))?;
    memchr::memchr2_iter(*byte, byte.to_ascii_uppercase(), text).find_map(|at| {
        let start = at.checked_sub(rare)?;
        text.get(start..start + wanted.len())?.eq_ignore_ascii_case(wanted).then_some(start)
    })
}

/// Where in a value a text must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Anywhere,
    Start,
    End,
    Whole,
}

/// What a column is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'n> {
    pub(crate) needle: &'n Needle,
    /// A part of the needle; all of it when it may be anywhere.
    pub(crate) text: &'n [u8],
    /// Where in the needle it begins.
    pub(crate) from: usize,
    pub(crate) place: Where,
    /// What the needle is the head of, where all of it is asked for: then rows may be left out that have no match.
    pub(crate) head: Option<Head<'n>>,
}

impl<'n> Ask<'n> {
    /// The needle anywhere.
    fn whole(needle: &'n Needle, head: Option<Head<'n>>) -> Self {
        Self { needle, text: &needle.text, from: 0, place: Where::Anywhere, head }
    }

    /// A part of what is asked for, in one of its columns.
    pub(crate) fn part(&self, range: Range<usize>, place: Where) -> Self {
        let from = self.from + range.start;
        let head = self.head.filter(|_| place == Where::Anywhere);
        Self { text: self.text.get(range).unwrap_or_default(), from, place, head, ..*self }
    }

    /// Whether the core of the needle is in the text, and its places are enough to find it.
    pub(crate) fn has_core(&self) -> bool {
        let core = self.needle.core();
        let has = self.from <= core.start && core.end <= self.from + self.text.len();
        has && (self.place == Where::Anywhere || self.needle.core_is_found)
    }

    /// The byte that the text begins with, in both its cases; twice the same when there is but one.
    pub(crate) fn first(&self) -> (u8, u8) {
        let first = self.text.first().copied().unwrap_or_default();
        (first, if self.needle.any_case { first.to_ascii_uppercase() } else { first })
    }

    /// Whether two texts are the same as far as it matters.
    #[inline]
    pub(crate) fn same(&self, a: &[u8], b: &[u8]) -> bool {
        if self.needle.any_case {
            return a.eq_ignore_ascii_case(b);
        }
        // Most differ from the first byte on, which takes less time to see than to call for a comparison.
        a.first() == b.first() && a == b
    }

    /// Whether a value is what is asked for.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self.place {
            Where::Whole => self.same(value, self.text),
            Where::Start => value.get(..self.text.len()).is_some_and(|start| self.same(start, self.text)),
            Where::End => {
                let end = value.len().checked_sub(self.text.len()).and_then(|at| value.get(at..));
                end.is_some_and(|end| self.same(end, self.text))
            }
            Where::Anywhere => value.len() >= self.text.len() && self.needle.find(value, 0).is_some(),
        }
    }
}

impl Block {
    /// The lines that contain the text; `None` when the block is damaged.
    #[must_use]
    pub fn find(&self, needle: &Needle) -> Option<Rows> {
        self.find_all(Ask::whole(needle, None))
    }

    /// The lines that contain a text that every match begins with, but for most of those without a match: `automaton` is
    /// one that is begun at the text. Where that may have any case, it must not tell the cases apart. `None` when the
    /// block is damaged.
    #[must_use]
    pub fn find_head(&self, needle: &Needle, automaton: &Automaton) -> Option<Rows> {
        let head = (needle.text.len() <= SHORT_BYTES_MAX).then(|| Head::new(needle, automaton));
        self.find_all(Ask::whole(needle, head))
    }

    fn find_all(&self, ask: Ask<'_>) -> Option<Rows> {
        if ask.text.is_empty() {
            return Some(Rows::All);
        }
        let search = Search { block: self, hits: Hits::new(self, ask.needle) };
        search.ask(self.root(), ask)
    }
}

/// A search for one text in one block.
pub(crate) struct Search<'b> {
    pub(crate) block: &'b Block,
    pub(crate) hits: Hits<'b>,
}

impl Search<'_> {
    /// The rows of a column that are what is asked for.
    pub(crate) fn ask(&self, at: usize, ask: Ask<'_>) -> Option<Rows> {
        let node = self.block.node(at)?;
        if !self.may(at, &ask) {
            return Some(Rows::None);
        }
        Some(match node.kind {
            Kind::Same(list) if self.is_in_all(list, &ask) => Rows::All,
            Kind::Same(_) => Rows::None,
            Kind::Copy(of) => self.ask(of, ask)?,
            Kind::Raw(payload) if ask.has_core() => self.hits.rows(at, payload, node.rows, &ask)?,
            Kind::Raw(payload) => lines::find(self.block.bytes(payload)?, node.rows, &ask),
            Kind::Integers(_) if ask.place == Where::Whole => {
                let Decoded::Numbers(numbers) = self.block.decoded(at)? else { return None };
                let wanted = fixed::integer(ask.text);
                Rows::by(node.rows, |row| wanted.is_some() && numbers.get(row).copied() == wanted)
            }
            Kind::Integers(_) | Kind::Fixed { .. } => self.look(node.rows, &Source::of(self.block, at)?, &ask)?,
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => match self.ask(values, ask)? {
                Rows::Some(bits) => {
                    let ids = self.block.ids_of(at)?;
                    Rows::by(node.rows, |row| ids.get(row).is_some_and(|id| bits.has(id)))
                }
                all_or_none => all_or_none,
            },
            Kind::Split { order: None, tables, .. } => self.ask_table(self.block.tree.tables(tables).first()?, ask)?,
            Kind::Split { rest, tables, .. } => {
                self.ask_tables(at, node.rows, rest, self.block.tree.tables(tables), ask)?
            }
        })
    }

    /// Whether a literal is what is asked for.
    pub(crate) fn is_in_all(&self, literal: List, ask: &Ask<'_>) -> bool {
        match ask.place {
            Where::Anywhere => self.hits.is_in(literal),
            _ => ask.matches(self.block.literal(literal)),
        }
    }

    fn ask_tables(&self, at: usize, rows: usize, rest: Option<usize>, tables: &[Table], ask: Ask<'_>) -> Option<Rows> {
        let (mut found, mut all) = (Bits::new(rows), true);
        let rest = rest.iter().map(|rest| self.ask(*rest, ask));
        let tables = tables.iter().map(|table| self.ask_table(table, ask));
        for (number, hits) in rest.chain(tables).enumerate() {
            let hits = hits?;
            all &= hits == Rows::All;
            if hits == Rows::None {
                continue;
            }
            let Decoded::Order { values, .. } = self.block.decoded(at)? else { return None };
            let values = values.get(number)?;
            match hits {
                Rows::None => {}
                Rows::All => values.iter().for_each(|value| found.set(*value as usize)),
                Rows::Some(bits) => {
                    for row in bits.iter() {
                        found.set(*values.get(row)? as usize);
                    }
                }
            }
        }
        Some(if all { Rows::All } else { Rows::tidy(found) })
    }

    fn ask_table(&self, table: &Table, ask: Ask<'_>) -> Option<Rows> {
        match Ways::follow_all(self, table, ask)? {
            Some(rows) => Some(rows),
            // Too many ways: the rows themselves are looked at.
            None => self.look(table.rows, &Source::of_table(self.block, table)?, &ask),
        }
    }

    /// Builds each value and looks at it.
    fn look(&self, rows: usize, source: &Source<'_>, ask: &Ask<'_>) -> Option<Rows> {
        let mut out = Out::new(VALUE_ROOM);
        let mut whole = true;
        let found = Rows::by(rows, |row| {
            out.shrink_to(0);
            whole &= out.push_growing(self.block.text_len(), |out| source.push(row, out)).is_some();
            ask.matches(out.text())
        });
        whole.then_some(found)
    }

    /// Whether a value of the column may be what is asked for, as far as that is known without unpacking it.
    pub(crate) fn may(&self, at: usize, ask: &Ask<'_>) -> bool {
        match self.block.node(at).map(|node| node.kind) {
            Some(Kind::Integers(_)) => {
                let digits = ask.text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
                digits && ask.text.len() <= NUMBER_BYTES_MAX
            }
            Some(Kind::Fixed { places, .. }) => fits_somewhere(self.block.tree.places(places), ask),
            Some(Kind::Copy(of)) => self.may(of, ask),
            Some(Kind::Dictionary { values, .. } | Kind::Mapped { values, .. }) => self.may(values, ask),
            _ => true,
        }
    }

    /// The text of a part that is the same in all rows.
    pub(crate) fn same_in_all(&self, part: &Part) -> Option<List> {
        match part {
            Part::Literal(list) => Some(*list),
            Part::Column(node) => match self.block.node(*node)?.kind {
                Kind::Same(list) => Some(list),
                _ => None,
            },
        }
    }
}

/// Whether values of these places may be what is asked for.
fn fits_somewhere(places: &[Place], ask: &Ask<'_>) -> bool {
    let fits_place = |(place, byte): (&Place, &u8)| match place {
        Place::Same(same) => ask.same(&[*same], &[*byte]),
        Place::Digit => byte.is_ascii_digit(),
        Place::Lower => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        Place::Upper => {
            let upper = if ask.needle.any_case { byte.to_ascii_uppercase() } else { *byte };
            upper.is_ascii_digit() || (b'A'..=b'F').contains(&upper)
        }
    };
    let fits = |offset: usize| {
        let window = places.get(offset..offset + ask.text.len());
        window.is_some_and(|window| window.iter().zip(ask.text).all(fits_place))
    };
    let Some(last) = places.len().checked_sub(ask.text.len()) else { return false };
    match ask.place {
        Where::Whole => last == 0 && fits(0),
        Where::Start => fits(0),
        Where::End => fits(last),
        Where::Anywhere => (0..=last).any(fits),
    }
}
