//! Columns of integers and of fixed-width values.

use crate::decimal::parse_integer;
use crate::encode::digit_pattern::{common_pattern, extract_digits};
use crate::encode::encoded_column::EncodedColumn;
use crate::encode::number_planes::{self, NumberPlanes, SizeEstimate};
use crate::encode::values::Values;
use crate::fixed_width::{self, PatternByte};

/// Values as numbers.
pub(crate) enum NumericValues {
    Integers(Vec<u64>),
    Fixed { pattern: Vec<PatternByte>, numbers: Vec<Vec<u64>>, nibbles: Vec<u8> },
}

/// The better encoding of each list of numbers.
pub(crate) struct NumericEstimate {
    estimates: Vec<SizeEstimate>,
    nibbles: usize,
}

impl NumericEstimate {
    /// The approximate size in bytes after packing.
    pub(crate) fn bytes(&self) -> f64 {
        self.estimates.iter().map(|estimate| estimate.bytes).sum::<f64>() + self.nibbles as f64
    }
}

impl NumericValues {
    /// The numbers of the values; `None` if the values are neither integers nor fixed-width.
    pub(crate) fn parse(values: Values<'_>) -> Option<Self> {
        if !values.get(0).last().is_some_and(u8::is_ascii_hexdigit) {
            return None;
        }
        if let Some(integers) = values.iter().map(parse_integer).collect() {
            return Some(Self::Integers(integers));
        }
        let pattern = common_pattern(values)?;
        let (numbers, nibbles) = extract_digits(values, &pattern);
        Some(Self::Fixed { pattern, numbers, nibbles })
    }

    /// The numbers of rows with these codes.
    pub(crate) fn expand(&self, ids: &[u32]) -> Self {
        let expand = |numbers: &Vec<u64>| ids.iter().map(|id| numbers[*id as usize]).collect();
        match self {
            Self::Integers(integers) => Self::Integers(expand(integers)),
            Self::Fixed { pattern, numbers, nibbles } => {
                let width = fixed_width::nibble_bytes(pattern);
                let nibbles = ids.iter().flat_map(|id| &nibbles[*id as usize * width..][..width]).copied().collect();
                Self::Fixed { pattern: pattern.clone(), numbers: numbers.iter().map(expand).collect(), nibbles }
            }
        }
    }

    pub(crate) fn estimate(&self) -> NumericEstimate {
        match self {
            Self::Integers(integers) => {
                NumericEstimate { estimates: vec![number_planes::estimate_size(integers, true)], nibbles: 0 }
            }
            Self::Fixed { numbers, nibbles, .. } => NumericEstimate {
                estimates: numbers.iter().map(|numbers| number_planes::estimate_size(numbers, false)).collect(),
                nibbles: nibbles.len(),
            },
        }
    }

    pub(crate) fn encode(self, how: &NumericEstimate) -> EncodedColumn {
        let mut estimates = how.estimates.iter().copied();
        let mut encode = |numbers: &[u64], signed| {
            let how = estimates.next().unwrap_or_else(|| number_planes::estimate_size(numbers, signed));
            NumberPlanes::encode(numbers, signed, how)
        };
        match self {
            Self::Integers(integers) => EncodedColumn::Integers(encode(&integers, true)),
            Self::Fixed { pattern, numbers, nibbles } => {
                let numbers = numbers.iter().map(|numbers| encode(numbers, false)).collect();
                EncodedColumn::Fixed { pattern, numbers, nibbles }
            }
        }
    }
}
