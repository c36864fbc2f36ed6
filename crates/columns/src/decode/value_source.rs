//! Access to single values of a column. `materialise` builds many at once.
#![deny(clippy::indexing_slicing)]

use std::cell::OnceCell;

use crate::decimal;
use crate::decode::codes::CodesRef;
use crate::decode::column_block::{ColumnBlock, PADDING_BYTES};
use crate::decode::column_tree::{ColumnKind, IndexRange, TableNode, TablePart};
use crate::decode::decoded_column::{DecodedColumn, TextsRef};
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::decode::fixed_width_format::{FORMATTED_BYTES_MAX, FixedWidthTemplate};

/// A text that grows up to a bound, with padding for a value of fixed size behind it.
pub(crate) struct BoundedBuffer {
    bytes: Vec<u8>,
    len: usize,
    max: usize,
}

impl BoundedBuffer {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: vec![0; max.saturating_add(FORMATTED_BYTES_MAX)], len: 0, max }
    }

    /// `source` has [`PADDING_BYTES`] behind `len`.
    #[inline]
    fn push_padded(&mut self, source: &[u8], start: usize, len: usize) -> Option<()> {
        if len <= PADDING_BYTES {
            let from: &[u8; PADDING_BYTES] = source.get(start..)?.first_chunk()?;
            let to: &mut [u8; PADDING_BYTES] = self.bytes.get_mut(self.len..)?.first_chunk_mut()?;
            *to = *from;
        } else {
            let from = source.get(start..start + len)?;
            self.bytes.get_mut(self.len..self.len + len)?.copy_from_slice(from);
        }
        self.len += len;
        (self.len <= self.max).then_some(())
    }

    /// The padding behind the text.
    #[inline]
    fn next_bytes(&mut self) -> Option<&mut [u8; FORMATTED_BYTES_MAX]> {
        self.bytes.get_mut(self.len..)?.first_chunk_mut()
    }

    #[inline]
    fn push_number(&mut self, number: u64) -> Option<()> {
        self.len += decimal::write(number as i64, self.next_bytes()?);
        (self.len <= self.max).then_some(())
    }

    #[inline]
    pub(crate) fn push_lf(&mut self) -> Option<()> {
        *self.bytes.get_mut(self.len)? = b'\n';
        self.len += 1;
        (self.len <= self.max).then_some(())
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = len;
    }

    /// Doubles the bound, up to `bytes_max`.
    fn grow(&mut self, bytes_max: usize) -> Option<()> {
        self.max = (self.max.max(512) * 2).min(bytes_max);
        let room = self.max + FORMATTED_BYTES_MAX;
        (self.bytes.len() < room).then(|| self.bytes.resize(room, 0))
    }

    /// Pushes a value and raises the bound as needed, up to `bytes_max`; `None` if that is not enough.
    pub(crate) fn push_growing(
        &mut self,
        bytes_max: usize,
        mut push: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let start = self.len;
        while push(self).is_none() {
            self.len = start;
            self.grow(bytes_max)?;
        }
        Some(())
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// The source of a column's values.
pub(crate) enum ValueSource<'b> {
    /// A literal with everything behind it, and its length.
    Literal(&'b [u8], usize),
    Text(TextsRef<'b>),
    Numbers(&'b DecodedNumbers),
    Fixed(Box<FixedWidthTemplate<'b>>),
    Dictionary {
        codes: CodesRef<'b>,
        texts: TextsRef<'b>,
    },
    Split(TableSources<'b>),
    /// The columns of a single table.
    Table(Vec<Self>),
}

/// Values of several layout tables.
pub(crate) struct TableSources<'b> {
    block: &'b ColumnBlock,
    /// The table id of each value.
    pub(crate) table_ids: CodesRef<'b>,
    /// The row of each value in its table.
    pub(crate) table_rows: &'b [u32],
    outliers: Option<usize>,
    tables: &'b [TableNode],
    /// The sources of the outliers and the tables, created on first use.
    sources: Vec<OnceCell<Option<Vec<ValueSource<'b>>>>>,
}

impl<'b> TableSources<'b> {
    /// The number of tables.
    pub(crate) fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// The columns of a table id; 0 is the outliers.
    pub(crate) fn columns(&self, number: usize) -> Option<&[ValueSource<'b>]> {
        let columns = self.sources.get(number)?.get_or_init(|| match number.checked_sub(1) {
            None => Some(vec![ValueSource::of(self.block, self.outliers?)?]),
            Some(table) => ValueSource::parts(self.block, self.tables.get(table)?),
        });
        columns.as_deref()
    }
}

impl<'b> ValueSource<'b> {
    pub(crate) fn of(block: &'b ColumnBlock, at: usize) -> Option<Self> {
        Some(match block.node(at)?.kind {
            ColumnKind::Constant(list) => Self::literal(block, list)?,
            ColumnKind::Copy(of) => return Self::of(block, of),
            ColumnKind::Raw(payload) => Self::Text(block.raw_texts(at, payload)?),
            ColumnKind::Integers(_) => match block.decoded_column(at)? {
                DecodedColumn::Numbers(numbers) => Self::Numbers(numbers),
                _ => return None,
            },
            ColumnKind::Fixed { pattern, nibbles, .. } => match block.decoded_column(at)? {
                DecodedColumn::Fixed(numbers) => {
                    let (places, nibbles) = (block.tree.pattern(pattern), block.bytes(nibbles)?);
                    Self::Fixed(FixedWidthTemplate::new(places, numbers, nibbles)?.into())
                }
                _ => return None,
            },
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                Self::Dictionary { codes: block.codes_of(at)?, texts: block.dictionary_values(at, values)? }
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                return Self::of_table(block, block.tree.tables(tables).first()?);
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                let (table_ids, table_rows) = block.rows_in_tables(at)?;
                let tables = block.tree.tables(tables);
                let mut sources = Vec::new();
                sources.resize_with(tables.len() + 1, OnceCell::new);
                Self::Split(TableSources { block, table_ids, table_rows, outliers, tables, sources })
            }
        })
    }

    fn literal(block: &'b ColumnBlock, list: IndexRange) -> Option<Self> {
        Some(Self::Literal(block.padded_literals_from(list.indices().start)?, list.len as usize))
    }

    /// The source of a table's rows.
    pub(crate) fn of_table(block: &'b ColumnBlock, table: &TableNode) -> Option<Self> {
        Some(Self::Table(Self::parts(block, table)?))
    }

    fn parts(block: &'b ColumnBlock, table: &TableNode) -> Option<Vec<Self>> {
        let part = |part: &TablePart| match part {
            TablePart::Literal(list) => Self::literal(block, *list),
            TablePart::Column(node) => Self::of(block, *node),
        };
        block.tree.parts(table).iter().map(part).collect()
    }

    /// The value of a row, if it is stored as text.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'b [u8]> {
        match self {
            Self::Literal(bytes, len) => bytes.get(..*len),
            Self::Text(texts) => texts.get(row),
            Self::Dictionary { codes, texts } => texts.get(codes.get(row)?),
            _ => None,
        }
    }

    /// Appends the value of a row.
    #[inline]
    pub(crate) fn push(&self, row: usize, out: &mut BoundedBuffer) -> Option<()> {
        match self {
            Self::Literal(bytes, len) => out.push_padded(bytes, 0, *len),
            Self::Text(texts) => push_text(texts, row, out),
            Self::Numbers(numbers) => out.push_number(numbers.get(row)?),
            Self::Fixed(template) => {
                out.len += template.write(row, out.next_bytes()?)?;
                (out.len <= out.max).then_some(())
            }
            Self::Dictionary { codes, texts } => push_text(texts, codes.get(row)?, out),
            Self::Split(tables) => {
                let columns = tables.columns(tables.table_ids.get(row)?)?;
                push_all(columns, *tables.table_rows.get(row)? as usize, out)
            }
            Self::Table(sources) => push_all(sources, row, out),
        }
    }
}

#[inline]
fn push_all(sources: &[ValueSource<'_>], row: usize, out: &mut BoundedBuffer) -> Option<()> {
    for source in sources {
        source.push(row, out)?;
    }
    Some(())
}

#[inline]
fn push_text(texts: &TextsRef<'_>, row: usize, out: &mut BoundedBuffer) -> Option<()> {
    let [start, end] = texts.starts.get(row..row + 2)? else { return None };
    out.push_padded(texts.bytes, *start as usize, (end - texts.separator_bytes).checked_sub(*start)? as usize)
}
