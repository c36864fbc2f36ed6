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
    pairs: Vec<Pair>,
    singles: Vec<Single>,
    nibble_bytes: usize,
    nibbles: &'b [u8],
}

/// Each byte in two hexadecimal digits.
type Hex = [[u8; 2]; 256];

static LOWER: Hex = hex(b"0123456789abcdef");
static UPPER: Hex = hex(b"0123456789ABCDEF");

#[expect(clippy::indexing_slicing, reason = "it runs when this is compiled")]
const fn hex(digits: &[u8; 16]) -> Hex {
    let mut texts = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        texts[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    texts
}

/// Two hexadecimal digits, one after the other.
struct Pair {
    at: usize,
    byte: usize,
    texts: &'static Hex,
}

/// A hexadecimal digit.
struct Single {
    at: usize,
    byte: usize,
    /// Whether its bits are the higher ones of that byte.
    high: bool,
    texts: &'static Hex,
}

impl<'b> Spelling<'b> {
    pub(crate) fn new(places: &[Place], numbers: &'b [Vec<u64>], nibbles: &'b [u8]) -> Option<Self> {
        let mut template = [0; ROOM];
        let (mut digits, mut hex) = (Vec::new(), Vec::new());
        for (at, place) in places.iter().enumerate() {
            match place {
                Place::Same(same) => *template.get_mut(at)? = *same,
                Place::Digit => digits.push((digits.len() / DIGITS_MAX, at)),
                Place::Lower => hex.push((at, &LOWER)),
                Place::Upper => hex.push((at, &UPPER)),
            }
        }
        digits.reverse();
        let (mut pairs, mut singles) = (Vec::new(), Vec::new());
        for (byte, both) in hex.chunks(2).enumerate() {
            match *both {
                [(at, texts), (next, others)] if next == at + 1 && std::ptr::eq(texts, others) => {
                    pairs.push(Pair { at, byte, texts });
                }
                // The last one of an odd number stands alone, in the lower bits.
                [(at, texts), (next, others)] => {
                    singles.push(Single { at, byte, high: true, texts });
                    singles.push(Single { at: next, byte, high: false, texts: others });
                }
                [(at, texts)] => singles.push(Single { at, byte, high: false, texts }),
                _ => {}
            }
        }
        let nibble_bytes = fixed::nibble_bytes(places);
        Some(Self { len: places.len(), template, digits, numbers, pairs, singles, nibble_bytes, nibbles })
    }

    /// Appends the same text to all values; `None`, and nothing happens, when there is no room.
    pub(crate) fn append(&mut self, text: &[u8]) -> Option<()> {
        let end = self.len + text.len();
        self.template.get_mut(self.len..end)?.copy_from_slice(text);
        self.len = end;
        Some(())
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
        self.write_hex(row, to)
    }

    #[inline]
    fn write_hex(&self, row: usize, to: &mut [u8; ROOM]) -> Option<usize> {
        if self.nibble_bytes > 0 {
            let nibbles = self.nibbles.get(row * self.nibble_bytes..(row + 1) * self.nibble_bytes)?;
            for Pair { at, byte, texts } in &self.pairs {
                *to.get_mut(*at..)?.first_chunk_mut()? = *texts.get(*nibbles.get(*byte)? as usize)?;
            }
            for Single { at, byte, high, texts } in &self.singles {
                let [first, last] = texts.get(*nibbles.get(*byte)? as usize)?;
                *to.get_mut(*at)? = if *high { *first } else { *last };
            }
        }
        Some(self.len)
    }
}

/// The last digits of a number, which change from value to value where the others stay: of times, for one.
const LAST: usize = 4;
const LAST_POWER: u64 = 10_000;

/// Writes values one after the other. What the first digits were is kept, from the second value on that has them.
pub(crate) struct Speller<'b> {
    spelling: Spelling<'b>,
    /// A value that was written, and its number without the last digits.
    kept: [u8; ROOM],
    first: Option<u64>,
    /// The same of the value before.
    before: Option<u64>,
}

impl<'b> Speller<'b> {
    pub(crate) fn new(spelling: Spelling<'b>) -> Self {
        Self { spelling, kept: [0; ROOM], first: None, before: None }
    }

    /// Writes a value; gives its bytes.
    #[inline]
    pub(crate) fn write(&mut self, row: usize, to: &mut [u8; ROOM]) -> Option<usize> {
        let [numbers] = self.spelling.numbers else { return self.spelling.write(row, to) };
        let number = *numbers.get(row)?;
        let first = Some(number / LAST_POWER);
        if first != self.first {
            if first != self.before {
                self.before = first;
                return self.spelling.write(row, to);
            }
            self.spelling.write(row, &mut self.kept)?;
            self.first = first;
        }
        *to = self.kept;
        let mut rest = number % LAST_POWER;
        for (_, at) in self.spelling.digits.iter().take(LAST) {
            *to.get_mut(*at)? = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.spelling.write_hex(row, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_one_after_the_other() {
        let (digit, same) = (Place::Digit, Place::Same(b':'));
        let check = |places: &[Place], numbers: &[Vec<u64>], nibbles: &[u8], rows: usize| {
            let spelling = || Spelling::new(places, numbers, nibbles).unwrap();
            let mut speller = Speller::new(spelling());
            for row in 0..rows {
                let (mut want, mut have) = ([0; ROOM], [0; ROOM]);
                let len = spelling().write(row, &mut want).unwrap();
                assert_eq!(speller.write(row, &mut have), Some(len));
                assert_eq!(have[..len], want[..len], "row {row}");
            }
            assert!(speller.write(rows, &mut [0; ROOM]).is_none());
        };
        let times = [1_234_567, 1_234_567, 1_234_999, 1_239_998, 1_240_001, 1_240_002, 9, 9, 10_009, 1_240_002];
        let places = [digit, digit, same, digit, digit, same, digit, digit, digit];
        check(&places, &[times.to_vec()], &[], times.len());
        check(&[digit, same, digit], &[vec![7, 7, 12, 99, 0, 0]], &[], 6);
        let hex = [digit, Place::Lower, digit, Place::Upper, digit, digit, digit];
        check(&hex, &[vec![12_345, 12_346, 12_347, 1]], &[0x1a, 0xb2, 0xff, 0x00], 4);
        let long = [digit; DIGITS_MAX + 2];
        check(&long, &[vec![1, 1, 1, 99_999], vec![1, 2, 3, 4]], &[], 4);
    }
}
