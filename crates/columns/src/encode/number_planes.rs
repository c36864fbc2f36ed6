//! Encodes numbers as byte planes: differences from the minimum, or deltas.
//!
//! All lowest bytes come first, then all second bytes, and so on, because zstd packs bytes of similar distribution
//! well. One width for the whole column makes decoding a loop without branches.

/// Encoded numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NumberPlanes {
    pub(crate) count: usize,
    /// Whether the numbers are deltas.
    pub(crate) is_delta: bool,
    /// The minimum, or the number before the first delta.
    pub(crate) base: u64,
    /// Bytes per number.
    pub(crate) width: usize,
    pub(crate) planes: Vec<u8>,
}

/// The most numbers in the sample of an estimate.
const SAMPLE_NUMBERS_MAX: usize = 2_048;

/// The fewest numbers whose byte frequencies are counted.
const ENTROPY_NUMBERS_MIN: usize = 64;

fn zigzag(step: u64) -> u64 {
    (step << 1) ^ ((step as i64 >> 63) as u64)
}

fn byte_width(max: u64) -> usize {
    (64 - max.leading_zeros() as usize).div_ceil(8)
}

/// The better encoding of some numbers, and its approximate size after packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeEstimate {
    is_delta: bool,
    pub(crate) bytes: f64,
}

/// Estimates the size of numbers, in two's complement if `signed`.
pub(crate) fn estimate_size(numbers: &[u64], signed: bool) -> SizeEstimate {
    let sample = sample(numbers);
    let base = minimum(sample, signed);
    let plain = entropy_bytes(sample.iter().map(|number| number.wrapping_sub(base)));
    let steps = entropy_bytes(sample.iter().zip(sample.iter().skip(1)).map(|(a, b)| zigzag(b.wrapping_sub(*a))));
    let scale = numbers.len() as f64 / sample.len().max(1) as f64;
    SizeEstimate { is_delta: steps < plain, bytes: plain.min(steps) * scale }
}

fn sample(numbers: &[u64]) -> &[u64] {
    let start = numbers.len().saturating_sub(SAMPLE_NUMBERS_MAX) / 2;
    numbers.get(start..numbers.len().min(start + SAMPLE_NUMBERS_MAX)).unwrap_or_default()
}

fn minimum(numbers: &[u64], signed: bool) -> u64 {
    let flip = u64::from(signed) << 63;
    numbers.iter().map(|number| number ^ flip).min().unwrap_or_default() ^ flip
}

/// The size in bytes by the entropy of each plane.
fn entropy_bytes(numbers: impl Iterator<Item = u64> + Clone) -> f64 {
    let all = numbers.clone().fold(0, |all, number| all | number);
    let count = numbers.clone().count();
    // The frequencies of few numbers are meaningless.
    if count < ENTROPY_NUMBERS_MIN {
        return (count * byte_width(all)) as f64;
    }
    let plane = |plane: usize| {
        let mut counts = [0_u32; 256];
        numbers.clone().for_each(|number| counts[(number >> (plane * 8)) as usize & 0xff] += 1);
        entropy_bits(counts.into_iter(), count as u32)
    };
    (0..byte_width(all)).map(plane).sum::<f64>() / 8.0
}

/// The size in bits by frequencies.
pub(crate) fn entropy_bits(counts: impl Iterator<Item = u32>, total: u32) -> f64 {
    let total = f64::from(total);
    counts.filter(|count| *count > 0).map(|count| f64::from(count) * (total / f64::from(count)).log2()).sum()
}

impl NumberPlanes {
    pub(crate) fn encode(numbers: &[u64], signed: bool, how: SizeEstimate) -> Self {
        let (base, offsets): (u64, Vec<u64>) = if how.is_delta {
            let mut before = numbers.first().copied().unwrap_or_default();
            let base = before;
            let steps =
                numbers.iter().map(|number| zigzag(number.wrapping_sub(std::mem::replace(&mut before, *number))));
            (base, steps.collect())
        } else {
            let base = minimum(numbers, signed);
            (base, numbers.iter().map(|number| number.wrapping_sub(base)).collect())
        };
        let width = byte_width(offsets.iter().fold(0, |all, offset| all | offset));
        let mut planes = Vec::with_capacity(width * numbers.len());
        for plane in 0..width {
            planes.extend(offsets.iter().map(|offset| (offset >> (plane * 8)) as u8));
        }
        Self { count: numbers.len(), is_delta: how.is_delta, base, width, planes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::number_planes::decode;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..300], 0..200), is_delta: bool, signed: bool) {
            let how = SizeEstimate { is_delta, bytes: 0.0 };
            let written = NumberPlanes::encode(&numbers, signed, how);
            let decoded = decode(&written.planes, written.count, written.width, written.is_delta, written.base);
            prop_assert_eq!(decoded.map(|decoded| decoded.iter_from(0).collect::<Vec<u64>>()), Some(numbers));
        }
    }

    #[test]
    fn numbers_of_a_narrow_range_take_a_byte_each() {
        let how = SizeEstimate { is_delta: false, bytes: 0.0 };
        let times: Vec<u64> = (1_700_000_000_000..1_700_000_000_256).collect();
        assert_eq!(NumberPlanes::encode(&times, false, how).width, 1);
        let signed: Vec<u64> = (-100_i64..100).map(i64::cast_unsigned).collect();
        assert_eq!(NumberPlanes::encode(&signed, true, how).width, 1);
    }
}
