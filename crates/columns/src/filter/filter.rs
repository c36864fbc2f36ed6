//! Reader of a gram filter.
//!
//! A Bloom filter with one hash (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970, with k = 1). A
//! needle has several grams, so a false-positive rate of four in ten per gram is enough.
//! `docs/adr/columns.md` has the measurements.
//!
//! ```text
//!   offset  size  meaning
//!        0     1  version of the filter, 2
//!        1    16  one bit per ASCII byte that an escape of JSON stands for
//!       17    32  one bit per byte value that occurs
//!       49    8n  one bit per gram
//! ```
//! Version 1 has no bits of escapes. A filter of an unknown version or length excludes nothing, so a later release may add a
//! version.

use bucksaw_search::{AsciiSet, SkipFilter};

use crate::filter::grams::{BITS_LOG, for_each_gram};

/// The version byte, and that of filters without the set of escaped bytes.
pub(super) const FILTER_VERSION: u8 = 2;
const VERSION_WITHOUT_ESCAPES: u8 = 1;

/// Bytes of the set of escaped bytes.
pub(super) const ESCAPED_SET: usize = 16;

/// Bytes of the set of byte values.
pub(super) const BYTE_SET: usize = 32;

/// The bit of a gram in a filter of `bits` bits.
#[inline]
pub(super) fn scaled_bit(place: u32, bits: usize) -> usize {
    ((u64::from(place) * bits as u64) >> BITS_LOG) as usize
}

/// A filter as stored. It never excludes a text that occurs; bytes that are no filter exclude nothing.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// The set of bytes and the bits of the grams.
    sets: Option<(&'a [u8; BYTE_SET], &'a [u8])>,
    escaped: AsciiSet,
}

impl<'a> Filter<'a> {
    /// Reads a filter.
    pub fn new(bytes: &'a [u8]) -> Self {
        let (escaped, sets) = match bytes.split_first() {
            Some((&FILTER_VERSION, rest)) => match rest.split_first_chunk::<ESCAPED_SET>() {
                Some((escaped, sets)) => (AsciiSet::from_le_bytes(*escaped), sets),
                None => (AsciiSet::ALL, &[][..]),
            },
            Some((&VERSION_WITHOUT_ESCAPES, sets)) => (AsciiSet::ALL, sets),
            _ => (AsciiSet::ALL, &[][..]),
        };
        let sets = sets.split_first_chunk().filter(|(_, bits)| !bits.is_empty() && bits.len() % 8 == 0);
        Self { sets, escaped: if sets.is_some() { escaped } else { AsciiSet::ALL } }
    }

    /// The ASCII bytes that an escape of JSON in some line may stand for.
    pub fn escaped_bytes(self) -> AsciiSet {
        self.escaped
    }

    /// Whether a line may contain the byte.
    pub fn may_contain_byte(self, byte: u8) -> bool {
        self.sets.is_none_or(|(set, _)| set.get(byte as usize / 8).is_some_and(|bits| bits >> (byte % 8) & 1 == 1))
    }

    /// Whether a line may contain the text; with `any_case`, ASCII letters in either case.
    pub fn may_contain(self, text: &[u8], any_case: bool) -> bool {
        let Some((_, bits)) = self.sets else { return true };
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

    fn escaped_bytes(&self) -> AsciiSet {
        self.escaped
    }
}
