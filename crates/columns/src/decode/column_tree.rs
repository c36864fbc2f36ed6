//! Reads the tree of columns, and validates it before use.
//!
//! Nodes, tables, parts and patterns lie in one list each, so that opening a block takes a few allocations whatever the
//! number of columns.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_binary::ByteReader;

use crate::fixed_width::{self, PatternByte};
use crate::format::{CONSTANT, COPY, DICTIONARY, FIXED_WIDTH, INTEGERS, MAPPED, RAW, TABLES, TOKEN_PLACEHOLDER};

/// The greatest depth of a tree.
const DEPTH_MAX: usize = 12;

/// Bytes that most columns take in the tree, with their share of the layouts. Logs of many layouts have 20 to 50.
const BYTES_PER_COLUMN: usize = 32;

/// A range of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexRange {
    start: u32,
    pub(crate) len: u32,
}

impl IndexRange {
    fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, len: len as u32 }
    }

    pub(crate) fn slice<T>(self, all: &[T]) -> &[T] {
        all.get(self.indices()).unwrap_or_default()
    }

    pub(crate) fn indices(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// The bytes of a column in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) frame: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnNode {
    pub(crate) rows: usize,
    pub(crate) kind: ColumnKind,
}

/// The encoding of a column. Other columns are given by node number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnKind {
    /// The value of all rows, as a range of the literals.
    Constant(IndexRange),
    Raw(Payload),
    Integers(NumberPlanesRef),
    Fixed {
        pattern: IndexRange,
        numbers: IndexRange,
        nibbles: Payload,
    },
    Dictionary {
        codes: CodePlanesRef,
        values: usize,
    },
    Mapped {
        determinant: usize,
        map: Option<CodePlanesRef>,
        values: usize,
    },
    Copy(usize),
    Tables {
        table_ids: Option<CodePlanesRef>,
        outliers: Option<usize>,
        tables: IndexRange,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberPlanesRef {
    pub(crate) width: u8,
    pub(crate) is_delta: bool,
    pub(crate) base: u64,
    pub(crate) planes: Payload,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CodePlanesRef {
    pub(crate) width: u8,
    /// All codes are below this.
    pub(crate) bound: u32,
    pub(crate) planes: Payload,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableNode {
    pub(crate) rows: usize,
    pub(crate) parts: IndexRange,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TablePart {
    /// A range of the literals.
    Literal(IndexRange),
    Column(usize),
}

/// All columns of a block.
#[derive(Debug, Default)]
pub(crate) struct ColumnTree {
    /// The root is the last one.
    nodes: Vec<ColumnNode>,
    tables: Vec<TableNode>,
    parts: Vec<TablePart>,
    patterns: Vec<PatternByte>,
    numbers: Vec<NumberPlanesRef>,
}

impl ColumnTree {
    /// Reads the tree of a block of `rows` lines. `frames` are the unpacked lengths of the frames; `budget` bounds the rows of
    /// all columns together.
    pub(crate) fn read(bytes: &[u8], rows: usize, frames: &[usize], budget: usize) -> Option<Self> {
        let capacity = bytes.len() / BYTES_PER_COLUMN;
        let mut tree = Self { nodes: Vec::with_capacity(capacity), ..Self::default() };
        tree.parts.reserve(capacity);
        let mut reader = ColumnTreeReader { bytes, meta: ByteReader(bytes), tree, frames, budget };
        let root = reader.tables(rows, 0)?;
        reader.tree.nodes.push(ColumnNode { rows, kind: root });
        reader.meta.is_empty().then_some(reader.tree)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, at: usize) -> Option<&ColumnNode> {
        self.nodes.get(at)
    }

    /// The number of tables of lines.
    pub(crate) fn line_tables(&self) -> usize {
        match self.nodes.last().map(|root| root.kind) {
            Some(ColumnKind::Tables { tables, .. }) => tables.len as usize,
            _ => 0,
        }
    }

    pub(crate) fn tables(&self, list: IndexRange) -> &[TableNode] {
        list.slice(&self.tables)
    }

    pub(crate) fn parts(&self, table: &TableNode) -> &[TablePart] {
        table.parts.slice(&self.parts)
    }

    pub(crate) fn pattern(&self, list: IndexRange) -> &[PatternByte] {
        list.slice(&self.patterns)
    }

    pub(crate) fn numbers(&self, list: IndexRange) -> &[NumberPlanesRef] {
        list.slice(&self.numbers)
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<ColumnNode>()
            + self.tables.capacity() * size_of::<TableNode>()
            + self.parts.capacity() * size_of::<TablePart>()
            + self.patterns.capacity() * size_of::<PatternByte>()
            + self.numbers.capacity() * size_of::<NumberPlanesRef>()
    }
}

struct ColumnTreeReader<'m> {
    bytes: &'m [u8],
    /// What is not read of `bytes`.
    meta: ByteReader<'m>,
    tree: ColumnTree,
    frames: &'m [usize],
    /// Rows that the remaining columns may have together.
    budget: usize,
}

impl ColumnTreeReader<'_> {
    fn payload(&mut self) -> Option<Payload> {
        let meta = &mut self.meta;
        let payload = Payload { frame: meta.varint_u32()?, offset: meta.varint_u32()?, len: meta.varint_u32()? };
        let raw_len = *self.frames.get(payload.frame as usize)?;
        (payload.offset as usize + payload.len as usize <= raw_len).then_some(payload)
    }

    fn text(&mut self) -> Option<IndexRange> {
        let len = self.size()?;
        let start = self.bytes.len() - self.meta.len();
        self.meta.bytes(len)?;
        Some(IndexRange::new(start, len))
    }

    fn size(&mut self) -> Option<usize> {
        self.meta.varint_u32().map(|size| size as usize)
    }

    fn code_planes(&mut self, rows: usize, below: usize) -> Option<CodePlanesRef> {
        let width = self.meta.u8().filter(|width| (1..=4).contains(width))?;
        let planes = self.payload()?;
        let below = u32::try_from(below).ok()?;
        (planes.len as usize == rows * width as usize).then_some(CodePlanesRef { width, bound: below, planes })
    }

    fn numbers(&mut self, rows: usize) -> Option<NumberPlanesRef> {
        let head = self.meta.u8()?;
        let (width, steps) = (head & 0x7f, head >> 7 == 1);
        let base = self.meta.varint()?;
        let planes = self.payload()?;
        (width <= 8 && planes.len as usize == rows * width as usize).then_some(NumberPlanesRef {
            width,
            is_delta: steps,
            base,
            planes,
        })
    }

    fn fixed_width(&mut self, rows: usize) -> Option<ColumnKind> {
        let count = self.size().filter(|count| *count <= 64)?;
        let pattern = IndexRange::new(self.tree.patterns.len(), count);
        for _ in 0..count {
            let place = match self.meta.u8()? {
                0 => PatternByte::Literal(self.meta.u8()?),
                1 => PatternByte::Digit,
                2 => PatternByte::LowerHex,
                3 => PatternByte::UpperHex,
                _ => return None,
            };
            self.tree.patterns.push(place);
        }
        let all = pattern.slice(&self.tree.patterns);
        let (count, nibble_bytes) = (fixed_width::number_count(all), fixed_width::nibble_bytes(all));
        let numbers = IndexRange::new(self.tree.numbers.len(), count);
        for _ in 0..count {
            let number = self.numbers(rows)?;
            self.tree.numbers.push(number);
        }
        let nibbles = self.payload()?;
        (nibbles.len as usize == rows * nibble_bytes).then_some(ColumnKind::Fixed { pattern, numbers, nibbles })
    }

    fn node(&mut self, rows: usize, depth: usize) -> Option<usize> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.budget = self.budget.checked_sub(rows + 1)?;
        let kind = match self.meta.u8()? {
            CONSTANT => ColumnKind::Constant(self.text()?),
            RAW => ColumnKind::Raw(self.payload()?),
            INTEGERS => ColumnKind::Integers(self.numbers(rows)?),
            FIXED_WIDTH => self.fixed_width(rows)?,
            DICTIONARY => {
                let distinct = self.size().filter(|distinct| *distinct <= rows)?;
                let codes = self.code_planes(rows, distinct)?;
                ColumnKind::Dictionary { codes, values: self.node(distinct, depth + 1)? }
            }
            MAPPED => {
                // The position among the columns of the table; resolved when all of them are read.
                let determinant = self.size()?;
                let distinct = self.size().filter(|distinct| *distinct <= rows)?;
                let map = match self.meta.u8()? {
                    0 => {
                        let width = self.meta.u8().filter(|width| (1..=4).contains(width))?;
                        Some(CodePlanesRef { width, bound: distinct as u32, planes: self.payload()? })
                    }
                    1 => None,
                    _ => return None,
                };
                ColumnKind::Mapped { determinant, map, values: self.node(distinct, depth + 1)? }
            }
            COPY => ColumnKind::Copy(self.size()?),
            TABLES => self.tables(rows, depth + 1)?,
            _ => return None,
        };
        self.tree.nodes.push(ColumnNode { rows, kind });
        Some(self.tree.nodes.len() - 1)
    }

    fn tables(&mut self, rows: usize, depth: usize) -> Option<ColumnKind> {
        let count = self.size().filter(|count| *count <= self.bytes.len())?;
        self.budget = self.budget.checked_sub(count)?;
        let one = self.meta.u8()? == 1;
        if one && count != 1 {
            return None;
        }
        let table_ids = if one { None } else { Some(self.code_planes(rows, count + 1)?) };
        let rest = if one { None } else { Some(self.payload()?) };
        let tables = IndexRange::new(self.tree.tables.len(), count);
        self.tree.tables.resize(tables.indices().end, TableNode::default());
        let mut sum = 0_usize;
        for place in tables.indices() {
            let table_rows = self.size()?;
            sum += table_rows;
            if sum > rows || (one && table_rows != rows) {
                return None;
            }
            let table = self.table(table_rows, depth)?;
            *self.tree.tables.get_mut(place)? = table;
        }
        if one && sum != rows {
            return None;
        }
        let outliers = rest.map(|payload| {
            self.tree.nodes.push(ColumnNode { rows: rows - sum, kind: ColumnKind::Raw(payload) });
            self.tree.nodes.len() - 1
        });
        Some(ColumnKind::Tables { table_ids, outliers, tables })
    }

    fn table(&mut self, rows: usize, depth: usize) -> Option<TableNode> {
        let layout = self.text()?.indices();
        let bytes = self.bytes.get(layout.clone())?;
        // The parts of a table are adjacent; nested tables follow.
        let first = self.tree.parts.len();
        let mut from = layout.start;
        for mark in memchr::memchr_iter(TOKEN_PLACEHOLDER, bytes).map(|at| layout.start + at) {
            if from < mark {
                self.tree.parts.push(TablePart::Literal(IndexRange::new(from, mark - from)));
            }
            self.tree.parts.push(TablePart::Column(usize::MAX));
            from = mark + 1;
        }
        if from < layout.end {
            self.tree.parts.push(TablePart::Literal(IndexRange::new(from, layout.end - from)));
        }
        let parts = IndexRange::new(first, self.tree.parts.len() - first);
        for place in parts.indices() {
            if let TablePart::Column(_) = self.tree.parts.get(place)? {
                let node = self.node(rows, depth)?;
                *self.tree.parts.get_mut(place)? = TablePart::Column(node);
            }
        }
        let table = TableNode { rows, parts };
        self.resolve_references(&table)?;
        Some(table)
    }

    /// Replaces positions among the columns of a table by node numbers. A referenced column is no reference itself, so
    /// references have no cycles.
    fn resolve_references(&mut self, table: &TableNode) -> Option<()> {
        for at in table.parts.indices() {
            let Some(TablePart::Column(column)) = self.tree.parts.get(at).copied() else { continue };
            let (ColumnKind::Copy(place) | ColumnKind::Mapped { determinant: place, .. }) =
                self.tree.nodes.get(column)?.kind
            else {
                continue;
            };
            let columns = self.tree.parts(table).iter().filter_map(|part| match part {
                TablePart::Column(node) => Some(*node),
                TablePart::Literal(_) => None,
            });
            let target = { columns }.nth(place)?;
            let below = match self.tree.nodes.get(target)?.kind {
                ColumnKind::Dictionary { codes, .. } => Some(codes.bound),
                ColumnKind::Copy(_) | ColumnKind::Mapped { .. } => return None,
                _ => None,
            };
            let distinct = match self.tree.nodes.get(column)?.kind {
                ColumnKind::Mapped { values, .. } => self.tree.nodes.get(values)?.rows,
                _ => 0,
            };
            match &mut self.tree.nodes.get_mut(column)?.kind {
                ColumnKind::Copy(place) => *place = target,
                ColumnKind::Mapped { determinant, map, .. } => {
                    let below = below?;
                    let fits = match map {
                        None => below as usize <= distinct,
                        Some(map) => u64::from(map.planes.len) == u64::from(below) * u64::from(map.width),
                    };
                    if !fits {
                        return None;
                    }
                    *determinant = target;
                }
                _ => {}
            }
        }
        Some(())
    }
}
