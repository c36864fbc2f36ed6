//! Corruptions: one change to the bytes of a file.

use std::fmt;

use bucksaw_fixtures::Random;

/// The unit in which a disk loses data.
const PAGE: usize = 4_096;

/// Maximum number of adjacent pages lost. Parity rebuilds a single page.
const PAGES_MAX: usize = 3;

/// The end of a file matters most: half of the bit flips and truncations are there.
const END: usize = 256;

/// A corruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Corruption {
    /// One bit is flipped.
    Bit { at: usize, bit: u8 },
    /// One byte is replaced.
    Byte { at: usize, xor: u8 },
    /// The file is truncated here.
    Truncate { at: usize },
    /// A page is zeroed.
    Zero { at: usize },
    /// Some pages contain other bytes.
    Garbage { at: usize, pages: usize, seed: u64 },
}

impl Corruption {
    /// A random corruption of a file that is not empty. It changes at least one byte.
    pub(crate) fn random(random: &mut Random, bytes: &[u8]) -> Self {
        loop {
            let near = if random.one_in(2) { bytes.len().min(END) } else { bytes.len() };
            let at = bytes.len() - near + random.below(near);
            let change = match random.below(8) {
                0..3 => Self::Bit { at, bit: random.below(8) as u8 },
                3 => Self::Byte { at, xor: 1 + random.below(255) as u8 },
                4 | 5 => Self::Truncate { at },
                6 => Self::Zero { at: at / PAGE * PAGE },
                _ => {
                    Self::Garbage { at: at / PAGE * PAGE, pages: 1 + random.below(PAGES_MAX), seed: random.next_u64() }
                }
            };
            if change.apply(bytes) != bytes {
                return change;
            }
        }
    }

    pub(crate) fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let part = |at: usize, pages: usize, size: usize| at..size.min(at + pages * PAGE);
        match *self {
            Self::Bit { at, bit } => bytes[at] ^= 1 << bit,
            Self::Byte { at, xor } => bytes[at] ^= xor,
            Self::Truncate { at } => bytes.truncate(at),
            Self::Zero { at } => {
                let page = part(at, 1, bytes.len());
                bytes[page].fill(0);
            }
            Self::Garbage { at, pages, seed } => {
                let (part, mut random) = (part(at, pages, bytes.len()), Random::new(seed));
                bytes[part].fill_with(|| random.next_u64() as u8);
            }
        }
        bytes
    }

    pub(crate) fn is_truncation(&self) -> bool {
        matches!(self, Self::Truncate { .. })
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bit { at, bit } => write!(f, "bit {bit} of byte {at} flipped"),
            Self::Byte { at, xor } => write!(f, "byte {at} changed by {xor:#04x}"),
            Self::Truncate { at } => write!(f, "truncated at byte {at}"),
            Self::Zero { at } => write!(f, "zeroed from byte {at}"),
            Self::Garbage { at, pages, .. } => write!(f, "{pages} pages of garbage from byte {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corruption_changes_one_range() {
        let bytes: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
        let mut random = Random::new(1);
        for _ in 0..500 {
            let change = Corruption::random(&mut random, &bytes);
            let after = change.apply(&bytes);
            assert_ne!(after, bytes, "{change}");
            assert!(after.len() == bytes.len() || change.is_truncation() && after.len() < bytes.len(), "{change}");
            let differs = |at: &usize| after.get(*at).is_some_and(|byte| *byte != bytes[*at]);
            let differing = (0..bytes.len()).filter(differs).count();
            let most = match change {
                Corruption::Bit { .. } | Corruption::Byte { .. } => 1,
                Corruption::Truncate { .. } => 0,
                Corruption::Zero { .. } => PAGE,
                Corruption::Garbage { .. } => PAGES_MAX * PAGE,
            };
            assert!(differing <= most, "{change}");
        }
    }
}
