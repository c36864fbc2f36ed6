//! For tests: random numbers from a seed, and comparisons of a formula with a simulation.

/// Random numbers by SplitMix64 (Steele, Lea, Flood, 2014): equal seeds give equal numbers.
pub(crate) struct OracleRandom(u64);

impl OracleRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Uniform above 0 and below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.bits() % count as u64) as usize
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }

    /// Lognormal with a mean and a coefficient of variation.
    pub(crate) fn lognormal(&mut self, mean: f64, variation: f64) -> f64 {
        let variance = (1.0 + variation * variation).ln();
        (mean.ln() - variance / 2.0 + variance.sqrt() * self.normal()).exp()
    }
}

/// Prints both numbers and their difference, and fails if it exceeds the share `tolerance` of `simulated`.
pub(crate) fn assert_near(what: &str, formula: f64, simulated: f64, tolerance: f64) {
    let error = if formula == simulated { 0.0 } else { (formula - simulated) / simulated.abs() };
    println!("{what}: formula {formula:.6e}, oracle {simulated:.6e}, error {:+.3} %", error * 100.0);
    assert!(error.abs() <= tolerance, "{what}: formula {formula}, oracle {simulated}, error {error}");
}

/// Mean of values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Quantile of values, which are sorted in place.
pub(crate) fn quantile(values: &mut [f64], probability: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * probability) as usize]
}

/// Numbers that a careless caller may pass: not numbers, infinite, negative, zero, tiny and huge ones, and usual ones.
pub(crate) const ODD_NUMBERS: [f64; 14] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 5e-324, 1e-12, 0.5, 1.0, 3.0, 1e6, 1e18, f64::MAX];

/// Counts as above.
pub(crate) const ODD_COUNTS: [u32; 6] = [0, 1, 2, 3, 1_000, u32::MAX];
