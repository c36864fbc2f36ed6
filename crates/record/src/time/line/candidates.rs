//! Finds the places in a line where a time may begin, many bytes at a time.
//!
//! Most lines without a time have many words and few such places. Each class of bytes is a bitmap of 64 bytes of the line, and a
//! few shifts of these bitmaps say where a time may begin.

use wide::i8x16;

/// Bytes that are examined at once, a bit of [`Candidates::window`] each.
const WINDOW_BYTES: usize = 64;

/// Bytes before and behind a place that decide about it.
const BYTES_BEFORE: usize = 1;
const BYTES_BEHIND: usize = 3;

/// The places of a window whose surroundings are in it too.
pub(super) const WINDOW_PLACES: usize = WINDOW_BYTES - BYTES_BEFORE - BYTES_BEHIND;

/// The places in the first bytes of a line but the very first, in ascending order.
///
/// They follow neither a letter nor a digit, and begin like `2026`, `24/`, `24-`, `24 N` or `Nov `. So neither the numbers of an
/// address are candidates, nor those of a version or a fraction.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    line: &'a [u8],
    places: usize,
    /// The offset behind the examined places.
    next: usize,
    /// The candidates of the last window that were not yet returned; its first place is bit 0.
    window: u64,
}

impl<'a> Candidates<'a> {
    /// Those in the first `places` bytes.
    pub(super) fn new(line: &'a [u8], places: usize) -> Self {
        Self { line, places: places.min(line.len()), next: 1, window: 0 }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.window == 0 {
            if self.next >= self.places {
                return None;
            }
            self.window = examine(self.line, self.next);
            self.next += WINDOW_PLACES;
        }
        let at = self.next - WINDOW_PLACES + self.window.trailing_zeros() as usize;
        self.window &= self.window - 1;
        (at < self.places).then_some(at)
    }
}

/// The candidates among the [`WINDOW_PLACES`] places from an offset on, which is not 0.
fn examine(line: &[u8], from: usize) -> u64 {
    let rest = line.get(from - BYTES_BEFORE..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return examine_window(bytes);
    }
    // Neither a letter nor a digit is behind the line.
    let mut bytes = [0; WINDOW_BYTES];
    if let Some(copied) = bytes.get_mut(..rest.len()) {
        copied.copy_from_slice(rest);
    }
    examine_window(&bytes)
}

fn examine_window(bytes: &[u8; WINDOW_BYTES]) -> u64 {
    let digits = bitmap(bytes, |bytes| is_between(bytes, b'0', b'9'));
    let uppercase = bitmap(bytes, |bytes| is_between(bytes, b'A', b'Z'));
    // The byte behind a place has the next higher bit.
    let two_digits = digits & digits >> 1;
    if two_digits | uppercase == 0 {
        return 0;
    }
    let lowercase = bitmap(bytes, |bytes| is_between(bytes, b'a', b'z'));
    let separators = bitmap(bytes, |bytes| is(bytes, b'/') | is(bytes, b'-'));
    let spaces = bitmap(bytes, |bytes| is(bytes, b' '));
    let is_year = two_digits >> 2;
    let is_day = separators >> 2 | spaces >> 2 & (uppercase | lowercase) >> 3;
    let is_month = uppercase & spaces >> 3;
    let is_inside_word = (digits | uppercase | lowercase) << 1;
    let candidates = !is_inside_word & (two_digits & (is_year | is_day) | is_month);
    candidates >> BYTES_BEFORE & ((1 << WINDOW_PLACES) - 1)
}

/// One bit per byte of a class.
#[inline]
fn bitmap(bytes: &[u8; WINDOW_BYTES], is_in_class: impl Fn(i8x16) -> i8x16) -> u64 {
    let (vectors, _) = bytes.as_chunks::<16>();
    let mask = |vector: &[u8; 16]| u64::from(is_in_class(i8x16::new(vector.map(u8::cast_signed))).to_bitmask());
    vectors.iter().enumerate().fold(0, |all, (number, vector)| all | mask(vector) << (number * 16))
}

#[inline]
fn is(bytes: i8x16, byte: u8) -> i8x16 {
    bytes.simd_eq(i8x16::splat(byte.cast_signed()))
}

/// Whether bytes are between two of ASCII, inclusive. As signed numbers all bytes beyond ASCII are less than these.
#[inline]
fn is_between(bytes: i8x16, first: u8, last: u8) -> i8x16 {
    let before_first = i8x16::splat(first.cast_signed() - 1);
    let behind_last = i8x16::splat(last.cast_signed() + 1);
    bytes.simd_gt(before_first) & behind_last.simd_gt(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, place by place.
    fn places(line: &[u8], places: usize) -> Vec<usize> {
        let byte = |at: usize| line.get(at).copied().unwrap_or(0);
        let is_candidate = |at: &usize| {
            let digit = |ahead: usize| byte(at + ahead).is_ascii_digit();
            let is_day = b"/-".contains(&byte(at + 2)) || byte(at + 2) == b' ' && byte(at + 3).is_ascii_alphabetic();
            let is_number = digit(0) && digit(1) && (digit(2) && digit(3) || is_day);
            let is_inside_word = at.checked_sub(1).is_some_and(|before| byte(before).is_ascii_alphanumeric());
            !is_inside_word && (is_number || byte(*at).is_ascii_uppercase() && byte(at + 3) == b' ')
        };
        (1..places.min(line.len())).filter(is_candidate).collect()
    }

    proptest! {
        #[test]
        fn all_candidates_are_found(line in "[0-9]{0,3}([a-c]|[N-P]ov 1|[0-9]|[ /:\\[-]|é){0,160}", max in 0_usize..140) {
            let found: Vec<usize> = Candidates::new(line.as_bytes(), max).collect();
            prop_assert_eq!(found, places(line.as_bytes(), max), "{}", line);
        }
    }

    #[test]
    fn the_last_places_of_a_block_and_of_a_line_count() {
        for before in 1..100 {
            let line = [" ".repeat(before).as_bytes(), b"2026"].concat();
            assert_eq!(Candidates::new(&line, 128).collect::<Vec<_>>(), [before]);
            assert_eq!(Candidates::new(&line, before).count(), 0);
        }
    }
}
