//! Medians and percentiles.

use std::time::Duration;

/// The median, with the mean of the two middle values; NaN if empty.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
}

/// A percentile in milliseconds; NaN if empty.
pub(crate) fn percentile_ms(times: &[Duration], of_hundred: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let rank = (times.len() as f64 * of_hundred / 100.0).ceil() as usize;
    times.get(rank.saturating_sub(1)).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&times, 50.0), 100.0);
        assert_eq!(percentile_ms(&times, 99.0), 198.0);
        assert_eq!(percentile_ms(&times, 100.0), 200.0);
        assert!(percentile_ms(&[], 50.0).is_nan());
    }
}
