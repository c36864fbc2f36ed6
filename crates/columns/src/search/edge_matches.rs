//! Finds which parts of a needle lie at the edges of a column's values, in one pass over them.
//!
//! ```text
//!   needle      multicast
//!   values      mul, ti, cast, stop        a value ends with `mul`; one equals a part that ends with `ti`; one starts with `cast`
//! ```
//! A needle over several columns has as many alignments as ways to divide it. For nearly all of them, some column has no value with
//! the part that would lie over it, which this tells without a search for each part. The sets of positions are bits, and all
//! positions move on at once with each byte, as in the shift-and algorithm (R. Baeza-Yates and G. Gonnet, "A new approach to text
//! searching", CACM 35(10), 1992).
#![deny(clippy::indexing_slicing)]

use bucksaw_search::Needle;

use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// The longest needle, in bytes: the highest bit stays free.
const NEEDLE_BYTES_MAX: usize = 63;

/// For each byte, its positions in a needle.
pub(crate) struct NeedlePositions {
    positions: [u64; 256],
    last: usize,
}

/// Parts of a needle at the edges of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeMatches {
    /// Bit `i`: a value ends with the needle's bytes up to and including `i`.
    prefix_ends: u64,
    /// Bit `i`: a value starts with the needle's bytes from `i` to its end.
    suffix_starts: u64,
    /// Bit `i`: a value equals a part of the needle that ends with byte `i`.
    whole_ends: u64,
    has_empty: bool,
}

impl NeedlePositions {
    /// `None` for an empty or a long needle.
    pub(crate) fn of(needle: &Needle) -> Option<Self> {
        let last = needle.text().len().checked_sub(1).filter(|last| *last < NEEDLE_BYTES_MAX)?;
        let mut positions = [0; 256];
        for (at, byte) in needle.text().iter().enumerate() {
            for case in [*byte, if needle.any_case() { byte.to_ascii_uppercase() } else { *byte }] {
                positions.get_mut(case as usize).into_iter().for_each(|set| *set |= 1 << at);
            }
        }
        Some(Self { positions, last })
    }

    /// The parts at the edges of values with an LF after each.
    pub(crate) fn edges_of(&self, values: &[u8]) -> EdgeMatches {
        let mut edges = EdgeMatches::default();
        // The ends of the prefixes of the needle before this byte, and of its parts that equal the value so far: of no byte, all.
        let (mut prefixes, mut wholes, mut len) = (0_u64, u64::MAX, 0);
        for byte in values {
            if *byte == b'\n' {
                edges.prefix_ends |= prefixes;
                edges.has_empty |= len == 0;
                edges.whole_ends |= if len == 0 { 0 } else { wholes };
                (prefixes, wholes, len) = (0, u64::MAX, 0);
                continue;
            }
            let here = self.positions.get(*byte as usize).copied().unwrap_or_default();
            prefixes = (prefixes << 1 | 1) & here;
            // The highest bit is unset after the first byte, so nothing comes round.
            wholes = wholes.rotate_left(1) & here;
            if wholes >> self.last & 1 == 1 {
                edges.suffix_starts |= 1 << (self.last - len);
            }
            len += 1;
        }
        edges
    }
}

impl EdgeMatches {
    /// Bit `n`: a value may end with the first `n` bytes of the needle.
    pub(crate) fn prefix_lengths(&self) -> u64 {
        self.prefix_ends << 1 | 1
    }

    /// Bit `n`: a value may equal `n` bytes of the needle from `start` on.
    pub(crate) fn whole_lengths(&self, start: usize) -> u64 {
        let ends = self.whole_ends.checked_shr(start as u32).unwrap_or_default();
        ends << 1 | u64::from(self.has_empty)
    }

    /// Whether a value may pass; the predicate is one of this needle.
    pub(crate) fn admit(&self, needle: &Needle, predicate: &TextPredicate<'_>) -> bool {
        let (start, end) = (predicate.needle_offset, predicate.needle_offset + predicate.text.len());
        let has = |set: u64, at: usize| set >> at & 1 == 1;
        match predicate.anchor {
            MatchAnchor::Whole if start == end => self.has_empty,
            MatchAnchor::Whole => has(self.whole_ends, end - 1),
            MatchAnchor::End if start == 0 && start < end => has(self.prefix_ends, end - 1),
            MatchAnchor::Start if end == needle.text().len() && start < end => has(self.suffix_starts, start),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// Few different letters, so that parts recur in the needle and in the values.
        #[test]
        fn what_a_value_has_is_admitted(needle in "[abA]{1,64}", values in prop::collection::vec("[abAx]{0,6}", 0..12), any_case in any::<bool>()) {
            let needle = Needle::new(needle.as_bytes(), any_case);
            let Some(positions) = NeedlePositions::of(&needle) else {
                prop_assert!(needle.text().len() > NEEDLE_BYTES_MAX);
                return Ok(());
            };
            let text: String = values.iter().flat_map(|value| [value.as_str(), "\n"]).collect();
            let edges = positions.edges_of(text.as_bytes());
            for start in 0..=needle.text().len() {
                for end in start..=needle.text().len() {
                    for anchor in [MatchAnchor::Start, MatchAnchor::End, MatchAnchor::Whole] {
                        let predicate = TextPredicate::whole(&needle, None).sub_predicate(start..end, anchor);
                        let has = values.iter().any(|value| predicate.matches(value.as_bytes()));
                        let is_admitted = edges.admit(&needle, &predicate);
                        prop_assert!(is_admitted || !has, "{:?} {:?}", predicate, values);
                        // Only the start of a part that equals a value is left open.
                        let is_exact = match anchor {
                            MatchAnchor::End => start == 0 && end > 0,
                            MatchAnchor::Start => end == needle.text().len() && start < end,
                            _ => start == end,
                        };
                        prop_assert!(!is_exact || is_admitted == has, "{:?} {:?}", predicate, values);
                    }
                }
            }
        }
    }
}
