//! Values that are numbers, or made of numbers at fixed places.

use crate::encode::Node;
use crate::fixed::{self, Place};
use crate::numbers::{self, Estimate, Numbers};
use crate::values::Values;

/// Values as numbers.
pub(crate) enum Numeric {
    Integers(Vec<u64>),
    Fixed { places: Vec<Place>, numbers: Vec<Vec<u64>>, nibbles: Vec<u8> },
}

/// How they are best written.
pub(crate) struct How {
    estimates: Vec<Estimate>,
    nibbles: usize,
}

impl How {
    /// About how many bytes they take then.
    pub(crate) fn bytes(&self) -> f64 {
        self.estimates.iter().map(|estimate| estimate.bytes).sum::<f64>() + self.nibbles as f64
    }
}

impl Numeric {
    /// The numbers of the values; `None` when one of them has none.
    pub(crate) fn of(values: Values<'_>) -> Option<Self> {
        if !values.get(0).last().is_some_and(u8::is_ascii_hexdigit) {
            return None;
        }
        if let Some(integers) = values.iter().map(fixed::integer).collect() {
            return Some(Self::Integers(integers));
        }
        let places = fixed::places(values)?;
        let (numbers, nibbles) = fixed::split(values, &places);
        Some(Self::Fixed { places, numbers, nibbles })
    }

    /// Those of rows that have these values.
    pub(crate) fn expand(&self, ids: &[u32]) -> Self {
        let expand = |numbers: &Vec<u64>| ids.iter().map(|id| numbers[*id as usize]).collect();
        match self {
            Self::Integers(integers) => Self::Integers(expand(integers)),
            Self::Fixed { places, numbers, nibbles } => {
                let width = fixed::nibble_bytes(places);
                let nibbles = ids.iter().flat_map(|id| &nibbles[*id as usize * width..][..width]).copied().collect();
                Self::Fixed { places: places.clone(), numbers: numbers.iter().map(expand).collect(), nibbles }
            }
        }
    }

    pub(crate) fn estimate(&self) -> How {
        match self {
            Self::Integers(integers) => How { estimates: vec![numbers::estimate(integers, true)], nibbles: 0 },
            Self::Fixed { numbers, nibbles, .. } => How {
                estimates: numbers.iter().map(|numbers| numbers::estimate(numbers, false)).collect(),
                nibbles: nibbles.len(),
            },
        }
    }

    pub(crate) fn node(self, how: &How) -> Node {
        let mut estimates = how.estimates.iter().copied();
        let mut encode = |numbers: &[u64], signed| {
            let how = estimates.next().unwrap_or_else(|| numbers::estimate(numbers, signed));
            Numbers::encode(numbers, signed, how)
        };
        match self {
            Self::Integers(integers) => Node::Integers(encode(&integers, true)),
            Self::Fixed { places, numbers, nibbles } => {
                let numbers = numbers.iter().map(|numbers| encode(numbers, false)).collect();
                Node::Fixed { places, numbers, nibbles }
            }
        }
    }
}
