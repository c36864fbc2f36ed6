//! Decodes byte planes: numbers stored as all lowest bytes, then all second bytes, and so on.

fn unzigzag(step: u64) -> u64 {
    (step >> 1) ^ (step & 1).wrapping_neg()
}

/// Decodes numbers; `None` when the planes do not have `count` bytes each.
pub(crate) fn decode(planes: &[u8], count: usize, width: usize, is_delta: bool, base: u64) -> Option<Vec<u64>> {
    if planes.len() != width.checked_mul(count)? || width > 8 {
        return None;
    }
    let mut numbers = vec![0_u64; count];
    if width > 0 {
        for (at, plane) in planes.chunks_exact(count.max(1)).enumerate() {
            for (number, byte) in numbers.iter_mut().zip(plane) {
                *number |= u64::from(*byte) << (at * 8);
            }
        }
    }
    let mut before = base;
    for number in &mut numbers {
        if is_delta {
            before = before.wrapping_add(unzigzag(*number));
            *number = before;
        } else {
            *number = number.wrapping_add(base);
        }
    }
    Some(numbers)
}
