//! Finds the places in a line where a time may begin, many bytes at a time.
//!
//! Most lines without a time have many words and few such places. The filter is a handful of comparisons without branches,
//! which the compiler turns into vector instructions.

/// Places that are examined at once, a bit of [`Candidates::block`] each.
const BLOCK: usize = 32;

/// Bytes that decide about a block: the one before it, and three behind its last place.
const EXAMINED: usize = BLOCK + 4;

/// The places in the first bytes of a line but the very first, in ascending order.
///
/// They follow neither a letter nor a digit, and begin like `2026`, `24/`, `24-`, `24 N` or `Nov `. So neither the numbers of an
/// address are candidates, nor those of a version or a fraction.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    line: &'a [u8],
    places: usize,
    /// The offset behind the examined blocks.
    next: usize,
    /// The candidates of the last examined block that were not yet returned.
    block: u32,
}

impl<'a> Candidates<'a> {
    /// Those in the first `places` bytes.
    pub(super) fn new(line: &'a [u8], places: usize) -> Self {
        Self { line, places: places.min(line.len()), next: 1, block: 0 }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.block == 0 {
            if self.next >= self.places {
                return None;
            }
            self.block = examine(self.line, self.next);
            self.next += BLOCK;
        }
        let at = self.next - BLOCK + self.block.trailing_zeros() as usize;
        self.block &= self.block - 1;
        (at < self.places).then_some(at)
    }
}

/// The candidates among the [`BLOCK`] places from an offset on, which is not 0.
fn examine(line: &[u8], from: usize) -> u32 {
    let rest = line.get(from - 1..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return examine_bytes(bytes);
    }
    // Neither a letter nor a digit is behind the line.
    let mut bytes = [0; EXAMINED];
    if let Some(copied) = bytes.get_mut(..rest.len()) {
        copied.copy_from_slice(rest);
    }
    examine_bytes(&bytes)
}

fn examine_bytes(bytes: &[u8; EXAMINED]) -> u32 {
    let mut flags = [0_u8; BLOCK];
    let [before, first, second, third, fourth] =
        [0, 1, 2, 3, 4].map(|at| bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>));
    let (Some(before), Some(first), Some(second), Some(third)) = (before, first, second, third) else { return 0 };
    let Some(fourth) = fourth else { return 0 };
    let all = flags.iter_mut().zip(before).zip(first).zip(second).zip(third).zip(fourth);
    for (((((flag, before), first), second), third), fourth) in all {
        let is_inside_word = is_digit(*before) | is_lower(*before | 0x20);
        let is_year = is_digit(*third) & is_digit(*fourth);
        let is_day = (*third == b'/') | (*third == b'-') | ((*third == b' ') & (*fourth >= b'A'));
        let is_number = is_digit(*first) & is_digit(*second) & (is_year | is_day);
        *flag = u8::from(!is_inside_word & (is_number | (is_upper(*first) & (*fourth == b' '))));
    }
    let (eights, _) = flags.as_chunks::<8>();
    // The product has the lowest bits of the eight bytes side by side in its highest byte.
    let bits = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    bits.rev().fold(0, |mask, bits| mask << 8 | bits as u32)
}

fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

fn is_lower(byte: u8) -> bool {
    byte.wrapping_sub(b'a') < 26
}

fn is_upper(byte: u8) -> bool {
    byte.wrapping_sub(b'A') < 26
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
            let is_day = b"/-".contains(&byte(at + 2)) || byte(at + 2) == b' ' && byte(at + 3) >= b'A';
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
