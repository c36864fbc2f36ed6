//! Decodes byte planes: numbers stored as all lowest bytes, then all second bytes, and so on.

fn unzigzag(step: u64) -> u64 {
    (step >> 1) ^ (step & 1).wrapping_neg()
}

/// Numbers that are decoded at once. They stay in the fastest cache until they are complete, and the memory of the result is
/// written once: the first write to a page of zeros that was read before costs a second fault.
const BATCH: usize = 512;

/// Decodes numbers; `None` when the planes do not have `count` bytes each.
pub(crate) fn decode(planes: &[u8], count: usize, width: usize, is_delta: bool, base: u64) -> Option<Vec<u64>> {
    if planes.len() != width.checked_mul(count)? || width > 8 {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    let (mut batch, mut before) = ([0_u64; BATCH], base);
    while numbers.len() < count {
        let batch = batch.get_mut(..(count - numbers.len()).min(BATCH))?;
        batch.fill(0);
        for at in 0..width {
            let plane = planes.get(at * count + numbers.len()..)?;
            for (number, byte) in batch.iter_mut().zip(plane) {
                *number |= u64::from(*byte) << (at * 8);
            }
        }
        for number in batch.iter_mut() {
            if is_delta {
                before = before.wrapping_add(unzigzag(*number));
                *number = before;
            } else {
                *number = number.wrapping_add(base);
            }
        }
        numbers.extend_from_slice(batch);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_byte_of_each_plane() {
        for count in [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 7] {
            let plane = |factor: usize| (0..count).map(move |row| (row * factor % 251) as u8);
            let planes: Vec<u8> = [3, 7, 11].into_iter().flat_map(plane).collect();
            let stored = |row: usize| {
                [3, 7, 11].iter().rev().fold(0, |number, factor| number << 8 | (row * factor % 251) as u64)
            };
            let plain: Vec<u64> = (0..count).map(|row| stored(row).wrapping_add(5)).collect();
            assert_eq!(decode(&planes, count, 3, false, 5), Some(plain));
            let deltas = (0..count).scan(5_u64, |before, row| {
                *before = before.wrapping_add(unzigzag(stored(row)));
                Some(*before)
            });
            assert_eq!(decode(&planes, count, 3, true, 5), Some(deltas.collect()));
            assert_eq!(decode(&[], count, 0, true, 9), Some(vec![9; count]));
            assert_eq!(decode(&planes, count + 1, 3, true, 5), None);
        }
    }
}
