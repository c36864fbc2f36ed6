//! Costs per unit of several kinds of work, from the CPU seconds that several mixtures of them took.

/// The work of one run and what it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation<const KINDS: usize> {
    /// The amount of each kind of work.
    pub(super) work: [f64; KINDS],
    /// CPU seconds, or another amount that grows with the work.
    pub(super) seconds: f64,
}

/// The costs per unit of work, each at least 0, with the least squares of relative errors. `None` if the observations do not
/// determine them.
///
/// A cost that would be negative is set to 0, and the others are fitted again: the active set of Lawson and Hanson (Solving
/// Least Squares Problems, 1974), which a few unknowns need no more of than this.
pub(super) fn fit<const KINDS: usize>(observations: &[Observation<KINDS>]) -> Option<[f64; KINDS]> {
    let mut is_used = [true; KINDS];
    loop {
        let costs = solve(observations, is_used)?;
        let negative = (0..KINDS).filter(|at| costs[*at] < 0.0);
        match negative.min_by(|left, right| costs[*left].total_cmp(&costs[*right])) {
            None => return Some(costs),
            Some(at) => is_used[at] = false,
        }
    }
}

/// Solves the normal equations of the columns in use by Gaussian elimination with pivots.
fn solve<const KINDS: usize>(observations: &[Observation<KINDS>], is_used: [bool; KINDS]) -> Option<[f64; KINDS]> {
    // Columns and seconds differ by many orders of magnitude, so each is scaled by its mean.
    let mean =
        |at: usize| observations.iter().map(|observed| observed.work[at]).sum::<f64>() / observations.len() as f64;
    let scale: [f64; KINDS] = std::array::from_fn(mean);
    let unit = observations.iter().map(|observed| observed.seconds).sum::<f64>() / observations.len() as f64;
    let (mut matrix, mut right) = ([[0.0; KINDS]; KINDS], [0.0; KINDS]);
    for observed in observations {
        let seconds = observed.seconds / unit;
        let weight = seconds.max(1e-9).powi(-2);
        let column = |at: usize| if is_used[at] { observed.work[at] / scale[at] } else { 0.0 };
        for row in 0..KINDS {
            (0..KINDS).for_each(|at| matrix[row][at] += weight * column(row) * column(at));
            right[row] += weight * column(row) * seconds;
        }
    }
    for at in (0..KINDS).filter(|at| !is_used[*at]) {
        (matrix[at], right[at]) = ([0.0; KINDS], 0.0);
        matrix[at][at] = 1.0;
    }
    for at in 0..KINDS {
        let pivot = (at..KINDS).max_by(|left, right| matrix[*left][at].abs().total_cmp(&matrix[*right][at].abs()))?;
        matrix.swap(at, pivot);
        right.swap(at, pivot);
        let (row, of_row) = (matrix[at], right[at]);
        if row[at].abs() < 1e-12 {
            return None;
        }
        for other in (0..KINDS).filter(|other| *other != at) {
            let factor = matrix[other][at] / row[at];
            for (cell, above) in matrix[other].iter_mut().zip(row) {
                *cell -= factor * above;
            }
            right[other] -= factor * of_row;
        }
    }
    let costs: [f64; KINDS] = std::array::from_fn(|at| right[at] / matrix[at][at] / scale[at] * unit);
    costs.iter().all(|cost| cost.is_finite()).then_some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(costs: [f64; 3], noise: f64) -> Vec<Observation<3>> {
        let works = [[1e8, 5e5, 100.0], [1e8, 5e5, 3_000.0], [1e8, 2.5e5, 100.0], [2e8, 1e6, 200.0]];
        let seconds = |work: [f64; 3]| work.iter().zip(costs).map(|(work, cost)| work * cost).sum::<f64>();
        let signs = [1.0, -1.0, 1.0, -1.0];
        let of = |(work, sign): (&[f64; 3], f64)| Observation {
            work: *work,
            seconds: seconds(*work) * (1.0 + sign * noise),
        };
        works.iter().zip(signs).map(of).collect()
    }

    #[test]
    fn costs_are_recovered() {
        let costs = [1e-9, 2e-7, 3e-5];
        let found = fit(&observe(costs, 0.0)).unwrap();
        for (found, cost) in found.iter().zip(costs) {
            assert!((found / cost - 1.0).abs() < 1e-6, "{found} {cost}");
        }
    }

    #[test]
    fn two_runs_determine_two_costs_of_any_size() {
        let observed = |work, seconds| Observation { work, seconds };
        for scale in [1e-9, 1.0, 1e9] {
            let runs = [observed([1e8, 1.2e8], 3.4e8 * scale), observed([2e8, 0.0], 2e8 * scale)];
            let found = fit(&runs).unwrap();
            assert!((found[0] / scale - 1.0).abs() < 1e-6 && (found[1] / scale - 2.0).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn costs_are_never_negative() {
        let found = fit(&observe([1e-9, 0.0, 0.0], 0.05)).unwrap();
        assert!(found.iter().all(|cost| *cost >= 0.0) && (found[0] / 1e-9 - 1.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn equal_observations_determine_nothing() {
        let observed = Observation { work: [1e8, 1e6, 100.0], seconds: 1.0 };
        assert!(fit(&[observed; 5]).is_none());
    }
}
