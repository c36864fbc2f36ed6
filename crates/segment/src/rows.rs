//! The ids and metadata of the rows of a chunk.

use std::ops::Range;

use bucksaw_record::{AttributeShape, Flags, Id, Millis, RowAttributes};

/// Consecutive rows with consecutive ids: the same time and producer, sequence numbers `n`, `n + 1`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRun {
    /// The first row of the run.
    pub row: u32,
    /// The id of that row.
    pub first_id: Id,
    /// Number of rows, at least 1; the sequence number does not overflow.
    pub count: u32,
}

impl IdRun {
    /// The id of the last row.
    pub fn last(&self) -> Id {
        Id::from_bits(self.first_id.bits() + u128::from(self.count.saturating_sub(1)))
    }

    /// Number of rows with ids below `limit`.
    pub fn count_below(&self, limit: Id) -> u32 {
        // Ids of a run are consecutive, so a difference is a number of rows.
        let distance = limit.bits().saturating_sub(self.first_id.bits());
        u32::try_from(distance).unwrap_or(u32::MAX).min(self.count)
    }
}

/// The rows of a chunk.
///
/// Invariant: the runs are not empty, cover rows `0..count` in order, and have no gap between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows.
    pub count: u32,
    /// Their ids.
    pub runs: Vec<IdRun>,
    /// Nanoseconds below the millisecond (1..=999,999) by row, ascending, for rows whose source stated them.
    pub nanos: Vec<(u32, u32)>,
    /// Rows that were cut or ended without a line end.
    pub flags: Flags,
    /// The number of lines of each record, its attributes included; `None` if each line is a record.
    pub lines: Option<Vec<u32>>,
    /// The attributes of the rows.
    pub attributes: RowAttributes,
    /// The latest arrival of a row at a node.
    pub accepted: Millis,
}

impl Rows {
    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        let lines = self.lines.as_ref().map_or(0, Vec::len);
        let columns = self.runs.len() * size_of::<IdRun>() + self.nanos.len() * 8 + lines * 4;
        size_of::<Self>() + columns + self.attributes.memory()
    }

    /// The id of a row; `None` beyond the last.
    pub fn id(&self, row: u32) -> Option<Id> {
        let after = self.runs.partition_point(|run| run.row <= row);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let step = row - run.row;
        (step < run.count).then(|| Id::from_bits(run.first_id.bits() + u128::from(step)))
    }

    /// The nanoseconds below the millisecond of a row.
    pub fn nanos(&self, row: u32) -> u32 {
        if self.nanos.is_empty() {
            return 0;
        }
        let found = self.nanos.binary_search_by_key(&row, |(row, _)| *row).ok();
        found.and_then(|at| self.nanos.get(at)).map_or(0, |(_, nanos)| *nanos)
    }

    /// The number of lines of a row.
    pub fn lines(&self, row: u32) -> u32 {
        self.lines.as_ref().and_then(|lines| lines.get(row as usize)).copied().unwrap_or(1)
    }

    /// Where the attributes of a row are in its text; `None` if it has none.
    pub fn attributes(&self, row: u32) -> Option<AttributeShape<'_>> {
        if self.attributes.is_empty() { None } else { self.attributes.get(row) }
    }

    /// Adds `count` rows with consecutive ids from `first` on, to the last run if they continue it.
    pub fn push_run(&mut self, first: Id, count: u32) {
        if count == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut()
            && last.last().checked_add(1) == Some(first)
        {
            last.count += count;
        } else {
            self.runs.push(IdRun { row: self.count, first_id: first, count });
        }
        self.count += count;
    }

    /// The runs within a range of rows: first id and number of rows of each.
    pub fn runs_in(&self, rows: Range<u32>) -> impl Iterator<Item = (Id, u32)> + '_ {
        let from = self.runs.partition_point(|run| run.row + run.count <= rows.start);
        let runs = self.runs.get(from..).unwrap_or_default().iter();
        let end = rows.end;
        runs.take_while(move |run| run.row < end).map(move |run| {
            let start = rows.start.max(run.row);
            let first = Id::from_bits(run.first_id.bits() + u128::from(start - run.row));
            (first, end.min(run.row + run.count) - start)
        })
    }

    /// The nanoseconds of the rows in a range that have them.
    pub fn nanos_in(&self, rows: Range<u32>) -> &[(u32, u32)] {
        let at = |row| self.nanos.partition_point(|(stated, _)| *stated < row);
        self.nanos.get(at(rows.start)..at(rows.end)).unwrap_or_default()
    }

    /// A selection of rows in any order.
    #[must_use]
    pub fn select(&self, rows: impl Iterator<Item = u32>) -> Self {
        let mut selected = Self { accepted: self.accepted, ..Self::default() };
        selected.lines = self.lines.as_ref().map(|_| Vec::new());
        let mut run = 0;
        for row in rows {
            let contains =
                |at: &usize| self.runs.get(*at).is_some_and(|run| run.row <= row && row - run.row < run.count);
            let near = [run, run + 1].into_iter().find(contains);
            run = near.unwrap_or_else(|| self.runs.partition_point(|run| run.row + run.count <= row));
            let Some(run) = self.runs.get(run) else { break };
            let new = selected.count;
            selected.push_run(Id::from_bits(run.first_id.bits() + u128::from(row - run.row)), 1);
            match self.nanos(row) {
                0 => {}
                nanos => selected.nanos.push((new, nanos)),
            }
            match self.flags.get(row) {
                0 => {}
                bits => selected.flags.push(new, bits),
            }
            if let (Some(lines), Some(given)) = (&mut selected.lines, &self.lines) {
                lines.extend(given.get(row as usize));
            }
            if !self.attributes.is_empty() {
                selected.attributes.append(new, &self.attributes, row..row + 1);
            }
        }
        selected
    }

    /// The lowest and the highest id; `None` without rows.
    pub fn id_range(&self) -> Option<(Id, Id)> {
        let low = self.runs.iter().map(|run| run.first_id).min()?;
        let high = self.runs.iter().map(IdRun::last).max()?;
        Some((low, high))
    }

    /// The latest time or arrival of a row, by which retention decides.
    pub fn newest(&self) -> Millis {
        self.id_range().map_or(self.accepted, |(_, high)| high.time().max(self.accepted))
    }

    /// Whether the ids rise from row to row.
    pub fn is_sorted(&self) -> bool {
        self.runs.windows(2).all(|pair| matches!(pair, [a, b] if a.last() < b.first_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_record::{AttributeNames, Producer};

    fn id(ms: u64, sequence: u32) -> Id {
        Id::new(Millis(ms), Producer::new(9), sequence)
    }

    #[test]
    fn ids_by_row() {
        let mut rows = Rows::default();
        rows.push_run(id(5, 0), 3);
        rows.push_run(id(5, 3), 2);
        rows.push_run(id(6, 9), 1);
        assert_eq!(rows.runs.len(), 2);
        assert_eq!(rows.count, 6);
        assert_eq!(
            (rows.id(0), rows.id(4), rows.id(5), rows.id(6)),
            (Some(id(5, 0)), Some(id(5, 4)), Some(id(6, 9)), None)
        );
        assert_eq!(rows.id_range(), Some((id(5, 0), id(6, 9))));
        assert!(rows.is_sorted());
    }

    #[test]
    fn a_range_of_rows() {
        let mut rows = Rows { nanos: vec![(1, 7), (4, 8)], ..Rows::default() };
        rows.push_run(id(5, 0), 3);
        rows.push_run(id(6, 9), 2);
        let runs = |range| rows.runs_in(range).collect::<Vec<_>>();
        assert_eq!(runs(0..5), [(id(5, 0), 3), (id(6, 9), 2)]);
        assert_eq!(runs(2..4), [(id(5, 2), 1), (id(6, 9), 1)]);
        assert_eq!(runs(4..5), [(id(6, 10), 1)]);
        assert_eq!(runs(3..3), []);
        assert_eq!((rows.nanos_in(0..4), rows.nanos_in(2..5)), ([(1, 7)].as_slice(), [(4, 8)].as_slice()));
    }

    #[test]
    fn selected_rows() {
        let mut rows = Rows::default();
        rows.push_run(id(5, 0), 3);
        rows.push_run(id(6, 9), 2);
        rows.nanos = vec![(1, 7), (4, 8)];
        rows.flags.push(4, 2);
        rows.lines = Some(vec![1, 2, 3, 4, 5]);
        rows.attributes.push(1, 3, &AttributeNames::new(["a"]).unwrap());
        let some = rows.select([1, 2, 4].into_iter());
        assert_eq!((some.id(0), some.id(1), some.id(2)), (Some(id(5, 1)), Some(id(5, 2)), Some(id(6, 10))));
        assert_eq!((some.count, some.nanos.as_slice(), some.flags.get(2)), (3, [(0, 7), (2, 8)].as_slice(), 2));
        assert_eq!(some.lines, Some(vec![2, 3, 5]));
        assert_eq!([0, 1, 2].map(|row| some.attributes(row).is_some()), [true, true, false]);
        assert_eq!(rows.select(0..5), rows);
    }

    #[test]
    fn rows_below_a_limit() {
        let run = IdRun { row: 0, first_id: id(5, 10), count: 4 };
        let check = |limit, want| assert_eq!(run.count_below(limit), want);
        check(id(5, 10), 0);
        check(id(5, 12), 2);
        check(id(9, 0), 4);
        check(Id::MAX, 4);
        check(Id::MIN, 0);
    }

    #[test]
    fn the_memory_of_rows_includes_each_of_their_columns() {
        let check = |rows: &Rows, bytes: usize| {
            let added = rows.memory() - Rows::default().memory();
            assert!((bytes..=bytes + bytes / 4).contains(&added), "{added} of {bytes}");
        };
        let nanos: Vec<(u32, u32)> = (0..100).map(|row| (row, 1)).collect();
        check(&Rows { nanos: nanos.clone(), ..Rows::default() }, size_of_val(nanos.as_slice()));
        let lines = vec![7_u32; 100];
        check(&Rows { lines: Some(lines.clone()), ..Rows::default() }, size_of_val(lines.as_slice()));
        let mut runs = Rows::default();
        (0..100).for_each(|row| runs.push_run(id(row, 0), 1));
        check(&runs, size_of_val(runs.runs.as_slice()));
    }
}
