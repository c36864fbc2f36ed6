//! Searches columns for a needle, without building lines.
//!
//! A [predicate](TextPredicate) goes down the tree of columns: which values contain a text, start with it, end with it, or
//! equal it? A dictionary is searched once per distinct value. Numbers are searched by arithmetic, and only for texts that they
//! can contain. A table is searched for every [alignment](Alignments) of the text with its columns.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::{Bitmap, RowSet};

use crate::decode::column_tree::{ColumnKind, TableNode};
use crate::decode::decoded_column::DecodedColumn;
use crate::decode::value_source::{BoundedBuffer, ValueSource};
use crate::search::alignments::Alignments;
use crate::search::fixed_width_search::{self, FixedWidthValues};
use crate::search::integer_search;
use crate::search::raw_search;
use crate::search::search_context::SearchContext;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};
use crate::search_work;

/// Bytes at which values that were built are searched.
const BATCH_BYTES: usize = 4 << 10;

impl SearchContext<'_> {
    /// The rows of a column that pass; `None` if the block is damaged.
    pub(crate) fn evaluate(&self, at: usize, predicate: TextPredicate<'_>) -> Option<RowSet> {
        self.occurrences.add_work(search_work::VISIT);
        let node = self.block.node(at)?;
        if !self.may_match(at, &predicate) {
            return Some(RowSet::None);
        }
        Some(match node.kind {
            ColumnKind::Constant(list) if self.literal_matches(list, &predicate) => RowSet::All,
            ColumnKind::Constant(_) => RowSet::None,
            ColumnKind::Copy(of) => self.evaluate(of, predicate)?,
            ColumnKind::Raw(payload) if predicate.covers_core() => {
                self.occurrences.matching_rows(at, payload, node.rows, &predicate)?
            }
            ColumnKind::Raw(payload) => {
                self.occurrences.add_work(search_work::FINDER + u64::from(payload.len));
                raw_search::find_anchored(self.block.bytes(payload)?, node.rows, &predicate)
            }
            ColumnKind::Integers(_) => {
                let DecodedColumn::Numbers(numbers) = self.block.decoded_column(at)? else { return None };
                self.occurrences.add_work(node.rows as u64 * integer_search::work_of_row(&predicate));
                integer_search::find(numbers, &predicate)
            }
            ColumnKind::Fixed { pattern, nibbles, .. } => {
                let DecodedColumn::Fixed(numbers) = self.block.decoded_column(at)? else { return None };
                let (pattern, nibbles) = (self.block.tree.pattern(pattern), self.block.bytes(nibbles)?);
                let values = FixedWidthValues { pattern, numbers, nibbles, rows: node.rows };
                match fixed_width_search::find(&values, &predicate) {
                    Some(found) => {
                        self.occurrences.add_work(node.rows as u64 * search_work::ROW);
                        found
                    }
                    None => self.evaluate_by_row(node.rows, &ValueSource::of(self.block, at)?, &predicate)?,
                }
            }
            ColumnKind::Dictionary { values, .. } | ColumnKind::Mapped { values, .. } => {
                match self.evaluate(values, predicate)? {
                    RowSet::Some(bits) => {
                        let codes = self.block.codes_of(at)?;
                        self.occurrences.add_work(node.rows as u64 * search_work::ROW);
                        RowSet::from_fn(node.rows, |row| codes.get(row).is_some_and(|code| bits.contains(code)))
                    }
                    all_or_none => all_or_none,
                }
            }
            ColumnKind::Tables { table_ids: None, tables, .. } => {
                self.evaluate_table(self.block.tree.tables(tables).first()?, predicate)?
            }
            ColumnKind::Tables { outliers, tables, .. } => {
                self.evaluate_tables(at, node.rows, outliers, self.block.tree.tables(tables), predicate)?
            }
        })
    }

    fn evaluate_tables(
        &self,
        at: usize,
        rows: usize,
        outliers: Option<usize>,
        tables: &[TableNode],
        predicate: TextPredicate<'_>,
    ) -> Option<RowSet> {
        let (mut found, mut all) = (Bitmap::new(rows), true);
        let outliers = outliers.iter().map(|outliers| self.evaluate(*outliers, predicate));
        let tables = tables.iter().map(|table| self.evaluate_table(table, predicate));
        for (table_id, table_rows) in outliers.chain(tables).enumerate() {
            let table_rows = table_rows?;
            if self.is_cancelled() {
                break;
            }
            all &= table_rows == RowSet::All;
            self.occurrences.add_work(search_work::VISIT);
            if table_rows == RowSet::None {
                continue;
            }
            let values = self.block.values_of_tables(at)?.get(table_id)?;
            self.occurrences.add_work(values.len() as u64 * search_work::ROW);
            match table_rows {
                RowSet::None => {}
                RowSet::All => values.iter().for_each(|value| found.set(*value as usize)),
                RowSet::Some(bits) => {
                    for row in bits.iter() {
                        found.set(*values.get(row)? as usize);
                    }
                }
            }
        }
        Some(if all { RowSet::All } else { RowSet::from_bitmap(found) })
    }

    fn evaluate_table(&self, table: &TableNode, predicate: TextPredicate<'_>) -> Option<RowSet> {
        match Alignments::search(self, &|column, part| self.evaluate(column, part), table, predicate)? {
            Some(rows) => Some(rows),
            // Testing each row is cheaper than following more alignments.
            None => self.evaluate_by_row(table.rows, &ValueSource::of_table(self.block, table)?, &predicate),
        }
    }

    /// Builds all values, some at a time, and tests them. One search over the text of many costs less than one of each.
    fn evaluate_by_row(&self, rows: usize, source: &ValueSource<'_>, predicate: &TextPredicate<'_>) -> Option<RowSet> {
        let mut buffer = BoundedBuffer::new(2 * BATCH_BYTES);
        let (mut ends, mut found) = (Vec::new(), Bitmap::new(rows));
        let (mut first, mut bytes) = (0, 0);
        while first < rows {
            buffer.truncate(0);
            ends.clear();
            while first + ends.len() < rows && buffer.text().len() < BATCH_BYTES {
                let row = first + ends.len();
                buffer.push_growing(self.block.text_len + BATCH_BYTES, |buffer| {
                    source.push(row, buffer)?;
                    buffer.push_lf()
                })?;
                ends.push(buffer.text().len());
            }
            for value in passing_values(buffer.text(), &ends, predicate) {
                found.set(first + value);
            }
            first += ends.len();
            bytes += buffer.text().len() as u64;
        }
        self.occurrences.add_work(rows as u64 * search_work::BUILT_VALUE + bytes * search_work::BUILT_BYTE);
        Some(RowSet::from_bitmap(found))
    }
}

/// The values that pass, of a text of values with an LF after each; `ends` has the offsets behind the LFs.
fn passing_values(text: &[u8], ends: &[usize], predicate: &TextPredicate<'_>) -> Vec<usize> {
    let mut passing = Vec::new();
    if predicate.anchor == MatchAnchor::Anywhere {
        // A needle has no LF, so it occurs inside values only.
        let mut from = 0;
        while let Some(at) = predicate.needle.find(text, from) {
            let value = ends.partition_point(|end| *end <= at);
            passing.push(value);
            from = ends.get(value).copied().unwrap_or(text.len());
        }
        return passing;
    }
    let mut start = 0;
    for (value, end) in ends.iter().enumerate() {
        if text.get(start..end - 1).is_some_and(|text| predicate.matches(text)) {
            passing.push(value);
        }
        start = *end;
    }
    passing
}
