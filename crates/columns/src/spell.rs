//! Writing out values of fixed places: a template, and the digits that are put into it.
#![deny(clippy::indexing_slicing)]

use crate::fixed::{self, DIGITS_MAX, LENGTH_MAX, Place};

/// Bytes that a value may take.
pub(crate) const ROOM: usize = LENGTH_MAX;

/// What values of fixed places are written out from.
pub(crate) struct Spelling<'b> {
    len: usize,
    template: [u8; ROOM],
    /// For each decimal digit, the last first: which number it is of, and where it stands.
    digits: Vec<(usize, usize)>,
    numbers: &'b [Vec<u64>],
    hex: Vec<Hex>,
    nibble_bytes: usize,
    nibbles: &'b [u8],
}

/// A hexadecimal digit.
struct Hex {
    at: usize,
    byte: usize,
    /// Where its four bits are in that byte.
    shift: u8,
    digits: &'static [u8; 16],
}

impl<'b> Spelling<'b> {
    pub(crate) fn new(places: &[Place], numbers: &'b [Vec<u64>], nibbles: &'b [u8]) -> Option<Self> {
        let mut template = [0; ROOM];
        let (mut digits, mut hex) = (Vec::new(), Vec::new());
        for (at, place) in places.iter().enumerate() {
            match place {
                Place::Same(same) => *template.get_mut(at)? = *same,
                Place::Digit => digits.push((digits.len() / DIGITS_MAX, at)),
                Place::Lower => hex.push((at, b"0123456789abcdef")),
                Place::Upper => hex.push((at, b"0123456789ABCDEF")),
            }
        }
        digits.reverse();
        let count = hex.len();
        let hex = hex.into_iter().enumerate().map(|(seen, (at, digits))| {
            // The last one of an odd number stands alone.
            let high = seen % 2 == 0 && seen + 1 < count;
            Hex { at, byte: seen / 2, shift: if high { 4 } else { 0 }, digits }
        });
        let nibble_bytes = fixed::nibble_bytes(places);
        Some(Self { len: places.len(), template, digits, numbers, hex: hex.collect(), nibble_bytes, nibbles })
    }

    /// Writes a value; gives its bytes. They are written where they stay: to read digits again right after they were
    /// written one by one would have to wait for them.
    #[inline]
    pub(crate) fn write(&self, row: usize, to: &mut [u8; ROOM]) -> Option<usize> {
        *to = self.template;
        let (mut rest, mut list) = (0, usize::MAX);
        for (number, at) in &self.digits {
            if *number != list {
                list = *number;
                rest = *self.numbers.get(list)?.get(row)?;
            }
            *to.get_mut(*at)? = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        if self.nibble_bytes > 0 {
            let nibbles = self.nibbles.get(row * self.nibble_bytes..(row + 1) * self.nibble_bytes)?;
            for hex in &self.hex {
                let nibble = nibbles.get(hex.byte)? >> hex.shift & 15;
                *to.get_mut(hex.at)? = *hex.digits.get(nibble as usize)?;
            }
        }
        Some(self.len)
    }
}
