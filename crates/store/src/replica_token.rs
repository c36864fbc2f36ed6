//! What tells a store whether its replicated records are still those that it reported.

use std::fmt;
use std::str::FromStr;

use bucksaw_segment::stored::IdSum;

/// The replicated records of a range of time in one process of a store, as text in the messages of other nodes.
///
/// Its text is `START-REMOVALS-DAMAGED-SUM`: start and sum in hexadecimal, the others as decimal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaToken {
    /// A random number of the process.
    pub(crate) start: u64,
    /// Segments that it has removed since.
    pub(crate) removals: u64,
    /// Damaged blocks in the range.
    pub(crate) damaged_blocks: u64,
    /// The sum of all ids in the range that are compared.
    pub(crate) sum: IdSum,
}

impl ReplicaToken {
    /// Whether the store has lost no record since an earlier token.
    pub(crate) fn has_all_of(&self, earlier: &Self) -> bool {
        let losses = |token: &Self| (token.start, token.removals, token.damaged_blocks);
        losses(self) == losses(earlier)
    }
}

impl fmt::Display for ReplicaToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, removals, damaged_blocks, sum } = self;
        write!(f, "{start:016x}-{removals}-{damaged_blocks}-{:x}", sum.0)
    }
}

/// The text is not that of a token.
#[derive(Debug)]
pub(crate) struct InvalidReplicaToken;

impl FromStr for ReplicaToken {
    type Err = InvalidReplicaToken;

    fn from_str(text: &str) -> Result<Self, InvalidReplicaToken> {
        let parts: Vec<&str> = text.split('-').collect();
        let [start, removals, damaged_blocks, sum] = parts.as_slice() else { return Err(InvalidReplicaToken) };
        Ok(Self {
            start: u64::from_str_radix(start, 16).map_err(|_| InvalidReplicaToken)?,
            removals: removals.parse().map_err(|_| InvalidReplicaToken)?,
            damaged_blocks: damaged_blocks.parse().map_err(|_| InvalidReplicaToken)?,
            sum: IdSum(u128::from_str_radix(sum, 16).map_err(|_| InvalidReplicaToken)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_round_trip(start: u64, removals: u64, damaged_blocks: u64, sum: u128, other: u128, text in "[0-9a-f-]{0,60}") {
            let token = ReplicaToken { start, removals, damaged_blocks, sum: IdSum(sum) };
            prop_assert_eq!(token.to_string().parse::<ReplicaToken>().unwrap(), token);
            let more = ReplicaToken { sum: IdSum(other), ..token };
            let losses = [
                ReplicaToken { removals: removals.wrapping_add(1), ..token },
                ReplicaToken { damaged_blocks: damaged_blocks ^ 1, ..token },
                ReplicaToken { start: start ^ 1, ..token },
            ];
            prop_assert!(more.has_all_of(&token) && !losses.iter().any(|later| later.has_all_of(&token)));
            let _ = text.parse::<ReplicaToken>();
        }
    }
}
