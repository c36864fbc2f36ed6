//! A value for each of some columns of a block.
//!
//! Logs with many layouts have thousands of columns, and most work concerns few of them. A list of a value for each would be hundreds
//! of KB, which a question would take and clear for each block.
#![deny(clippy::indexing_slicing)]

/// Values of some columns, by column number.
#[derive(Debug)]
pub(crate) struct SomeColumns<T> {
    columns: usize,
    /// For each column, the number of its value counted from 1; 0 without one. Empty without values.
    numbers: Vec<u32>,
    values: Vec<T>,
}

impl<T> SomeColumns<T> {
    /// No value yet, for a block with this many columns.
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, numbers: Vec::new(), values: Vec::new() }
    }

    /// The value of a column, made by `make` at first; `None` without such a column.
    pub(crate) fn get_or_insert_with(&mut self, column: usize, make: impl FnOnce() -> T) -> Option<&mut T> {
        if self.numbers.is_empty() {
            self.numbers = vec![0; self.columns];
        }
        let number = self.numbers.get_mut(column)?;
        if *number == 0 {
            self.values.push(make());
            *number = self.values.len() as u32;
        }
        self.values.get_mut(*number as usize - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once_for_each_column() {
        let mut columns = SomeColumns::new(3);
        for (column, made, want) in [(2, 'a', 'a'), (0, 'b', 'b'), (2, 'c', 'a'), (0, 'd', 'b'), (1, 'e', 'e')] {
            assert_eq!(columns.get_or_insert_with(column, || made), Some(&mut want.clone()));
        }
        assert_eq!(columns.get_or_insert_with(3, || 'f'), None);
    }
}
