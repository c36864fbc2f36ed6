//! Costs per unit of three kinds of work, from the CPU seconds that several mixtures of them took.

/// The work of one run and its CPU seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// The amounts of three kinds of work.
    pub(super) work: [f64; 3],
    pub(super) seconds: f64,
}

/// The costs per unit of work, each at least 0, with the least squares of relative errors. `None` if the observations do not
/// determine them.
///
/// A cost that would be negative is set to 0, and the others are fitted again: the active set of Lawson and Hanson (Solving
/// Least Squares Problems, 1974), which three unknowns need no more of than this.
pub(super) fn fit(observations: &[Observation]) -> Option<[f64; 3]> {
    let mut is_used = [true; 3];
    loop {
        let costs = solve(observations, is_used)?;
        let worst = (0..3).filter(|at| costs[*at] < 0.0).min_by(|left, right| costs[*left].total_cmp(&costs[*right]));
        match worst {
            None => return Some(costs),
            Some(at) => is_used[at] = false,
        }
    }
}

/// Solves the normal equations of the columns in use by Gaussian elimination with pivots.
fn solve(observations: &[Observation], is_used: [bool; 3]) -> Option<[f64; 3]> {
    // Columns differ by six orders of magnitude, so each is scaled by its mean.
    let mean =
        |at: usize| observations.iter().map(|observed| observed.work[at]).sum::<f64>() / observations.len() as f64;
    let scale = [mean(0), mean(1), mean(2)];
    let mut matrix = [[0.0; 4]; 3];
    for observed in observations {
        let weight = observed.seconds.max(1e-9).powi(-2);
        let column = |at: usize| if is_used[at] { observed.work[at] / scale[at] } else { 0.0 };
        for (at, row) in matrix.iter_mut().enumerate() {
            let right = [column(0), column(1), column(2), observed.seconds];
            row.iter_mut().zip(right).for_each(|(cell, right)| *cell += weight * column(at) * right);
        }
    }
    for at in (0..3).filter(|at| !is_used[*at]) {
        matrix[at] = [0.0; 4];
        matrix[at][at] = 1.0;
    }
    for at in 0..3 {
        let pivot = (at..3).max_by(|left, right| matrix[*left][at].abs().total_cmp(&matrix[*right][at].abs()))?;
        matrix.swap(at, pivot);
        let row = matrix[at];
        if row[at].abs() < 1e-12 {
            return None;
        }
        for other in (0..3).filter(|other| *other != at) {
            let factor = matrix[other][at] / row[at];
            for (cell, above) in matrix[other].iter_mut().zip(row) {
                *cell -= factor * above;
            }
        }
    }
    let cost = |at: usize| matrix[at][3] / matrix[at][at] / scale[at];
    let costs = [cost(0), cost(1), cost(2)];
    costs.iter().all(|cost| cost.is_finite()).then_some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(costs: [f64; 3], noise: f64) -> Vec<Observation> {
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
