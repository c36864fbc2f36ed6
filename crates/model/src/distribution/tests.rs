//! Distributions against their known moments and quantiles, and operations against random numbers.

use proptest::prelude::*;

use super::*;
use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

fn exponential(mean: f64) -> Distribution {
    Distribution::exponential(mean).unwrap()
}

/// Compares with a sample of random times.
fn check(name: &str, distribution: &Distribution, sample: impl FnMut(usize) -> f64, tolerance: f64) {
    let mut values: Vec<f64> = (0..300_000).map(sample).collect();
    assert_near(&format!("{name}, mean"), distribution.mean(), mean(&values), tolerance);
    for probability in [0.1, 0.5, 0.9, 0.99] {
        let want = quantile(&mut values, probability);
        assert_near(&format!("{name}, quantile {probability}"), distribution.quantile(probability), want, tolerance);
        let tail = distribution.tail(want);
        assert!((tail - 1.0 + probability).abs() < 0.01, "{name}, tail at {probability}: {tail}");
    }
}

#[test]
fn shapes_have_their_moments_and_quantiles() {
    for mean in [3e-4, 0.01, 0.7, 5.0] {
        let times = exponential(mean);
        assert_near("exponential, mean", times.mean(), mean, 1e-4);
        assert_near("exponential, second moment", times.second_moment(), 2.0 * mean * mean, 1e-3);
        for probability in [0.01_f64, 0.5, 0.9, 0.99, 0.999_99] {
            let exact = -mean * (1.0 - probability).ln();
            assert_near("exponential, quantile", times.quantile(probability), exact, 5e-3);
            assert_near("exponential, tail", times.tail(exact), 1.0 - probability, 0.03);
        }
        for variation in [0.02, 0.1, 0.5, 1.0, 3.0] {
            let times = Distribution::lognormal(mean, variation).unwrap();
            let tolerance = 2e-3;
            assert_near("lognormal, mean", times.mean(), mean, tolerance);
            let want = mean * mean * (1.0 + variation * variation);
            assert_near(&format!("lognormal {variation}, second moment"), times.second_moment(), want, 0.004);
        }
        let times = Distribution::uniform(mean, 3.0 * mean).unwrap();
        assert_near("uniform, mean", times.mean(), 2.0 * mean, 1e-3);
        assert_near("uniform, quantile", times.quantile(0.75), 2.5 * mean, 1e-2);
        let times = Distribution::constant(mean).unwrap();
        assert_near("constant, mean", times.mean(), mean, 1e-12);
        assert!(times.variation() < 0.02);
        for probability in [0.0, 0.01, 0.5, 0.99, 1.0] {
            assert_near("constant, quantile", times.quantile(probability), mean, 0.055);
        }
    }
}

#[test]
fn operations_equal_those_on_random_numbers() {
    let mut random = OracleRandom::new(31);
    let (fast, slow) = (exponential(0.01), Distribution::lognormal(0.05, 1.0).unwrap());
    check("sum", &fast.plus(&slow), |_| random.exponential(0.01) + random.lognormal(0.05, 1.0), 0.01);
    check("sum of equals", &fast.plus(&fast), |_| random.exponential(0.01) + random.exponential(0.01), 0.01);
    let far = exponential(1e-6).plus(&exponential(1.0));
    assert_near("sum of far times", far.mean(), 1.000_001, 1e-4);
    let mixture = Distribution::mixture(&[(3.0, &fast), (1.0, &slow)]).unwrap();
    let sample = |_| if random.unit() < 0.75 { random.exponential(0.01) } else { random.lognormal(0.05, 1.0) };
    check("mixture", &mixture, sample, 0.015);
    for count in [1_u32, 3, 20] {
        let slowest = |_| (0..count).map(|_| random.exponential(0.01)).fold(0.0, f64::max);
        check(&format!("slowest of {count}"), &fast.slowest_of(count), slowest, 0.01);
    }
    check("scaled", &slow.scaled(0.37).unwrap(), |_| 0.37 * random.lognormal(0.05, 1.0), 0.01);
    check("residual", &fast.residual(), |_| random.exponential(0.01), 0.01);
    let uniform = Distribution::constant(0.02).unwrap().residual();
    check("residual of a constant", &uniform, |_| 0.02 * random.unit(), 0.02);
    let geometric = |_| {
        let mut sum = 0.0;
        while random.unit() < 0.6 {
            sum += random.exponential(0.01);
        }
        sum
    };
    let mut values: Vec<f64> = (0..300_000).map(geometric).collect();
    let sum = fast.geometric_sum(0.6).unwrap();
    assert_near("geometric sum, mean", sum.mean(), mean(&values), 0.01);
    assert_near("geometric sum, quantile", sum.quantile(0.99), quantile(&mut values, 0.99), 0.02);
    assert_eq!(sum.quantile(0.3), 0.0);
}

#[test]
fn means_stay_exact_over_many_operations() {
    let mut sum = Distribution::constant(0.0).unwrap();
    for _ in 0..100 {
        sum = sum.plus(&Distribution::constant(0.001_37).unwrap());
    }
    assert_near("sum of 100 constants, mean", sum.mean(), 0.137, 1e-9);
    assert!(sum.variation() < 0.12, "{sum:?}");
    let times = Distribution::lognormal(0.02, 2.0).unwrap();
    let residual = times.second_moment() / (2.0 * times.mean());
    assert_near("residual, mean", times.residual().mean(), residual, 1e-9);
}

#[test]
fn histograms_give_the_distribution_of_their_values() {
    let mut random = OracleRandom::new(33);
    let mut values: Vec<f64> = (0..200_000).map(|_| random.lognormal(0.02, 1.0)).collect();
    let bounds: Vec<f64> =
        (0..30).map(|at| 1e-4 * 2_f64.powf(f64::from(at) / 2.0)).chain([10.0, f64::INFINITY]).collect();
    let cumulative: Vec<f64> =
        bounds.iter().map(|bound| values.iter().filter(|value| *value <= bound).count() as f64).collect();
    let times = Distribution::from_cumulative_histogram(&bounds, &cumulative).unwrap();
    assert_near("histogram, mean", times.mean(), mean(&values), 0.02);
    let exact = Distribution::from_values(&values).unwrap();
    assert_near("values, mean", exact.mean(), mean(&values), 1e-9);
    for probability in [0.5, 0.9, 0.99] {
        let want = quantile(&mut values, probability);
        assert_near("histogram, quantile", times.quantile(probability), want, 0.06);
        assert_near("values, quantile", exact.quantile(probability), want, 0.01);
    }
    let check = |bounds: &[f64], counts: &[f64]| Distribution::from_histogram(bounds, counts).map(|times| times.mean());
    assert_eq!(check(&[1.0], &[]), Err(HistogramError::Lengths));
    assert_eq!(check(&[1.0, 1.0], &[1.0, 1.0]), Err(HistogramError::Bounds));
    assert_eq!(check(&[f64::INFINITY, 1.0], &[1.0, 1.0]), Err(HistogramError::Bounds));
    assert_eq!(check(&[1.0, 2.0], &[1.0, -1.0]), Err(HistogramError::Counts));
    assert_eq!(check(&[1.0, f64::INFINITY], &[0.0, 9.0]), Err(HistogramError::Empty));
    assert_eq!(Distribution::from_cumulative_histogram(&[1.0, 2.0], &[2.0, 1.0]).err(), Some(HistogramError::Counts));
    assert!((check(&[1.0], &[4.0]).unwrap() - 0.5).abs() < 1e-3);
}

/// The properties that every distribution has.
fn assert_sound(times: &Distribution) {
    let (mean, variation) = (times.mean(), times.variation());
    assert!((0.0..=SECONDS_MAX * 1.000_001).contains(&mean) && variation.is_finite(), "{mean} {variation}");
    let mass: f64 = times.iter().map(|(_, mass)| mass).sum();
    assert!((mass - 1.0).abs() < 1e-9 && times.iter().all(|(_, mass)| mass >= 0.0), "{mass}");
    let quantiles = [f64::NEG_INFINITY, 0.0, 0.3, 0.99, 1.0, f64::NAN].map(|at| times.quantile(at));
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    let tails = [f64::NAN, -1.0, 0.0, 1e-9, 1e-3, 1.0, 1e6, f64::INFINITY].map(|at| times.tail(at));
    assert!(tails.iter().rev().is_sorted() && tails.iter().all(|tail| (0.0..=1.0).contains(tail)), "{tails:?}");
}

#[test]
fn odd_numbers_give_an_error_or_a_sound_distribution() {
    let mut made = Vec::new();
    for a in ODD_NUMBERS {
        made.extend([Distribution::constant(a).ok(), Distribution::exponential(a).ok()]);
        made.push(Distribution::from_values(&[a, 0.3]).ok());
        made.push(exponential(0.1).geometric_sum(a));
        made.push(exponential(0.1).scaled(a).ok());
        for b in ODD_NUMBERS {
            made.extend([Distribution::lognormal(a, b).ok(), Distribution::uniform(a, b).ok()]);
            made.push(Distribution::from_histogram(&[a, b], &[b, a]).ok());
            made.push(Distribution::mixture(&[(a, &exponential(0.1)), (b, &exponential(1.0))]).ok());
        }
    }
    let made: Vec<Distribution> = made.into_iter().flatten().collect();
    assert!(made.len() > 50, "{}", made.len());
    for times in &made {
        assert_sound(times);
        assert_sound(&times.residual());
        assert_sound(&times.slowest_of(u32::MAX));
        assert_sound(&times.plus(&made[7]));
    }
    assert_eq!(Distribution::from_values(&[]).err(), Some(DistributionError::Empty));
    assert_eq!(Distribution::mixture(&[]).err(), Some(DistributionError::Empty));
    assert_eq!(exponential(1.0).slowest_of(0).mean(), 0.0);
    assert_eq!(Distribution::slowest(&[]).mean(), 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_floats_give_an_error_or_a_sound_distribution(
        a in any::<f64>(), b in any::<f64>(), exponent in -9_f64..6.0, factor in 0_f64..4.0,
        bounds in proptest::collection::vec(any::<f64>(), 0..5), counts in proptest::collection::vec(0_f64..1e300, 0..5),
    ) {
        let mut sorted = bounds.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let seconds = 10_f64.powf(exponent);
        let made = [
            Distribution::constant(a).ok(),
            Distribution::lognormal(a, b).ok(),
            Distribution::lognormal(seconds, factor).ok(),
            Distribution::lognormal(seconds, b.abs()).ok(),
            Distribution::uniform(seconds, a).ok(),
            Distribution::uniform(seconds, seconds * (1.0 + factor)).ok(),
            Distribution::exponential(seconds).ok(),
            Distribution::from_histogram(&bounds, &counts).ok(),
            Distribution::from_histogram(&sorted, &counts).ok(),
            Distribution::from_values(&bounds).ok(),
        ];
        for times in made.into_iter().flatten() {
            assert_sound(&times);
            assert_sound(&times.plus(&times).residual());
        }
    }
}
