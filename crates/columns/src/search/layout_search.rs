//! Reads the rows of each table by the table's layout, without building lines.
//!
//! ```text
//!   layout    {"type":"  [word]  ","size":  [number]  }        the reader finds the tested column once per table
//!   row 0               push               17
//!   row 1               fork                3                  each value is tested, a dictionary once per distinct value
//! ```
//! A reading holds for the rows whose values fit their places: a value with a quote, for example, may end a string early.
//! The other rows stay undecided.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::{Bitmap, LayoutOffset, LayoutPart, LayoutReader, RowSet, RowsByLayout, TestedText};
use memchr::memchr_iter;

use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decode::column_block::ColumnBlock;
use crate::decode::column_tree::{ColumnKind, TableNode, TablePart};
use crate::decode::decoded_column::DecodedColumn;
use crate::decode::value_source::{BoundedBuffer, ValueSource};
use crate::fixed_width::PatternByte;
use crate::search_work;

/// The initial size of the buffer for a value that is built to be tested, in bytes.
const VALUE_BUFFER_BYTES: usize = 256;

/// With less than one in this many rows of a table selected, building these lines is cheaper than reading whole columns.
const SELECTED_ROWS_DIVISOR: usize = 16;

/// Fewer rows of a table are built: reading the layout takes about as long as reading a line.
const ROWS_MIN: usize = 4;

/// Whether reading the layout of a table costs less than building the wanted ones of its rows.
fn is_worth_reading(wanted: usize, rows: usize) -> bool {
    wanted >= ROWS_MIN && wanted >= rows / SELECTED_ROWS_DIVISOR
}

/// A block whose layouts are read.
pub(crate) struct LayoutSearch<'b, R> {
    block: &'b ColumnBlock,
    reader: &'b R,
}

impl<'b, R: LayoutReader> LayoutSearch<'b, R> {
    pub(crate) fn new(block: &'b ColumnBlock, reader: &'b R) -> Self {
        Self { block, reader }
    }

    /// The rows of `among` that are decided; `None` if the block is damaged.
    pub(crate) fn find(&self, among: &RowSet) -> Option<RowsByLayout> {
        let root = self.block.root();
        let rows = self.block.rows();
        let (mut decided, mut passing) = (Bitmap::new(rows), Bitmap::new(rows));
        let ColumnKind::Tables { table_ids, tables, .. } = self.block.node(root)?.kind else {
            return Some(RowsByLayout { decided: RowSet::None, passing: RowSet::None });
        };
        let tables = self.block.tree.tables(tables);
        if table_ids.is_none() {
            return self.read_table(tables, 0, among);
        }
        let wanted = self.rows_of_tables(root, tables.len(), among)?;
        // The first list has the rows that are in no table.
        for (table, lines) in self.block.values_of_tables(root)?.iter().skip(1).enumerate() {
            self.block.add_work(search_work::VISIT);
            if !wanted.get(table + 1).is_some_and(|rows| is_worth_reading(*rows, lines.len())) {
                continue;
            }
            self.block.add_work(lines.len() as u64 * search_work::ROW);
            let selected = match among {
                RowSet::None => RowSet::None,
                RowSet::All => RowSet::All,
                RowSet::Some(bits) => {
                    RowSet::from_fn(lines.len(), |row| lines.get(row).is_some_and(|line| bits.contains(*line as usize)))
                }
            };
            let found = self.read_table(tables, table, &selected)?;
            for (rows, lines_of_block) in [(found.decided, &mut decided), (found.passing, &mut passing)] {
                for row in rows.first_in(0..lines.len(), usize::MAX) {
                    lines_of_block.set(*lines.get(row)? as usize);
                }
            }
        }
        Some(RowsByLayout { decided: RowSet::from_bitmap(decided), passing: RowSet::from_bitmap(passing) })
    }

    /// How many of `among` have each table id.
    fn rows_of_tables(&self, root: usize, tables: usize, among: &RowSet) -> Option<Vec<usize>> {
        let RowSet::Some(among) = among else {
            let is_all = *among == RowSet::All;
            let values = self.block.values_of_tables(root)?.iter();
            return Some(values.map(|values| if is_all { values.len() } else { 0 }).collect());
        };
        let (mut counts, table_ids) = (vec![0; tables + 1], self.block.table_ids(root)?);
        for row in among.iter() {
            *counts.get_mut(table_ids.get(row)?)? += 1;
        }
        self.block.add_work(counts.iter().sum::<usize>() as u64 * search_work::ROW);
        Some(counts)
    }

    /// The decided rows of table `number`, of which `selected` are wanted.
    fn read_table(&self, tables: &[TableNode], number: usize, selected: &RowSet) -> Option<RowsByLayout> {
        self.block.add_work(search_work::VISIT);
        let table = tables.get(number)?;
        let undecided = || RowsByLayout { decided: RowSet::None, passing: RowSet::None };
        if !is_worth_reading(selected.count(table.rows), table.rows) {
            return Some(undecided());
        }
        let parts = self.block.tree.parts(table);
        let layout: Vec<LayoutPart<'_>> = parts.iter().map(|part| self.layout_part(part)).collect();
        let tested = self.reader.find(&layout);
        if matches!(tested, TestedText::Unknown) {
            return Some(undecided());
        }
        let fitting = self.block.fitting_rows(tables, number, || {
            let Some(roles) = self.reader.roles(&layout) else { return Some(RowSet::None) };
            let columns = parts.iter().zip(&layout).filter(|(_, part)| **part == LayoutPart::Value);
            let mut fitting = RowSet::All;
            for ((part, _), role) in columns.zip(roles) {
                let TablePart::Column(at) = part else { return None };
                fitting = fitting & self.fitting_rows(*at, role)?;
            }
            Some(fitting)
        });
        let decided = selected.clone() & fitting?.clone();
        let passing = match tested {
            TestedText::At(range, role) if decided != RowSet::None => {
                self.passing_rows(table, range, role, &decided)?
            }
            _ => RowSet::None,
        };
        Some(RowsByLayout { decided, passing })
    }

    /// A column with one value belongs to the layout.
    fn layout_part(&self, part: &TablePart) -> LayoutPart<'b> {
        match part {
            TablePart::Literal(list) => LayoutPart::Literal(self.block.literal(*list)),
            TablePart::Column(at) => match self.block.node(*at).map(|node| node.kind) {
                Some(ColumnKind::Constant(list)) => LayoutPart::Literal(self.block.literal(list)),
                _ => LayoutPart::Value,
            },
        }
    }

    /// The rows of a column whose values fit a role; other rows may fit, too.
    fn fitting_rows(&self, at: usize, role: R::Role) -> Option<RowSet> {
        self.block.add_work(search_work::VISIT);
        let node = self.block.node(at)?;
        let all_or_none = |all: bool| if all { RowSet::All } else { RowSet::None };
        Some(match node.kind {
            ColumnKind::Constant(list) => all_or_none(self.reader.fits(role, self.block.literal(list))),
            ColumnKind::Copy(of) => self.fitting_rows(of, role)?,
            // Numbers differ in digits and the sign only.
            ColumnKind::Integers(_) => all_or_none(self.reader.all_parts_fit(role, b"-0123456789")),
            ColumnKind::Fixed { pattern, .. } => {
                let sample: Vec<u8> = self.block.tree.pattern(pattern).iter().map(sample_byte).collect();
                all_or_none(self.reader.all_parts_fit(role, &sample))
            }
            ColumnKind::Raw(payload) => {
                let text = self.block.bytes(payload)?;
                self.block.add_work(u64::from(payload.len));
                if self.reader.all_parts_fit(role, text) {
                    return Some(RowSet::All);
                }
                self.block.add_work(node.rows as u64 * search_work::RUN_VALUE);
                let (mut ends, mut start) = (memchr_iter(b'\n', text), 0);
                RowSet::from_fn(node.rows, |_| {
                    let value = ends.next().and_then(|end| text.get(std::mem::replace(&mut start, end + 1)..end));
                    value.is_some_and(|value| self.reader.fits(role, value))
                })
            }
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                self.rows_of_values(at, node.rows, self.fitting_rows(values, role)?)?
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                if self.all_parts_fit(outliers, self.block.tree.tables(tables), role)? {
                    return Some(RowSet::All);
                }
                self.test_rows(&ValueSource::of(self.block, at)?, node.rows, &RowSet::All, |value| {
                    self.reader.fits(role, value)
                })?
            }
        })
    }

    /// Whether all literals and columns of some tables fit a role.
    fn all_parts_fit(&self, outliers: Option<usize>, tables: &[TableNode], role: R::Role) -> Option<bool> {
        if let Some(outliers) = outliers
            && self.fitting_rows(outliers, role)? != RowSet::All
        {
            return Some(false);
        }
        for part in tables.iter().flat_map(|table| self.block.tree.parts(table)) {
            let fits = match part {
                TablePart::Literal(list) => self.reader.fits(role, self.block.literal(*list)),
                TablePart::Column(at) => self.fitting_rows(*at, role)? == RowSet::All,
            };
            if !fits {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The rows of a dictionary column whose value is in `values`.
    fn rows_of_values(&self, at: usize, rows: usize, values: RowSet) -> Option<RowSet> {
        let RowSet::Some(values) = values else { return Some(values) };
        let codes = self.block.codes_of(at)?;
        self.block.add_work(rows as u64 * search_work::ROW);
        Some(RowSet::from_fn(rows, |row| codes.get(row).is_some_and(|code| values.contains(code))))
    }

    /// The rows of `among` whose text in a range of the layout passes.
    fn passing_rows(
        &self,
        table: &TableNode,
        Range { start, end }: Range<LayoutOffset>,
        role: R::Role,
        among: &RowSet,
    ) -> Option<RowSet> {
        let parts = self.block.tree.parts(table);
        if start.part == end.part
            && let Some(TablePart::Column(at)) = parts.get(start.part)
            && self.block.node(*at).is_some_and(|node| !matches!(node.kind, ColumnKind::Constant(_)))
        {
            return Some(self.passing_values(*at, role, among)? & among.clone());
        }
        let mut sources = Vec::new();
        for (number, part) in parts.iter().enumerate().take(end.part + 1).skip(start.part) {
            let column = match part {
                TablePart::Column(at) if !matches!(self.block.node(*at)?.kind, ColumnKind::Constant(_)) => Some(*at),
                _ => None,
            };
            sources.push(match (column, self.layout_part(part)) {
                (Some(at), _) => RangePart::Column(ValueSource::of(self.block, at)?),
                (None, LayoutPart::Literal(text)) => {
                    let from = if number == start.part { start.offset } else { 0 };
                    let to = if number == end.part { end.offset } else { text.len() };
                    RangePart::Literal(text.get(from..to)?)
                }
                (None, LayoutPart::Value) => return None,
            });
        }
        let mut text = Vec::new();
        let mut buffer = BoundedBuffer::new(VALUE_BUFFER_BYTES);
        self.filter_rows(table.rows, among, |row| {
            text.clear();
            for part in &sources {
                match part {
                    RangePart::Literal(literal) => text.extend_from_slice(literal),
                    RangePart::Column(source) => text.extend_from_slice(self.value(source, row, &mut buffer)?),
                }
            }
            Some((self.reader.passes(role, &text), text.len()))
        })
    }

    /// The rows of a column whose value passes; only those of `among` count.
    fn passing_values(&self, at: usize, role: R::Role, among: &RowSet) -> Option<RowSet> {
        let node = self.block.node(at)?;
        match node.kind {
            ColumnKind::Copy(of) => self.passing_values(of, role, among),
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                self.rows_of_values(at, node.rows, self.passing_values(values, role, &RowSet::All)?)
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = self.block.decoded_column(at)? else { return None };
                self.filter_rows(node.rows, among, |row| {
                    let mut digits = [0; NUMBER_BYTES_MAX];
                    let len = decimal::write(numbers.get(row)? as i64, &mut digits);
                    Some((self.reader.passes(role, digits.get(..len)?), 0))
                })
            }
            _ => {
                let source = ValueSource::of(self.block, at)?;
                self.test_rows(&source, node.rows, among, |value| self.reader.passes(role, value))
            }
        }
    }

    /// The rows of `among` whose value passes a test.
    fn test_rows(
        &self,
        source: &ValueSource<'b>,
        rows: usize,
        among: &RowSet,
        test: impl Fn(&[u8]) -> bool,
    ) -> Option<RowSet> {
        let mut buffer = BoundedBuffer::new(VALUE_BUFFER_BYTES);
        self.filter_rows(rows, among, |row| {
            let value = self.value(source, row, &mut buffer)?;
            Some((test(value), value.len()))
        })
    }

    /// The rows of `among` that pass a test, which returns the bytes that it built, too.
    fn filter_rows(
        &self,
        rows: usize,
        among: &RowSet,
        mut test: impl FnMut(usize) -> Option<(bool, usize)>,
    ) -> Option<RowSet> {
        let (mut found, mut tested, mut bytes) = (Bitmap::new(rows), 0, 0);
        for row in among.first_in(0..rows, usize::MAX) {
            let (passes, built) = test(row)?;
            if passes {
                found.set(row);
            }
            tested += 1;
            bytes += built as u64;
        }
        self.block.add_work(tested * search_work::BUILT_VALUE + bytes * search_work::BUILT_BYTE);
        Some(RowSet::from_bitmap(found))
    }

    /// The value of a row, in the buffer unless it is stored as text.
    fn value<'a>(&self, source: &ValueSource<'b>, row: usize, buffer: &'a mut BoundedBuffer) -> Option<&'a [u8]>
    where
        'b: 'a,
    {
        if let Some(value) = source.get(row) {
            return Some(value);
        }
        buffer.truncate(0);
        buffer.push_growing(self.block.text_len, |buffer| source.push(row, buffer))?;
        Some(buffer.text())
    }
}

/// A part of the text of a range.
enum RangePart<'b> {
    Literal(&'b [u8]),
    Column(ValueSource<'b>),
}

/// A byte that a position of fixed-width values may hold. Readers treat all digits alike, and all letters.
fn sample_byte(byte: &PatternByte) -> u8 {
    match byte {
        PatternByte::Literal(byte) => *byte,
        PatternByte::Digit => b'0',
        PatternByte::LowerHex => b'a',
        PatternByte::UpperHex => b'A',
    }
}
