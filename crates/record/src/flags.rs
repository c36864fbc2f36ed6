//! Flags of the records of a batch, by row.

use std::ops::Range;

/// The rows with flags, in ascending order. Most batches have none, so this is a list and not a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(Vec<(u32, u8)>);

impl Flags {
    /// The record was cut at the maximum length; the next record of its source continues it.
    pub const CUT: u8 = 1;
    /// The source ended without a line end after this record.
    pub const UNTERMINATED: u8 = 2;

    /// No flags.
    pub const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Whether no row has flags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds flags to a row. Rows must not descend; flags of the same row are combined.
    pub fn push(&mut self, row: u32, bits: u8) {
        match self.0.last_mut() {
            Some((last, flags)) if *last == row => *flags |= bits,
            Some((last, _)) if *last > row => debug_assert!(false, "rows descend"),
            _ => self.0.push((row, bits)),
        }
    }

    /// The flags of a row, 0 for none.
    pub fn get(&self, row: u32) -> u8 {
        let at = self.0.binary_search_by_key(&row, |(row, _)| *row).ok();
        at.and_then(|at| self.0.get(at)).map_or(0, |(_, bits)| *bits)
    }

    /// The rows with flags, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.0.iter().copied()
    }

    /// The rows of a range that have flags, in ascending order.
    pub fn range(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, u8)> + '_ {
        let at = |row| self.0.partition_point(|(flagged, _)| *flagged < row);
        self.0.get(at(rows.start)..at(rows.end)).unwrap_or_default().iter().copied()
    }

    /// The number of rows with flags.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_range() {
        let mut flags = Flags::empty();
        [2, 5, 9].iter().for_each(|row| flags.push(*row, Flags::CUT));
        let check = |range, want: &[u32]| {
            assert_eq!(flags.range(range).map(|(row, _)| row).collect::<Vec<_>>(), want);
        };
        check(0..2, &[]);
        check(2..9, &[2, 5]);
        check(3..20, &[5, 9]);
        check(7..7, &[]);
    }

    #[test]
    fn rows_keep_their_flags() {
        let mut flags = Flags::empty();
        assert_eq!(flags.get(0), 0);
        flags.push(3, Flags::CUT);
        flags.push(3, Flags::UNTERMINATED);
        flags.push(9, Flags::UNTERMINATED);
        assert_eq!((flags.get(2), flags.get(3), flags.get(9), flags.len()), (0, 3, 2, 2));
    }
}
