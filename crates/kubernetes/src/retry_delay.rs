//! The delay before another attempt.

use std::time::Duration;

/// The delay after this number of failures in a row: it doubles from `min` up to `max`. Half of it is random, so that the agents
/// of a cluster do not connect at once to a server that has restarted.
pub(crate) fn retry_delay(failures: u32, (min, max): (Duration, Duration), random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = min.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(max);
    full.mul_f64(0.5 + random as f64 / u64::MAX as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_limit() {
        let limits = (Duration::from_millis(500), Duration::from_secs(30));
        let delays =
            |random| [0, 1, 2, 3, 7, 8, u32::MAX].map(|failures| retry_delay(failures, limits, random).as_millis());
        assert_eq!(delays(u64::MAX), [500, 500, 1_000, 2_000, 30_000, 30_000, 30_000]);
        assert_eq!(delays(0), [250, 250, 500, 1_000, 15_000, 15_000, 15_000]);
    }
}
