//! Reader of a gram filter.
//!
//! A Bloom filter with one hash (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970, with k = 1). A
//! needle has several grams, so a false-positive rate of four in ten per gram is enough.
//! `docs/adr/columns.md` has the measurements.
//!
//! ```text
//!   offset  size  meaning
//!        0     1  version of the filter, 1
//!        1    32  one bit per byte value that occurs
//!       33    8n  one bit per gram
//! ```
//! A filter of an unknown version or length excludes nothing, so a later release may add a version.

use bucksaw_search::SkipFilter;

use crate::filter::grams::{BITS_LOG, for_each_gram};

/// The version byte.
pub(super) const FILTER_VERSION: u8 = 1;

/// Bytes of the set of byte values.
pub(super) const BYTE_SET: usize = 32;

/// The bit of a gram in a filter of `bits` bits.
#[inline]
pub(super) fn scaled_bit(place: u32, bits: usize) -> usize {
    ((u64::from(place) * bits as u64) >> BITS_LOG) as usize
}

/// A filter as stored. It never excludes a text that occurs; bytes that are no filter exclude nothing.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a>(Option<(&'a [u8; BYTE_SET], &'a [u8])>);

impl<'a> Filter<'a> {
    /// Reads a filter.
    pub fn new(bytes: &'a [u8]) -> Self {
        let known = bytes.split_first().filter(|(kind, _)| **kind == FILTER_VERSION);
        let parts = known.and_then(|(_, rest)| rest.split_first_chunk());
        Self(parts.filter(|(_, bits)| !bits.is_empty() && bits.len() % 8 == 0))
    }

    /// Whether a line may contain the byte.
    pub fn may_contain_byte(self, byte: u8) -> bool {
        self.0.is_none_or(|(set, _)| set.get(byte as usize / 8).is_some_and(|bits| bits >> (byte % 8) & 1 == 1))
    }

    /// Whether a line may contain the text; with `any_case`, ASCII letters in either case.
    pub fn may_contain(self, text: &[u8], any_case: bool) -> bool {
        let Some((_, bits)) = self.0 else { return true };
        let mut is_possible = text.iter().all(|byte| {
            let other = any_case
                && (self.may_contain_byte(byte.to_ascii_lowercase())
                    || self.may_contain_byte(byte.to_ascii_uppercase()));
            other || self.may_contain_byte(*byte)
        });
        for_each_gram(text, |place| {
            let bit = scaled_bit(place, bits.len() * 8);
            is_possible &= bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
        });
        is_possible
    }
}

impl SkipFilter for Filter<'_> {
    fn may_contain(&self, text: &[u8], any_case: bool) -> bool {
        Filter::may_contain(*self, text, any_case)
    }
}
