//! What is odd about a few records of a batch, by row.

use std::ops::Range;

/// Rows that bear a mark, in rising order. Nearly every batch has none, so this is a short list and not a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(Vec<(u32, u8)>);

impl Flags {
    /// The record was longer than allowed and was cut here; the next record of its source goes on with it.
    pub const CUT: u8 = 1;
    /// The source ended without a line end after this record.
    pub const UNTERMINATED: u8 = 2;

    /// No row is marked.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Whether no row is marked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks a row. Rows must be marked in rising order; a second mark of the same row is added to the first.
    pub fn push(&mut self, row: u32, bits: u8) {
        match self.0.last_mut() {
            Some((last, had)) if *last == row => *had |= bits,
            Some((last, _)) if *last > row => debug_assert!(false, "rows are marked in rising order"),
            _ => self.0.push((row, bits)),
        }
    }

    /// The marks of a row, 0 for none.
    #[must_use]
    pub fn get(&self, row: u32) -> u8 {
        if self.0.is_empty() {
            return 0;
        }
        self.0
            .binary_search_by_key(&row, |(row, _)| *row)
            .ok()
            .and_then(|at| self.0.get(at))
            .map_or(0, |(_, bits)| *bits)
    }

    /// The marked rows with their bits, rising.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.0.iter().copied()
    }

    /// Those of a range of rows.
    pub fn range(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, u8)> + '_ {
        let at = |row| self.0.partition_point(|(marked, _)| *marked < row);
        self.0.get(at(rows.start)..at(rows.end)).unwrap_or_default().iter().copied()
    }

    /// How many rows bear a mark.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_range() {
        let mut marks = Flags::empty();
        [2, 5, 9].iter().for_each(|row| marks.push(*row, Flags::CUT));
        let check = |range, want: &[u32]| {
            assert_eq!(marks.range(range).map(|(row, _)| row).collect::<Vec<_>>(), want);
        };
        check(0..2, &[]);
        check(2..9, &[2, 5]);
        check(3..20, &[5, 9]);
        check(7..7, &[]);
    }

    #[test]
    fn rows_keep_their_flags() {
        let mut marks = Flags::empty();
        assert_eq!(marks.get(0), 0);
        marks.push(3, Flags::CUT);
        marks.push(3, Flags::UNTERMINATED);
        marks.push(9, Flags::UNTERMINATED);
        assert_eq!((marks.get(2), marks.get(3), marks.get(9), marks.len()), (0, 3, 2, 2));
    }
}
