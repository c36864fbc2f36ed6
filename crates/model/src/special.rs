//! Special functions that the standard library lacks: logarithm of the gamma function, incomplete gamma function, error
//! function, and the distributions that follow from them.
//!
//! Source: Press, Teukolsky, Vetterling, Flannery, "Numerical Recipes", 3rd edition, 2007, chapter 6.

use std::f64::consts::PI;

/// Above this shape the incomplete gamma function uses the Wilson–Hilferty approximation; its error is below 1e-6 there.
const GAMMA_SHAPE_MAX: f64 = 1e5;

/// Most terms of a series or fraction. The needed number is about ten times the root of the shape.
const TERMS_MAX: u32 = 10_000;

/// Coefficients of the Lanczos approximation for g = 7, after the first.
const LANCZOS: [f64; 8] = [
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// Natural logarithm of the gamma function of `x`, which is at least 0.5. Relative error below 1e-13.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    let mut denominator = x;
    for coefficient in LANCZOS {
        denominator += 1.0;
        sum += coefficient / denominator;
    }
    let t = x + 7.5;
    (2.0 * PI).sqrt().ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Natural logarithm of the number of ways to choose `chosen` of `total` things; minus infinity if there is none.
pub(crate) fn ln_choose(total: f64, chosen: f64) -> f64 {
    if chosen > total {
        return f64::NEG_INFINITY;
    }
    ln_gamma(total + 1.0) - ln_gamma(chosen + 1.0) - ln_gamma(total - chosen + 1.0)
}

/// Regularised upper incomplete gamma function: P(X > x) of a gamma distribution with `shape` (0.5 or more) and scale 1.
pub(crate) fn gamma_tail(shape: f64, x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return 1.0;
    }
    if x.is_infinite() {
        return 0.0;
    }
    if shape > GAMMA_SHAPE_MAX {
        let variance = 1.0 / (9.0 * shape);
        return normal_tail(((x / shape).cbrt() - (1.0 - variance)) / variance.sqrt());
    }
    let factor = (shape * x.ln() - x - ln_gamma(shape)).exp();
    let tail = if x < shape + 1.0 { 1.0 - factor * series(shape, x) } else { factor * fraction(shape, x) };
    tail.clamp(0.0, 1.0)
}

/// Series of the lower incomplete gamma function, without its factor.
fn series(shape: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut denominator) = (1.0 / shape, 1.0 / shape, shape);
    for _ in 0..TERMS_MAX {
        denominator += 1.0;
        term *= x / denominator;
        sum += term;
        if term < sum * 1e-16 {
            break;
        }
    }
    sum
}

/// Continued fraction of the upper incomplete gamma function, without its factor, by the method of Lentz.
fn fraction(shape: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - shape;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut product = d;
    for term in 1..TERMS_MAX {
        let n = f64::from(term);
        let a = -n * (n - shape);
        b += 2.0;
        d = a * d + b;
        d = if d.abs() < TINY { TINY } else { d };
        c = b + a / c;
        c = if c.abs() < TINY { TINY } else { c };
        d = 1.0 / d;
        product *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

/// P(X > z) of a normal distribution with mean 0 and standard deviation 1.
pub(crate) fn normal_tail(z: f64) -> f64 {
    let half_tail = gamma_tail(0.5, z * z / 2.0) / 2.0;
    if z < 0.0 { 1.0 - half_tail } else { half_tail }
}

/// P(X ≤ z) of a normal distribution with mean 0 and standard deviation 1.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    normal_tail(-z)
}

/// P(X ≤ `count`) of a Poisson distribution with `mean`.
pub(crate) fn poisson_cdf(count: f64, mean: f64) -> f64 {
    gamma_tail(count + 1.0, mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_equal_those_of_tables() {
        let check = |got: f64, want: f64| assert!((got - want).abs() < 1e-12 * want.abs().max(1.0), "{got} {want}");
        check(ln_gamma(0.5), PI.sqrt().ln());
        check(ln_gamma(11.0), 3_628_800_f64.ln());
        check(ln_choose(52.0, 5.0).exp() / 2_598_960.0, 1.0);
        check(normal_tail(1.0), 0.158_655_253_931_457_05);
        check(normal_cdf(1.0), 0.841_344_746_068_542_9);
        check(normal_tail(5.0), 2.866_515_718_791_933e-7);
        check(poisson_cdf(0.0, 2.0), (-2_f64).exp());
        check(poisson_cdf(3.0, 2.0), (-2_f64).exp() * (1.0 + 2.0 + 2.0 + 8.0 / 6.0));
    }
}
