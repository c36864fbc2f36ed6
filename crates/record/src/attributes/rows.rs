//! The attributes of the records of a batch, by row.

use std::ops::Range;

use super::{AttributeNames, AttributeShape};

/// How many lists are compared with the names of a row before they are added again. More would cost a hostile sender's
/// records the square of their number.
const RECENT_LISTS: usize = 16;

/// Which attributes the rows of a batch have. Rows without attributes take no memory.
///
/// Invariant: the runs do not overlap, rise, are not empty, and refer to an entry of `lists`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowAttributes {
    /// The lists of names, in the order of their first use. A list that was not used for long may be there again.
    lists: Vec<AttributeNames>,
    runs: Vec<AttributeRun>,
    /// The rows that have a value with an LF inside, in ascending order, with the number of lines of each value.
    value_lines: Vec<(u32, Box<[u32]>)>,
    /// Approximate bytes of memory.
    memory: usize,
}

/// Consecutive rows with the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttributeRun {
    row: u32,
    count: u32,
    /// The index of the names.
    list: u32,
}

impl RowAttributes {
    /// No attributes.
    pub const fn empty() -> Self {
        Self { lists: Vec::new(), runs: Vec::new(), value_lines: Vec::new(), memory: 0 }
    }

    /// Whether no row has attributes.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The lists of names.
    pub fn lists(&self) -> &[AttributeNames] {
        &self.lists
    }

    /// Where the attributes of a row are; `None` if it has none.
    pub fn get(&self, row: u32) -> Option<AttributeShape<'_>> {
        let after = self.runs.partition_point(|run| run.row <= row);
        let run = self.runs.get(after.checked_sub(1)?).filter(|run| row - run.row < run.count)?;
        Some(AttributeShape { names: self.lists.get(run.list as usize)?, value_lines: self.value_lines_of(row) })
    }

    fn value_lines_of(&self, row: u32) -> &[u32] {
        let found = self.value_lines.binary_search_by_key(&row, |(row, _)| *row).ok();
        found.and_then(|at| self.value_lines.get(at)).map_or(&[], |(_, lines)| lines)
    }

    /// Gives attributes to `count` rows from `row` on, all behind the rows that have some.
    pub fn push(&mut self, row: u32, count: u32, names: &AttributeNames) {
        if count == 0 {
            return;
        }
        // Neighbours have the same names as a rule.
        let last = self.runs.last().map(|run| run.list as usize);
        let is_same = |at: &usize| self.lists.get(*at) == Some(names);
        let recent = (0..self.lists.len()).rev().take(RECENT_LISTS);
        let list = last.into_iter().chain(recent).find(is_same).unwrap_or_else(|| {
            self.memory += size_of::<AttributeNames>() + names.memory();
            self.lists.push(names.clone());
            self.lists.len() - 1
        }) as u32;
        match self.runs.last_mut() {
            Some(run) if run.list == list && run.row + run.count == row => run.count += count,
            before => {
                debug_assert!(before.is_none_or(|run| run.row + run.count <= row), "rows descend");
                self.memory += size_of::<AttributeRun>();
                self.runs.push(AttributeRun { row, count, list });
            }
        }
    }

    /// Gives attributes to a row behind the rows that have some.
    pub fn push_row(&mut self, row: u32, shape: AttributeShape<'_>) {
        self.push(row, 1, shape.names);
        self.push_value_lines(row, shape.value_lines);
    }

    /// Sets the number of lines of each value of a row. Rows are set in ascending order.
    pub fn push_value_lines(&mut self, row: u32, lines: &[u32]) {
        if lines.iter().any(|lines| *lines != 1) {
            debug_assert!(self.value_lines.last().is_none_or(|(last, _)| *last < row), "rows descend");
            self.memory += size_of::<(u32, Box<[u32]>)>() + size_of_val(lines);
            self.value_lines.push((row, lines.into()));
        }
    }

    /// All rows with attributes: the first row, the number of rows, and the index of their names.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (u32, u32, u32)> + '_ {
        self.runs.iter().map(|run| (run.row, run.count, run.list))
    }

    /// The rows with attributes in a range: the first row, the number of rows, and their names.
    pub fn runs_in(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, u32, &AttributeNames)> + '_ {
        let from = self.runs.partition_point(|run| run.row + run.count <= rows.start);
        let runs = self.runs.get(from..).unwrap_or_default().iter();
        runs.take_while({
            let end = rows.end;
            move |run| run.row < end
        })
        .filter_map(move |run| {
            let (start, end) = (run.row.max(rows.start), (run.row + run.count).min(rows.end));
            Some((start, end - start, self.lists.get(run.list as usize)?))
        })
    }

    /// The rows of a range that have a value with an LF inside, and the lines of each value.
    pub fn value_lines_in(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, &[u32])> + '_ {
        let at = |row| self.value_lines.partition_point(|(stated, _)| *stated < row);
        let found = self.value_lines.get(at(rows.start)..at(rows.end)).unwrap_or_default();
        found.iter().map(|(row, lines)| (*row, &**lines))
    }

    /// Appends the rows `range` of another batch as rows from `base` on.
    pub fn append(&mut self, base: u32, from: &Self, range: Range<u32>) {
        for (row, count, names) in from.runs_in(range.clone()) {
            self.push(row - range.start + base, count, names);
        }
        for (row, lines) in from.value_lines_in(range.clone()) {
            self.push_value_lines(row - range.start + base, lines);
        }
    }

    /// Approximate bytes of memory.
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// The most memory that a row with this shape can add.
    pub fn row_memory_max(shape: AttributeShape<'_>) -> usize {
        let value_lines = size_of::<(u32, Box<[u32]>)>() + size_of_val(shape.value_lines);
        size_of::<AttributeNames>() + shape.names.memory() + size_of::<AttributeRun>() + value_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &[&str]) -> AttributeNames {
        AttributeNames::new(list.iter().copied()).unwrap()
    }

    proptest! {
        /// Rows are what a plain list of rows says, also after they were appended in pieces.
        #[test]
        fn rows_keep_their_attributes(
            rows in prop::collection::vec((0_u32..4, prop::collection::vec(1_u32..3, 2)), 0..60),
            cut in 0_u32..60,
        ) {
            let lists = [names(&["a", "b"]), names(&["a", "c"]), names(&["b", "a"])];
            let mut all = RowAttributes::empty();
            for (row, (list, lines)) in (0..).zip(&rows) {
                if let Some(list) = lists.get(*list as usize) {
                    all.push(row, 1, list);
                    all.push_value_lines(row, lines);
                }
            }
            let count = rows.len() as u32;
            let mut copied = RowAttributes::empty();
            copied.append(0, &all, 0..cut.min(count));
            copied.append(cut.min(count), &all, cut.min(count)..count);
            prop_assert_eq!(&copied, &all);
            for (row, (list, lines)) in (0..).zip(&rows) {
                let shape = all.get(row);
                prop_assert_eq!(shape.map(|shape| shape.names), lists.get(*list as usize));
                let Some(shape) = shape else { continue };
                let want: &[u32] = if lines.iter().all(|lines| *lines == 1) { &[] } else { lines };
                prop_assert_eq!(shape.value_lines, want);
            }
            prop_assert!(all.get(count).is_none());
            prop_assert!(all.lists().len() <= 3);
        }
    }
}
