//! Decodes byte planes: numbers stored as all lowest bytes, then all second bytes, and so on.
#![deny(clippy::indexing_slicing)]

use std::ops::{BitOrAssign, Shl};

use crate::decode::decoded_numbers::DecodedNumbers;

/// Bytes of planes that fit a difference of [`DecodedNumbers`].
const NEAR_BYTES: usize = 4;

/// The middle of four bytes, from which their values differ by at most an `i32`.
const MIDDLE: u64 = 1 << 31;

fn unzigzag(step: u64) -> u64 {
    (step >> 1) ^ (step & 1).wrapping_neg()
}

/// Decodes numbers; `None` when the planes do not have `count` bytes each.
pub(crate) fn decode(planes: &[u8], count: usize, width: usize, is_delta: bool, base: u64) -> Option<DecodedNumbers> {
    if planes.len() != width.checked_mul(count)? || width > 8 {
        return None;
    }
    if width <= NEAR_BYTES {
        let mut near: Vec<i32> = joined(planes, count);
        match is_delta {
            false if width == NEAR_BYTES => {
                near.iter_mut().for_each(|number| *number ^= i32::MIN);
                return Some(DecodedNumbers::Near(base.wrapping_add(MIDDLE), near));
            }
            false => return Some(DecodedNumbers::Near(base, near)),
            true if add_up(&mut near) => return Some(DecodedNumbers::Near(base, near)),
            true => {}
        }
    }
    let mut numbers: Vec<u64> = joined(planes, count);
    let mut before = base;
    for number in &mut numbers {
        if is_delta {
            before = before.wrapping_add(unzigzag(*number));
            *number = before;
        } else {
            *number = number.wrapping_add(base);
        }
    }
    Some(DecodedNumbers::Far(numbers))
}

/// Joins the bytes of each number. The first plane is written to new memory before the others are added: memory that is read first is
/// mapped twice, and the second time interrupts all other processors.
fn joined<T>(planes: &[u8], count: usize) -> Vec<T>
where
    T: From<u8> + Default + Clone + BitOrAssign + Shl<usize, Output = T>,
{
    let mut planes = planes.chunks_exact(count.max(1));
    let mut joined = Vec::with_capacity(count);
    joined.extend(planes.next().unwrap_or_default().iter().map(|byte| T::from(*byte)));
    joined.resize(count, T::default());
    for (at, plane) in planes.enumerate() {
        for (number, byte) in joined.iter_mut().zip(plane) {
            *number |= T::from(*byte) << ((at + 1) * 8);
        }
    }
    joined
}

/// Replaces steps by their sums; returns whether all sums fit. The steps are lost if not.
fn add_up(steps: &mut [i32]) -> bool {
    let (mut sum, mut fits) = (0_i64, true);
    for step in steps {
        sum += unzigzag(u64::from(*step as u32)) as i64;
        fits &= i32::try_from(sum).is_ok();
        *step = sum as i32;
    }
    fits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The numbers by the format's own words.
    fn decode_simply(planes: &[u8], count: usize, width: usize, is_delta: bool, base: u64) -> Vec<u64> {
        let stored = |row: usize| (0..width).fold(0, |sum, at| sum | u64::from(planes[at * count + row]) << (at * 8));
        let mut before = base;
        let step = |row: usize| {
            before = before.wrapping_add(unzigzag(stored(row)));
            before
        };
        if is_delta {
            (0..count).map(step).collect()
        } else {
            (0..count).map(|row| base.wrapping_add(stored(row))).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn numbers_are_those_of_the_format(
            (count, width) in (0_usize..40, 0_usize..9),
            bytes in prop::collection::vec(any::<u8>(), 320),
            small in any::<bool>(),
            is_delta in any::<bool>(),
            base in any::<u64>(),
        ) {
            let mut planes = bytes[..count * width].to_vec();
            if small {
                // Steps whose sums stay small.
                planes.iter_mut().skip(count).for_each(|byte| *byte = 0);
            }
            let decoded = decode(&planes, count, width, is_delta, base).unwrap();
            let want = decode_simply(&planes, count, width, is_delta, base);
            prop_assert_eq!(decoded.len(), count);
            for (row, number) in want.iter().enumerate() {
                prop_assert_eq!(decoded.get(row), Some(*number));
            }
            prop_assert!(decoded.get(count).is_none());
            let odd = decoded.rows_that(|number| number % 2 == 1);
            for (row, number) in want.iter().enumerate() {
                prop_assert_eq!(odd.contains(row), number % 2 == 1);
            }
        }
    }

    #[test]
    fn missing_bytes_are_damage() {
        assert!(decode(&[1, 2, 3], 2, 2, false, 0).is_none() && decode(&[0; 18], 2, 9, false, 0).is_none());
    }
}
