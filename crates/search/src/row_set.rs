//! Sets of rows.
#![deny(clippy::indexing_slicing)]

use std::ops::{BitAnd, BitOr, Not, Range};

/// A sample of more than one in this many rows saves too little.
const SAMPLE_STEP_MIN: usize = 8;

/// Some rows of a block or of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowSet {
    /// No row.
    None,
    /// All rows.
    All,
    /// The rows whose bit is set.
    Some(Bitmap),
}

/// One bit per row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// A bitmap of `len` rows with no bit set.
    pub fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// A bitmap of `len` rows with all bits set.
    pub fn full(len: usize) -> Self {
        let mut bits = Self { words: vec![u64::MAX; len.div_ceil(64)], len };
        bits.clear_unused_bits();
        bits
    }

    /// Clears the bits of the last word that belong to no row.
    fn clear_unused_bits(&mut self) {
        if let Some(last) = self.words.last_mut().filter(|_| !self.len.is_multiple_of(64)) {
            *last &= (1 << (self.len % 64)) - 1;
        }
    }

    /// Sets the bit of a row; a row out of range is ignored.
    #[inline]
    pub fn set(&mut self, row: usize) {
        if row < self.len
            && let Some(word) = self.words.get_mut(row / 64)
        {
            *word |= 1 << (row % 64);
        }
    }

    /// Sets the bits of a range; rows out of range are ignored.
    pub fn set_range(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len);
        for (at, word) in self.words.iter_mut().enumerate().take(end.div_ceil(64)).skip(range.start / 64) {
            let (from, to) = (range.start.saturating_sub(at * 64), (end - at * 64).min(64));
            if from < to {
                *word |= u64::MAX >> (64 - (to - from)) << from;
            }
        }
    }

    /// Whether the bit of a row is set.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// The number of bits that are set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The number of bits of a range that are set.
    pub fn count_in(&self, range: Range<usize>) -> usize {
        self.words_in(range).map(|(_, word)| word.count_ones() as usize).sum()
    }

    /// The numbers of the words of a range, and the words without bits outside it.
    fn words_in(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = (usize, u64)> + Clone + '_ {
        let end = range.end.min(self.len);
        let words = self.words.iter().enumerate().take(end.div_ceil(64)).skip(range.start / 64);
        words.map(move |(at, word)| {
            let (from, to) = (range.start.saturating_sub(at * 64), (end - at * 64).min(64));
            (at, if from < to { *word & u64::MAX >> (64 - (to - from)) << from } else { 0 })
        })
    }

    /// The rows whose bit is set, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.iter_in(0..self.len)
    }

    /// The rows of a range whose bit is set, in rising order.
    pub fn iter_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + Clone + '_ {
        self.words_in(range).flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                (word != 0).then(|| {
                    word &= word - 1;
                    at * 64 + bit as usize
                })
            })
        })
    }

    /// The rows of a range whose bit is set, in falling order.
    fn iter_back_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        self.words_in(range).rev().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = word.checked_ilog2()?;
                word ^= 1 << bit;
                Some(at * 64 + bit as usize)
            })
        })
    }
}

impl RowSet {
    /// An even sample of `wanted` rows of the set; `None` if the set has fewer than eight times `wanted` rows.
    pub fn sample(&self, len: usize, wanted: usize) -> Option<Self> {
        let count = self.count(len);
        let step = count / wanted;
        if step < SAMPLE_STEP_MIN {
            return None;
        }
        let mut bits = Bitmap::new(len);
        self.first_in(0..len, count).step_by(step).take(wanted).for_each(|row| bits.set(row));
        Some(Self::Some(bits))
    }

    /// The rows below `len` that pass `test`.
    pub fn from_fn(len: usize, mut test: impl FnMut(usize) -> bool) -> Self {
        let mut bits = Bitmap::new(len);
        for (at, word) in bits.words.iter_mut().enumerate() {
            for bit in 0..(len - at * 64).min(64) {
                *word |= u64::from(test(at * 64 + bit)) << bit;
            }
        }
        Self::from_bitmap(bits)
    }

    /// The rows whose bit is set, as `None` or `All` where possible.
    pub fn from_bitmap(bits: Bitmap) -> Self {
        match bits.count() {
            0 => Self::None,
            count if count == bits.len => Self::All,
            _ => Self::Some(bits),
        }
    }

    /// Memory on the heap, in bytes.
    pub fn memory(&self) -> usize {
        if let Self::Some(bits) = self { size_of_val(bits.words.as_slice()) } else { 0 }
    }

    /// Whether the set contains a row.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(bits) => bits.contains(row),
        }
    }

    /// The first `limit` rows of a range that are in the set, in rising order.
    pub fn first_in(&self, range: Range<usize>, limit: usize) -> impl Iterator<Item = usize> + '_ {
        let (bits, all) = match self {
            Self::None => (None, 0..0),
            Self::All => (None, range.clone()),
            Self::Some(bits) => (Some(bits), 0..0),
        };
        bits.into_iter().flat_map(move |bits| bits.iter_in(range.clone())).chain(all).take(limit)
    }

    /// The last `limit` rows of a range that are in the set, in rising order.
    pub fn last_in(&self, range: Range<usize>, limit: usize) -> Vec<usize> {
        let mut last: Vec<usize> = match self {
            Self::None => Vec::new(),
            Self::All => range.rev().take(limit).collect(),
            Self::Some(bits) => bits.iter_back_in(range).take(limit).collect(),
        };
        last.reverse();
        last
    }

    /// The number of rows of a range in the set.
    pub fn count_in(&self, range: Range<usize>) -> usize {
        match self {
            Self::None => 0,
            Self::All => range.len(),
            Self::Some(bits) => bits.count_in(range),
        }
    }

    /// The number of rows in the set, of `len` in total.
    pub fn count(&self, len: usize) -> usize {
        match self {
            Self::None => 0,
            Self::All => len,
            Self::Some(bits) => bits.count(),
        }
    }
}

/// The union.
impl BitOr for RowSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, rows) | (rows, Self::None) => rows,
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Some(mut left), Self::Some(right)) => {
                left.words.iter_mut().zip(&right.words).for_each(|(left, right)| *left |= right);
                Self::Some(left)
            }
        }
    }
}

/// The intersection.
impl BitAnd for RowSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, rows) | (rows, Self::All) => rows,
            (Self::Some(mut left), Self::Some(right)) => {
                left.words.iter_mut().zip(&right.words).for_each(|(left, right)| *left &= right);
                if left.words.iter().all(|word| *word == 0) { Self::None } else { Self::Some(left) }
            }
        }
    }
}

/// The complement.
impl Not for RowSet {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::None => Self::All,
            Self::All => Self::None,
            Self::Some(mut bits) => {
                bits.words.iter_mut().for_each(|word| *word = !*word);
                bits.clear_unused_bits();
                Self::from_bitmap(bits)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_set(len in 0_usize..200, start in 0_usize..200, count in 0_usize..200) {
            let mut bits = Bitmap::new(len);
            bits.set_range(start..start + count);
            for row in 0..250 {
                prop_assert_eq!(bits.contains(row), row < len && (start..start + count).contains(&row));
            }
            let inside: Vec<usize> = Bitmap::full(len).iter_in(start..start + count).collect();
            prop_assert_eq!(&inside, &(start.min(len)..(start + count).min(len)).collect::<Vec<_>>());
            prop_assert_eq!(bits.count_in(0..250), inside.len());
            prop_assert_eq!(inside, bits.iter().collect::<Vec<_>>());
            let all = RowSet::Some(Bitmap::full(len));
            prop_assert_eq!((all & !RowSet::from_bitmap(bits.clone())).count(len), len - bits.count());
        }

        #[test]
        fn the_first_and_last_rows_of_a_range_are_found(
            len in 1_usize..200,
            modulus in 1_usize..9,
            bounds in (0_usize..200, 0_usize..200),
            limit in 0_usize..40,
        ) {
            let range = bounds.0.min(len)..bounds.1.min(len);
            for rows in [RowSet::from_fn(len, |row| row % modulus == 0), RowSet::None, RowSet::All] {
                let in_range: Vec<usize> = range.clone().filter(|row| rows.contains(*row)).collect();
                prop_assert_eq!(rows.count_in(range.clone()), in_range.len());
                let count = limit.min(in_range.len());
                prop_assert_eq!(rows.first_in(range.clone(), limit).collect::<Vec<_>>(), &in_range[..count]);
                prop_assert_eq!(rows.last_in(range.clone(), limit), &in_range[in_range.len() - count..]);
            }
        }

        #[test]
        fn samples_are_spread_over_the_set(len in 0_usize..3_000, modulus in 1_usize..9, wanted in 2_usize..70) {
            let rows = RowSet::from_fn(len, |row| row % modulus == 0);
            let sample = rows.sample(len, wanted);
            prop_assert_eq!(sample.is_some(), rows.count(len) >= wanted * SAMPLE_STEP_MIN);
            let Some(sample) = sample else { return Ok(()) };
            prop_assert_eq!(sample.count(len), wanted);
            prop_assert_eq!((sample.clone() & !rows).count(len), 0, "rows outside the set");
            prop_assert!((len / 3..len).any(|row| sample.contains(row)), "the first rows only");
        }
    }
}
