//! Decoded numbers in as few bytes as they need.
//!
//! The numbers of a column are near each other as a rule, so most columns take four bytes a number. The first search of a block is
//! bound by the memory that it writes for the first time.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::RowSet;

/// The numbers of a column.
#[derive(Debug)]
pub(crate) enum DecodedNumbers {
    /// Numbers as their wrapping difference from the first field.
    Near(u64, Vec<i32>),
    Far(Vec<u64>),
}

#[inline]
fn sum(base: u64, difference: i32) -> u64 {
    base.wrapping_add_signed(i64::from(difference))
}

impl DecodedNumbers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Near(_, differences) => differences.len(),
            Self::Far(numbers) => numbers.len(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<u64> {
        match self {
            Self::Near(base, differences) => differences.get(row).map(|difference| sum(*base, *difference)),
            Self::Far(numbers) => numbers.get(row).copied(),
        }
    }

    /// The numbers from a row on.
    pub(crate) fn iter_from(&self, row: usize) -> impl Iterator<Item = u64> {
        let (base, near, far): (u64, &[i32], &[u64]) = match self {
            Self::Near(base, differences) => (*base, differences.get(row..).unwrap_or_default(), &[]),
            Self::Far(numbers) => (0, &[], numbers.get(row..).unwrap_or_default()),
        };
        near.iter().map(move |difference| sum(base, *difference)).chain(far.iter().copied())
    }

    /// The rows whose number passes.
    #[inline]
    pub(crate) fn rows_that(&self, test: impl Fn(u64) -> bool) -> RowSet {
        match self {
            Self::Near(base, differences) => {
                let mut differences = differences.iter();
                RowSet::from_fn(differences.len(), |_| {
                    differences.next().is_some_and(|difference| test(sum(*base, *difference)))
                })
            }
            Self::Far(numbers) => {
                let mut numbers = numbers.iter();
                RowSet::from_fn(numbers.len(), |_| numbers.next().is_some_and(|number| test(*number)))
            }
        }
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Near(_, differences) => differences.len() * size_of::<i32>(),
            Self::Far(numbers) => numbers.len() * size_of::<u64>(),
        }
    }
}
