//! Formats fixed-width values: a template into which digits are written.
#![deny(clippy::indexing_slicing)]

use crate::decimal::ASCII_ZEROS;
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::fixed_width::{self, DIGITS_MAX, FIXED_WIDTH_MAX, PatternByte};

/// The longest formatted value, in bytes, with a suffix.
pub(crate) const FORMATTED_BYTES_MAX: usize = FIXED_WIDTH_MAX;

/// The literal bytes, digits and hexadecimal groups of a fixed-width column.
pub(crate) struct FixedWidthTemplate<'b> {
    len: usize,
    template_bytes: [u8; FORMATTED_BYTES_MAX],
    /// For each decimal digit, from the last: its number and its position.
    digits: Vec<(usize, usize)>,
    numbers: &'b [DecodedNumbers],
    hex_groups: Vec<HexGroup>,
    nibble_bytes: usize,
    nibbles: &'b [u8],
}

/// Hexadecimal digits that are converted together.
struct HexGroup {
    /// The offset of their bytes.
    byte: usize,
    /// The distance of letters from digits, eight bits per digit.
    letter_offsets: u64,
    to: HexTarget,
}

/// Digits of a long group, all with letters of one case.
const LONG_RUN_DIGITS: usize = 32;

/// The positions of the digits.
enum HexTarget {
    /// [`LONG_RUN_DIGITS`] adjacent digits.
    LongRun(usize),
    /// Eight adjacent digits.
    Run(usize),
    /// The index and position of each digit.
    Scattered(Vec<(usize, usize)>),
}

impl HexGroup {
    /// Splits the first group off some digits, whose bytes start at `byte`.
    fn split_first_group(byte: usize, places: &[(usize, u8)]) -> (Self, &[(usize, u8)]) {
        if let Some((long, others)) = places.split_first_chunk::<LONG_RUN_DIGITS>()
            && let [(at, letter), ..] = long
            && long.iter().enumerate().all(|(seen, place)| *place == (at + seen, *letter))
        {
            let letters = u64::from(letter - b'0' - 10);
            return (Self { byte, letter_offsets: letters, to: HexTarget::LongRun(*at) }, others);
        }
        let (some, others) = places.split_at(places.len().min(8));
        (Self::new(byte, some), others)
    }

    /// A group of up to eight digits.
    fn new(byte: usize, places: &[(usize, u8)]) -> Self {
        // The last digit of an odd number is alone in its byte, in the lower bits.
        let which = |seen| seen + usize::from(places.len() % 2 == 1 && seen + 1 == places.len());
        let mut letters = [0; 8];
        for (seen, (_, first)) in places.iter().enumerate() {
            letters.get_mut(which(seen)).into_iter().for_each(|letter| *letter = first - b'0' - 10);
        }
        let to = match places {
            [(first, _), .., (last, _)] if places.len() == 8 && *last == first + 7 => HexTarget::Run(*first),
            _ => HexTarget::Scattered(places.iter().enumerate().map(|(seen, (at, _))| (which(seen), *at)).collect()),
        };
        Self { byte, letter_offsets: u64::from_le_bytes(letters), to }
    }

    #[inline]
    fn write(&self, nibbles: &[u8], to: &mut [u8; FORMATTED_BYTES_MAX]) -> Option<()> {
        let nibbles = nibbles.get(self.byte..)?;
        match &self.to {
            HexTarget::LongRun(at) => {
                let (letter, to) =
                    (self.letter_offsets as u8, to.get_mut(*at..)?.first_chunk_mut::<LONG_RUN_DIGITS>()?);
                let nibbles: &[u8; LONG_RUN_DIGITS / 2] = nibbles.first_chunk()?;
                for (to, byte) in to.as_chunks_mut().0.iter_mut().zip(nibbles) {
                    *to = [hex_digit(byte >> 4, letter), hex_digit(byte & 15, letter)];
                }
            }
            HexTarget::Run(at) => {
                *to.get_mut(*at..)?.first_chunk_mut()? = eight_hex_digits(*nibbles.first_chunk()?, self.letter_offsets);
            }
            HexTarget::Scattered(places) => {
                let mut bytes = [0; 4];
                bytes.iter_mut().zip(nibbles).for_each(|(to, nibble)| *to = *nibble);
                let digits = eight_hex_digits(bytes, self.letter_offsets);
                for (which, at) in places {
                    *to.get_mut(*at)? = *digits.get(*which)?;
                }
            }
        }
        Some(())
    }
}

/// A hexadecimal digit; `letter` is the distance of its letters from digits.
#[inline]
fn hex_digit(nibble: u8, letter: u8) -> u8 {
    nibble + b'0' + if nibble > 9 { letter } else { 0 }
}

/// The eight hexadecimal digits of four bytes.
#[inline]
fn eight_hex_digits(bytes: [u8; 4], letters: u64) -> [u8; 8] {
    let spread = u64::from(u32::from_le_bytes(bytes));
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let digits = ((spread >> 4) & 0x000f_000f_000f_000f) | (spread & 0x000f_000f_000f_000f) << 8;
    let tens = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (digits + ASCII_ZEROS + ((tens * 0xff) & letters)).to_le_bytes()
}

impl<'b> FixedWidthTemplate<'b> {
    pub(crate) fn new(places: &[PatternByte], numbers: &'b [DecodedNumbers], nibbles: &'b [u8]) -> Option<Self> {
        let mut template = [0; FORMATTED_BYTES_MAX];
        let (mut digits, mut hex) = (Vec::new(), Vec::new());
        for (at, place) in places.iter().enumerate() {
            match place {
                PatternByte::Literal(same) => *template.get_mut(at)? = *same,
                PatternByte::Digit => digits.push((digits.len() / DIGITS_MAX, at)),
                PatternByte::LowerHex => hex.push((at, b'a')),
                PatternByte::UpperHex => hex.push((at, b'A')),
            }
        }
        digits.reverse();
        let (mut groups, mut rest) = (Vec::new(), hex.as_slice());
        while !rest.is_empty() {
            let (group, others) = HexGroup::split_first_group((hex.len() - rest.len()) / 2, rest);
            groups.push(group);
            rest = others;
        }
        let nibble_bytes = fixed_width::nibble_bytes(places);
        Some(Self {
            len: places.len(),
            template_bytes: template,
            digits,
            numbers,
            hex_groups: groups,
            nibble_bytes,
            nibbles,
        })
    }

    /// Appends a suffix to all values; `None`, without a change, if it does not fit.
    pub(crate) fn append(&mut self, text: &[u8]) -> Option<()> {
        let end = self.len + text.len();
        self.template_bytes.get_mut(self.len..end)?.copy_from_slice(text);
        self.len = end;
        Some(())
    }

    /// Writes a value and returns its length. Digits are written to their final place: reading bytes back right after they
    /// were written one by one would stall.
    #[inline]
    pub(crate) fn write(&self, row: usize, to: &mut [u8; FORMATTED_BYTES_MAX]) -> Option<usize> {
        *to = self.template_bytes;
        let (mut rest, mut list) = (0, usize::MAX);
        for (number, at) in &self.digits {
            if *number != list {
                list = *number;
                rest = self.numbers.get(list)?.get(row)?;
            }
            *to.get_mut(*at)? = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.write_hex(row, to)
    }

    #[inline]
    fn write_hex(&self, row: usize, to: &mut [u8; FORMATTED_BYTES_MAX]) -> Option<usize> {
        if self.nibble_bytes > 0 {
            let nibbles = self.nibbles.get(row * self.nibble_bytes..(row + 1) * self.nibble_bytes)?;
            self.hex_groups.iter().try_for_each(|group| group.write(nibbles, to))?;
        }
        Some(self.len)
    }
}

/// The last digits of a number, which change from row to row while the others stay, as in times.
const SUFFIX_DIGITS: usize = 4;
const SUFFIX_POWER: u64 = 10_000;

/// Writes the values of consecutive rows. A prefix is cached when it occurs a second time in succession.
pub(crate) struct FixedWidthFormatter<'b> {
    template: FixedWidthTemplate<'b>,
    /// A formatted value, and its number without the last digits.
    cached_value: [u8; FORMATTED_BYTES_MAX],
    cached_prefix: Option<u64>,
    /// The number of the previous value without the last digits.
    previous_prefix: Option<u64>,
}

impl<'b> FixedWidthFormatter<'b> {
    pub(crate) fn new(template: FixedWidthTemplate<'b>) -> Self {
        Self { template, cached_value: [0; FORMATTED_BYTES_MAX], cached_prefix: None, previous_prefix: None }
    }

    /// Writes a value and returns its length.
    #[inline]
    pub(crate) fn write(&mut self, row: usize, to: &mut [u8; FORMATTED_BYTES_MAX]) -> Option<usize> {
        let [numbers] = self.template.numbers else { return self.template.write(row, to) };
        let number = numbers.get(row)?;
        let first = Some(number / SUFFIX_POWER);
        if first != self.cached_prefix {
            if first != self.previous_prefix {
                self.previous_prefix = first;
                return self.template.write(row, to);
            }
            self.template.write(row, &mut self.cached_value)?;
            self.cached_prefix = first;
        }
        *to = self.cached_value;
        let mut rest = number % SUFFIX_POWER;
        for (_, at) in self.template.digits.iter().take(SUFFIX_DIGITS) {
            *to.get_mut(*at)? = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.template.write_hex(row, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_formatting_equals_template_formatting() {
        let (digit, same) = (PatternByte::Digit, PatternByte::Literal(b':'));
        let check = |places: &[PatternByte], numbers: &[Vec<u64>], nibbles: &[u8], rows: usize| {
            let numbers: Vec<DecodedNumbers> = numbers.iter().cloned().map(DecodedNumbers::Far).collect();
            let template = || FixedWidthTemplate::new(places, &numbers, nibbles).unwrap();
            let mut formatter = FixedWidthFormatter::new(template());
            for row in 0..rows {
                let (mut want, mut have) = ([0; FORMATTED_BYTES_MAX], [0; FORMATTED_BYTES_MAX]);
                let len = template().write(row, &mut want).unwrap();
                assert_eq!(formatter.write(row, &mut have), Some(len));
                assert_eq!(have[..len], want[..len], "row {row}");
            }
            assert!(formatter.write(rows, &mut [0; FORMATTED_BYTES_MAX]).is_none());
        };
        let times = [1_234_567, 1_234_567, 1_234_999, 1_239_998, 1_240_001, 1_240_002, 9, 9, 10_009, 1_240_002];
        let places = [digit, digit, same, digit, digit, same, digit, digit, digit];
        check(&places, &[times.to_vec()], &[], times.len());
        check(&[digit, same, digit], &[vec![7, 7, 12, 99, 0, 0]], &[], 6);
        let hex = [digit, PatternByte::LowerHex, digit, PatternByte::UpperHex, digit, digit, digit];
        check(&hex, &[vec![12_345, 12_346, 12_347, 1]], &[0x1a, 0xb2, 0xff, 0x00], 4);
        let long = [digit; DIGITS_MAX + 2];
        check(&long, &[vec![1, 1, 1, 99_999], vec![1, 2, 3, 4]], &[], 4);
    }
    #[test]
    fn hexadecimal_digits_are_written_where_they_belong() {
        let check = |layout: &str, digits: &str| {
            let place = |byte| match byte {
                b'x' => PatternByte::LowerHex,
                b'X' => PatternByte::UpperHex,
                same => PatternByte::Literal(same),
            };
            let places: Vec<PatternByte> = layout.bytes().map(place).collect();
            let nibbles: Vec<u8> = digits.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
            let packed: Vec<u8> =
                nibbles.chunks(2).map(|pair| pair.iter().fold(0, |byte, next| byte << 4 | next)).collect();
            let mut left = digits.bytes();
            let want: Vec<u8> = layout
                .bytes()
                .map(|byte| match byte {
                    b'x' => left.next().unwrap().to_ascii_lowercase(),
                    b'X' => left.next().unwrap().to_ascii_uppercase(),
                    same => same,
                })
                .collect();
            let mut have = [0; FORMATTED_BYTES_MAX];
            let len = FixedWidthTemplate::new(&places, &[], &packed).unwrap().write(0, &mut have);
            assert_eq!((len, &have[..want.len()]), (Some(want.len()), want.as_slice()), "{layout}");
        };
        check("xxxxxxxx", "0189abef");
        check("XXXXXXXX", "0189ABEF");
        check("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "d9428888122b11e1b85c61cd3cbb3210");
        check(&"x".repeat(40), "f9d1b7f8a3c2e4d5061728394a5b6c7d8e9fa0b1");
        check(&"X".repeat(41), "f9d1b7f8a3c2e4d5061728394a5b6c7d8e9fa0b1c");
        check(&format!("[{}]", "x".repeat(32)), "f9d1b7f8a3c2e4d5061728394a5b6c7d");
        check(&"x".repeat(64), &"0123456789abcdef".repeat(4));
        check(&("x".repeat(31) + "X"), "f9d1b7f8a3c2e4d5061728394a5b6c7d");
        check("x", "c");
        check("[xXx]", "abc");
        check("xxxxXXXXx:x", "0a9faf905c");
    }
}
