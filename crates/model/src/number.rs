//! Checks of numbers from outside: a formula sees only finite numbers in its domain.

/// The number if it is finite and not negative; zero without a sign, so that a division gives plus infinity.
pub(crate) fn non_negative(number: f64) -> Option<f64> {
    (number.is_finite() && number >= 0.0).then_some(number.abs())
}

/// The number if it is finite and above zero.
pub(crate) fn positive(number: f64) -> Option<f64> {
    (number.is_finite() && number > 0.0).then_some(number)
}

/// The number if it is a share: from 0 to 1, both included.
pub(crate) fn share(number: f64) -> Option<f64> {
    (0.0..=1.0).contains(&number).then_some(number)
}

/// The point between `lower` and `upper` at which a function that does not fall reaches `target`.
///
/// Halves the interval 100 times, so the result is as exact as an `f64`.
pub(crate) fn crossing(lower: f64, upper: f64, target: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut lower, mut upper) = (lower, upper);
    for _ in 0..100 {
        let middle = lower + (upper - lower) / 2.0;
        if function(middle) < target {
            lower = middle;
        } else {
            upper = middle;
        }
    }
    lower + (upper - lower) / 2.0
}
