//! The fit against laws that are known, with and without errors of measurement.

use super::*;
use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near};

const WORKERS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 24.0, 32.0];

fn measured(law: ScalabilityLaw, mut error: impl FnMut() -> f64) -> Vec<(f64, f64)> {
    WORKERS.iter().map(|workers| (*workers, law.throughput(*workers).unwrap() * error())).collect()
}

#[test]
fn an_exact_law_is_found_again() {
    for (one, contention, coherence) in
        [(1e9, 0.02, 0.0005), (3.0, 0.1, 0.0), (0.01, 0.0, 0.001), (7.0, 0.0, 0.0), (7.0, 0.9, 0.1)]
    {
        let law = ScalabilityLaw { one, contention, coherence };
        let fit = ScalabilityFit::from_measurements(&measured(law, || 1.0)).unwrap();
        let found = fit.law();
        assert_near("one worker", found.one, one, 1e-6);
        assert!((found.contention - contention).abs() < 1e-6, "{fit:?}");
        assert!((found.coherence - coherence).abs() < 1e-7, "{fit:?}");
    }
}

#[test]
fn bounds_contain_the_law_in_95_of_100_fits() {
    for law in [
        ScalabilityLaw { one: 100.0, contention: 0.05, coherence: 0.001 },
        ScalabilityLaw { one: 100.0, contention: 0.8, coherence: 0.02 },
    ] {
        let mut random = OracleRandom::new(17);
        let runs = 4_000;
        let (mut inside, mut sums) = ([0; 3], [0.0; 3]);
        for _ in 0..runs {
            let fit = ScalabilityFit::from_measurements(&measured(law, || 1.0 + 0.02 * random.normal())).unwrap();
            let pairs = [(fit.one, law.one), (fit.contention, law.contention), (fit.coherence, law.coherence)];
            for ((estimate, value), (inside, sum)) in pairs.into_iter().zip(inside.iter_mut().zip(&mut sums)) {
                let (lower, upper) = estimate.bounds.unwrap();
                *inside += u32::from((lower..=upper).contains(&value));
                *sum += estimate.value / f64::from(runs);
            }
        }
        let names = ["one", "contention", "coherence"];
        let values = [law.one, law.contention, law.coherence];
        for (((name, value), inside), sum) in names.iter().zip(values).zip(inside).zip(sums) {
            let share = f64::from(inside) / f64::from(runs);
            assert_near(&format!("share of fits whose bounds contain {name} {value}"), share, 0.95, 0.02);
            assert_near(&format!("mean fitted {name} {value}"), sum, value, 0.03);
        }
    }
}

#[test]
fn the_peak_has_the_highest_throughput() {
    let law = ScalabilityLaw { one: 5.0, contention: 0.1, coherence: 0.002 };
    let at = |workers: u32| law.throughput(f64::from(workers)).unwrap();
    let best = (1..200).max_by(|a, b| at(*a).total_cmp(&at(*b))).unwrap();
    assert!((law.peak().unwrap() - f64::from(best)).abs() < 1.0);
    assert_eq!(ScalabilityLaw { coherence: 0.0, ..law }.peak(), None);
    assert_near("efficiency", law.efficiency(2.0).unwrap(), 1.0 / (1.0 + 0.1 + 0.004), 1e-12);
}

#[test]
fn few_measurements_have_no_bounds() {
    let fit = ScalabilityFit::from_measurements(&[(1.0, 10.0), (2.0, 18.0)]).unwrap();
    assert_near("contention of two", fit.contention.value, 1.0 / 9.0, 1e-9);
    assert_eq!((fit.one.bounds, fit.coherence), (None, Estimate { value: 0.0, bounds: None }));
    let fit = ScalabilityFit::from_measurements(&[(1.0, 10.0), (2.0, 18.0), (2.0, 18.2)]).unwrap();
    assert!(fit.contention.bounds.is_some() && fit.coherence.bounds.is_none());
    // Better than linear: contention would be negative.
    let fit = ScalabilityFit::from_measurements(&[(1.0, 10.0), (2.0, 21.0), (4.0, 44.0)]).unwrap();
    assert_eq!((fit.contention.value, fit.coherence.value), (0.0, 0.0));
    let fit = |measurements: &[(f64, f64)]| ScalabilityFit::from_measurements(measurements);
    assert_eq!(fit(&[(1.0, 10.0), (1.0, 11.0)]), Err(ScalabilityError::Count));
    assert_eq!(fit(&[(0.0, 10.0), (1.0, 11.0)]), Err(ScalabilityError::Measurement));
}

#[test]
fn odd_numbers_give_no_panic() {
    for a in ODD_NUMBERS {
        for b in ODD_NUMBERS {
            for c in ODD_NUMBERS {
                let law = ScalabilityLaw { one: a, contention: b, coherence: c };
                let _ = (law.peak(), law.efficiency(a), law.throughput(c));
                for measurements in [vec![(a, b), (b, c), (c, a)], vec![(1.0, a), (2.0, b), (3.0, c), (a, b)]] {
                    if let Ok(fit) = ScalabilityFit::from_measurements(&measurements) {
                        assert!(fit.one.value > 0.0 && fit.contention.value >= 0.0, "{measurements:?} {fit:?}");
                    }
                }
            }
        }
    }
}
