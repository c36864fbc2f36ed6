//! Finds the rate at which a mean time is twice that of an idle node, from few measurements.

/// The factor between rates until one below and one above the knee are known.
const STEP: f64 = 1.5;

/// A search. Each measurement is a rate and the mean time at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct KneeSearch {
    /// Twice the mean time without load.
    limit: f64,
    /// The rate to measure next.
    next: f64,
    /// The highest rate below the limit, with its time.
    below: Option<(f64, f64)>,
    /// The lowest rate at or above the limit, with its time.
    above: Option<(f64, f64)>,
}

impl KneeSearch {
    /// A search that measures `first` first. `idle` is the mean time without load.
    pub(super) const fn new(idle: f64, first: f64) -> Self {
        Self { limit: 2.0 * idle, next: first, below: None, above: None }
    }

    /// The rate to measure next.
    pub(super) const fn next(&self) -> f64 {
        self.next
    }

    /// Takes the mean time at [`Self::next`].
    pub(super) fn add(&mut self, time: f64) {
        // The next rate is always between those of both sides, so it is the nearest one of its side.
        let side = if time < self.limit { &mut self.below } else { &mut self.above };
        *side = Some((self.next, time));
        self.next = match (self.below, self.above) {
            (Some((below, _)), Some((above, _))) => f64::midpoint(below, above),
            (Some((below, _)), None) => below * STEP,
            (None, Some((above, _))) => above / STEP,
            (None, None) => self.next,
        };
    }

    /// The knee, by linear interpolation between the nearest rates; `None` if a rate below or above it is not known.
    pub(super) fn knee(&self) -> Option<f64> {
        let ((below, low), (above, high)) = (self.below?, self.above?);
        Some(below + (above - below) * (self.limit - low) / (high - low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean response of a shared processor.
    fn response(rate: f64, capacity: f64) -> f64 {
        if rate < capacity { 1.0 / (1.0 - rate / capacity) } else { 100.0 }
    }

    #[test]
    fn the_knee_of_a_shared_processor_is_half_of_its_capacity() {
        for first in [2.0, 40.0, 50.0, 70.0, 300.0] {
            let mut search = KneeSearch::new(1.0, first);
            for _ in 0..10 {
                search.add(response(search.next(), 100.0));
            }
            let knee = search.knee().unwrap();
            assert!((knee / 50.0 - 1.0).abs() < 0.1, "from {first}: {knee}");
        }
    }

    #[test]
    fn six_rates_are_enough_near_the_knee() {
        for first in [35.0, 60.0, 80.0] {
            let mut search = KneeSearch::new(1.0, first);
            for _ in 0..6 {
                search.add(response(search.next(), 100.0));
            }
            let knee = search.knee().unwrap();
            assert!((knee / 50.0 - 1.0).abs() < 0.03, "from {first}: {knee}");
        }
    }

    #[test]
    fn a_knee_that_was_not_passed_is_not_known() {
        let mut search = KneeSearch::new(1.0, 10.0);
        search.add(1.1);
        assert_eq!((search.knee(), search.next()), (None, 15.0));
        search.add(2.6);
        assert_eq!((search.knee(), search.next()), (Some(13.0), 12.5));
        search.add(2.1);
        assert_eq!(search.next(), f64::midpoint(10.0, 12.5));
    }
}
