//! Builds rows from columns, in batches, column by column.
//!
//! The lengths of all rows of a batch are measured first. Then each column writes its values, each with the literal
//! behind it, to their offsets. Building rows one by one takes more than twice as long, because each value belongs to
//! another kind of column elsewhere in memory. Here a column is resolved once per batch.
//!
//! Values are copied in pieces of fixed size, which overwrite the bytes behind the value. So each row is written from
//! start to end and has padding behind it.
//!
//! Invariant: a materialiser never returns more text than the block declares.
#![deny(clippy::indexing_slicing)]

use std::cell::RefCell;
use std::ops::ControlFlow;

use crate::decimal;
use crate::decode::column_block::{ColumnBlock, PADDING_BYTES};
use crate::decode::column_tree::{ColumnKind, IndexRange, TableNode, TablePart};
use crate::decode::decoded_column::{DecodedColumn, OwnedTexts, TextsRef};
use crate::decode::fixed_width_format::FORMATTED_BYTES_MAX;
use crate::decode::partition::{PartitionCache, TablePartition};
use crate::decode::some_columns::SomeColumns;
use crate::decode::suffixed_values::{LiteralSuffix, SuffixedColumn};
use crate::search_work;

/// The approximate size of the text of a batch, in bytes. Each batch looks up every column that has rows in it, and most columns
/// have one or two. With long lines of a hundred columns, batches of a third of this size take an eighth longer, although their
/// text stays in nearer caches.
const BATCH_BYTES: usize = 1_792 << 10;

/// The fewest rows of a batch.
const BATCH_ROWS_MIN: usize = 512;

/// The most rows of a batch.
const BATCH_ROWS_MAX: usize = 2_048;

/// The largest text buffer, in bytes, unless a single row needs more. A thread keeps it from block to block: clearing new memory
/// is much of the work for a few rows of a block.
const KEPT_BUFFER_BYTES_MAX: usize = 2 << 20;

thread_local! {
    static TEXT_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Builds rows of a column.
pub(crate) struct RowMaterialiser<'b> {
    pub(super) block: &'b ColumnBlock,
    /// Bytes that may still be returned.
    bytes_left: usize,
    text: Vec<u8>,
    pub(super) partitions: PartitionCache,
    /// The values of columns, joined with the literal behind them.
    suffixed_columns: SomeColumns<SuffixedColumn<'b>>,
    /// Lists for reuse.
    pub(super) free_lists: Vec<Vec<u32>>,
    work: u64,
}

impl Drop for RowMaterialiser<'_> {
    fn drop(&mut self) {
        self.block.add_work(self.work);
        if self.text.len() <= KEPT_BUFFER_BYTES_MAX {
            // A thread that ends has no place for the buffer.
            let _ = TEXT_BUFFER.try_with(|buffer| buffer.replace(std::mem::take(&mut self.text)));
        }
    }
}

impl<'b> RowMaterialiser<'b> {
    pub(crate) fn new(block: &'b ColumnBlock) -> Self {
        Self {
            block,
            bytes_left: block.text_len,
            text: TEXT_BUFFER.take(),
            partitions: PartitionCache::default(),
            suffixed_columns: SomeColumns::new(block.tree.len()),
            free_lists: Vec::new(),
            work: 0,
        }
    }

    /// Calls `each` with values of a column, each followed by `behind`, until it breaks.
    pub(crate) fn materialise(
        &mut self,
        at: usize,
        mut rows: impl Iterator<Item = usize>,
        behind: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        let line_bytes = self.block.text_len / self.block.rows().max(1) + 1;
        let count = (BATCH_BYTES / (line_bytes + FORMATTED_BYTES_MAX)).clamp(BATCH_ROWS_MIN, BATCH_ROWS_MAX);
        let row_count = self.block.node(at)?.rows;
        let mut some = Vec::with_capacity(count.min(rows.size_hint().1.unwrap_or(count)));
        loop {
            some.clear();
            some.extend(rows.by_ref().take(count).map(|row| row as u32));
            if some.iter().any(|row| *row as usize >= row_count) {
                return None;
            }
            if some.is_empty() {
                return Some(());
            }
            if self.materialise_batch(at, &some, behind, each)?.is_break() {
                return Some(());
            }
        }
    }

    fn materialise_batch(
        &mut self,
        at: usize,
        rows: &[u32],
        behind: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        self.partitions.clear();
        let lens = self.row_lengths(at, rows, behind.len() as u32)?;
        let bytes: usize = lens.iter().map(|len| *len as usize).sum();
        if bytes > self.bytes_left {
            return None;
        }
        let room = bytes + rows.len() * FORMATTED_BYTES_MAX;
        if let (true, Some((first, last))) = (room > KEPT_BUFFER_BYTES_MAX, rows.split_at_checked(rows.len() / 2))
            && !first.is_empty()
        {
            // Some rows are much longer than the average.
            self.free_lists.push(lens);
            return match self.materialise_batch(at, first, behind, each)? {
                ControlFlow::Continue(()) => self.materialise_batch(at, last, behind, each),
                enough => Some(enough),
            };
        }
        self.bytes_left -= bytes;
        u32::try_from(room).ok()?;
        if self.text.len() < room {
            self.text.resize(room, 0);
        }
        let mut places = self.take_list();
        let mut next = 0;
        for len in &lens {
            places.push(next);
            next += len + FORMATTED_BYTES_MAX as u32;
        }
        self.partitions.rewind();
        self.write_column(at, rows, &mut places, LiteralSuffix::default())?;
        let mut start = 0;
        for (len, place) in lens.iter().zip(&places) {
            let (end, place) = (start + *len as usize, *place as usize);
            let value = self.text.get_mut(start..end)?;
            let rest = value.get_mut(place.checked_sub(start)?..)?;
            (rest.len() == behind.len()).then(|| rest.copy_from_slice(behind))?;
            if each(value).is_break() {
                return Some(ControlFlow::Break(()));
            }
            start = end + FORMATTED_BYTES_MAX;
        }
        self.free_lists.extend([lens, places]);
        Some(ControlFlow::Continue(()))
    }

    /// The partition of the rows of column `of` by its tables; to be returned to `partitions`.
    pub(super) fn take_partition(&mut self, of: usize, rows: &[u32], tables: usize) -> Option<(usize, TablePartition)> {
        let (table_ids, table_rows) = self.block.some_rows_in_tables(of, rows.len())?;
        self.partitions.take_next(rows, table_ids, table_rows, tables + 1)
    }

    pub(super) fn take_list(&mut self) -> Vec<u32> {
        let mut list = self.free_lists.pop().unwrap_or_default();
        list.clear();
        list
    }

    /// Writes values and the suffix at `places`, and advances the places.
    fn write_column(&mut self, at: usize, rows: &[u32], places: &mut [u32], tail: LiteralSuffix<'b>) -> Option<()> {
        let block = self.block;
        self.work += search_work::VISIT + rows.len() as u64 * search_work::WRITTEN_VALUE;
        let of = match block.node(at)?.kind {
            ColumnKind::Copy(of) => of,
            _ => at,
        };
        match block.node(of)?.kind {
            ColumnKind::Constant(list) => {
                self.write_literal(list, places)?;
                self.write_suffix(tail, places)
            }
            ColumnKind::Raw(payload) => {
                let texts = block.raw_texts(of, payload)?;
                write_texts(&mut self.text, &texts, rows.iter().map(|row| Some(*row as usize)), places, tail)
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = block.decoded_column(of)? else { return None };
                let text = self.text.as_mut_slice();
                for (row, place) in rows.iter().zip(places) {
                    let room: &mut [u8; FORMATTED_BYTES_MAX] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *place = place.wrapping_add(decimal::write(numbers.get(*row as usize)? as i64, room) as u32);
                    tail.append_to(text, place)?;
                }
                Some(())
            }
            ColumnKind::Fixed { .. } => {
                let suffixed = self.suffixed_columns.get_or_insert_with(at, SuffixedColumn::default)?;
                let (formatter, tail) = suffixed.formatter(block, of, tail)?;
                let text = self.text.as_mut_slice();
                for (row, place) in rows.iter().zip(&mut *places) {
                    let room: &mut [u8; FORMATTED_BYTES_MAX] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *place = place.wrapping_add(formatter.write(*row as usize, room)? as u32);
                }
                self.write_suffix(tail, places)
            }
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                let ids = block.codes_of(of)?;
                let text = self.text.as_mut_slice();
                let suffixed = self.suffixed_columns.get_or_insert_with(at, SuffixedColumn::default)?;
                let (count, texts) = (block.node(values)?.rows, || block.dictionary_values(of, values));
                let Some(texts) = suffixed.suffixed_values(count, texts, rows.len(), tail)? else {
                    let texts = block.dictionary_values(of, values)?;
                    return write_texts(text, &texts, rows.iter().map(|row| ids.get(*row as usize)), places, tail);
                };
                for (row, place) in rows.iter().zip(places) {
                    let (value, len) = texts.get(ids.get(*row as usize)?)?;
                    let to: &mut [u8; PADDING_BYTES] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
                    *to = *value;
                    *place = place.wrapping_add(*len);
                }
                Some(())
            }
            ColumnKind::Copy(_) => None,
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                self.write_table(block.tree.tables(tables).first()?, rows, places)?;
                self.write_suffix(tail, places)
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                let tables = block.tree.tables(tables);
                let partition = self.take_partition(of, rows, tables.len())?;
                let mut of_some = self.take_list();
                for (table, order, rows) in partition.1.table_slices() {
                    of_some.clear();
                    for at in order {
                        of_some.push(*places.get(*at as usize)?);
                    }
                    match table.checked_sub(1) {
                        None => self.write_column(outliers?, rows, &mut of_some, LiteralSuffix::default())?,
                        Some(table) => self.write_table(tables.get(table as usize)?, rows, &mut of_some)?,
                    }
                    for (at, place) in order.iter().zip(&of_some) {
                        *places.get_mut(*at as usize)? = *place;
                    }
                }
                self.free_lists.push(of_some);
                self.partitions.put_back(partition);
                self.write_suffix(tail, places)
            }
        }
    }

    fn write_table(&mut self, table: &TableNode, rows: &[u32], places: &mut [u32]) -> Option<()> {
        let mut parts = self.block.tree.parts(table).iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                TablePart::Literal(list) => self.write_literal(*list, places)?,
                TablePart::Column(node) => {
                    let tail = match parts.peek() {
                        Some(TablePart::Literal(list)) => LiteralSuffix::of(self.block, *list),
                        _ => None,
                    };
                    parts.next_if(|_| tail.is_some());
                    self.write_column(*node, rows, places, tail.unwrap_or_default())?;
                }
            }
        }
        Some(())
    }

    fn write_suffix(&mut self, tail: LiteralSuffix<'_>, places: &mut [u32]) -> Option<()> {
        if tail.is_empty() {
            return Some(());
        }
        places.iter_mut().try_for_each(|place| tail.append_to(&mut self.text, place))
    }

    fn write_literal(&mut self, list: IndexRange, places: &mut [u32]) -> Option<()> {
        if let Some(short) = LiteralSuffix::of(self.block, list) {
            return self.write_suffix(short, places);
        }
        let source = self.block.padded_literals_from(list.indices().start)?;
        places.iter_mut().try_for_each(|place| copy_padded(&mut self.text, source, 0, list.len as usize, place))
    }
}

#[inline]
fn write_texts(
    text: &mut [u8],
    texts: &TextsRef<'_>,
    which: impl Iterator<Item = Option<usize>>,
    places: &mut [u32],
    tail: LiteralSuffix<'_>,
) -> Option<()> {
    for (which, place) in which.zip(places) {
        let (start, len) = texts.range(which?)?;
        copy_padded(text, texts.bytes, start, len, place)?;
        tail.append_to(text, place)?;
    }
    Some(())
}

/// `source` has [`PADDING_BYTES`] behind the copied bytes.
#[inline]
fn copy_padded(text: &mut [u8], source: &[u8], start: usize, len: usize, place: &mut u32) -> Option<()> {
    let at = *place as usize;
    if len <= PADDING_BYTES {
        let from: &[u8; PADDING_BYTES] = source.get(start..)?.first_chunk()?;
        let to: &mut [u8; PADDING_BYTES] = text.get_mut(at..)?.first_chunk_mut()?;
        *to = *from;
    } else {
        let whole = len.next_multiple_of(PADDING_BYTES);
        let (from, _) = source.get(start..start + whole)?.as_chunks::<PADDING_BYTES>();
        let (to, _) = text.get_mut(at..at + whole)?.as_chunks_mut::<PADDING_BYTES>();
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    *place = place.wrapping_add(len as u32);
    Some(())
}

/// All values of a column, with [`PADDING_BYTES`] behind them.
fn materialise_texts(block: &ColumnBlock, at: usize) -> Option<OwnedTexts> {
    let rows = block.node(at)?.rows;
    let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(rows + 1));
    starts.push(0);
    RowMaterialiser::new(block).materialise(at, 0..rows, b"", &mut |value| {
        bytes.extend_from_slice(value);
        starts.push(bytes.len() as u32);
        ControlFlow::Continue(())
    })?;
    bytes.resize(bytes.len() + PADDING_BYTES, 0);
    Some(OwnedTexts { bytes, starts })
}

impl ColumnBlock {
    /// The values of the dictionary column `at`.
    pub(crate) fn dictionary_values(&self, at: usize, values: usize) -> Option<TextsRef<'_>> {
        if let ColumnKind::Raw(payload) = self.node(values)?.kind {
            return self.raw_texts(values, payload);
        }
        let DecodedColumn::Codes { texts, .. } = self.decoded_column(at)? else { return None };
        let texts = texts.get_or_init(|| {
            let texts = materialise_texts(self, values)?;
            self.add_memory(texts.bytes.len() + texts.starts.len() * 4);
            Some(texts)
        });
        texts.as_ref().map(|texts| TextsRef { bytes: &texts.bytes, starts: &texts.starts, separator_bytes: 0 })
    }

    /// All lines, an LF after each; `None` if the block is damaged.
    pub fn text(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.text_len);
        self.visit_lines(0..self.rows(), &mut |line| {
            out.extend_from_slice(line);
            ControlFlow::Continue(())
        })?;
        (out.len() == self.text_len).then_some(out)
    }

    /// Calls `each` with lines, given by rising rows, each with an LF, until it breaks; `None` if the block is damaged, perhaps
    /// after some lines.
    pub(crate) fn visit_lines(
        &self,
        rows: impl Iterator<Item = usize>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        RowMaterialiser::new(self).materialise(self.root(), rows, b"\n", each)
    }
}
