//! What a run showed.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::monitor::LatencyProbe;
use crate::query_load::QueryObservation;

/// The row of the last look at everything.
pub(crate) const FINAL_ROW: &str = "at the end";

/// A fault, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct FaultResult {
    /// Which nodes it befell, and how.
    pub name: String,
    /// When it began, from the start of the run, and when it was ended.
    pub started_at: Duration,
    /// See `began`.
    pub ended_at: Duration,
    /// How long after its end every node was there, nothing old waited and every node's answers were complete; none when
    /// that did not come to pass.
    pub healed_after: Option<Duration>,
    /// Bytes that stores took over bytes accepted, from its beginning to its end, where that was looked at.
    pub consumed: Option<f64>,
    /// How long after its end that was 1 again; none when that did not come to pass.
    pub caught_up_after: Option<Duration>,
    /// How long after its end every record was on as many stores as promised, where it was on fewer.
    pub restored_after: Option<Duration>,
    /// The longest that a probe line, sent meanwhile, took to be found.
    pub visibility_max: Duration,
    /// Acknowledged lines that a complete answer lacked.
    pub lost: BTreeSet<(String, u64)>,
    /// Lines that an answer had more than once.
    pub duplicated: BTreeSet<(String, u64)>,
    /// Lines that were never sent.
    pub unexpected: usize,
    /// Answers asked for while it lasted: complete, partial, and none.
    pub answers: [usize; 3],
}

impl FaultResult {
    /// Counts an answer that was asked for while it lasted.
    pub(crate) fn count(&mut self, told: &QueryObservation) {
        self.answers[told.compared.as_ref().map_or(2, |seen| usize::from(seen.partial))] += 1;
    }
}

/// How long probe lines took to be found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// How many there were.
    pub count: usize,
    /// Half of them took no longer.
    pub p50: Duration,
    /// Of a hundred, 99 took no longer.
    pub p99: Duration,
    /// None took longer.
    pub max: Duration,
}

impl Latency {
    pub(crate) fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        let at = |share: f64| {
            let place = (took.len() as f64 * share).ceil() as usize;
            took.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { count: took.len(), p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

/// What a run showed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed that repeats it.
    pub seed: u64,
    /// In the order in which they happened.
    pub rows: Vec<FaultResult>,
    /// What could not be tried here, and why.
    pub skipped: Vec<String>,
    /// Everything that is not as it should be; empty when all is well.
    pub problems: Vec<String>,
    /// Lines that were acknowledged.
    pub acknowledged: u64,
    /// From being sent to being found, with nothing wrong.
    pub latency_without_fault: Latency,
    /// The same while something was wrong, or being healed.
    pub latency_with_fault: Latency,
}

impl Report {
    /// Puts down, also in the row of the time, what an answer of the node with this name showed.
    pub(crate) fn record_observation(&mut self, row: &mut FaultResult, told: &QueryObservation, node: &str) {
        let Some(seen) = &told.compared else { return };
        let keyed = |numbers: &[u64]| numbers.iter().map(|number| (told.writer.clone(), *number)).collect::<Vec<_>>();
        if !seen.partial {
            row.lost.extend(keyed(&seen.comparison.lost));
        }
        row.duplicated.extend(keyed(&seen.comparison.duplicated));
        row.unexpected += seen.comparison.unexpected;
        if let Some(wrong) = seen.comparison.describe_failure(seen.partial) {
            let (at, what) = (told.at.as_secs_f64(), &row.name);
            self.add_problem(format!("{at:.1} s, {what}: the answer of {node} about {}: {wrong}", told.writer));
        }
    }

    /// Puts down, and says at once, that something is not as it should be.
    pub(crate) fn add_problem(&mut self, problem: String) {
        eprintln!("           {problem}");
        self.problems.push(problem);
    }

    /// Puts down how long probe lines took to be found, each with the first fault that it met.
    pub(crate) fn set_latencies(&mut self, probes: &[LatencyProbe]) {
        let (mut steady, mut faulty) = (Vec::new(), Vec::new());
        for probe in probes {
            let took = probe.took.unwrap_or(Duration::MAX);
            let arrived = probe.sent.saturating_add(took);
            let touches = |row: &&mut FaultResult| {
                row.name != FINAL_ROW
                    && probe.sent < row.ended_at + row.healed_after.unwrap_or_default()
                    && row.started_at < arrived
            };
            match self.rows.iter_mut().find(touches) {
                Some(row) => {
                    row.visibility_max = row.visibility_max.max(took);
                    faulty.push(took);
                }
                None => steady.push(took),
            }
            if probe.took.is_none() {
                self.problems.push(format!("the probe line sent at {:.1} s was never found", probe.sent.as_secs_f64()));
            }
        }
        (self.latency_without_fault, self.latency_with_fault) = (Latency::of(steady), Latency::of(faulty));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:44} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8}  answers: complete, partial, none",
            "fault", "lasted", "healed", "consumed", "again 1", "restored", "gap", "lost", "doubled"
        )?;
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        for row in &self.rows {
            let heal = row.healed_after.map_or_else(|| "never".to_owned(), seconds);
            let or_none = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), seconds);
            let (again, restored) = (or_none(row.caught_up_after), or_none(row.restored_after));
            let consumed = row.consumed.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
            let (lasted, gap) = (seconds(row.ended_at.saturating_sub(row.started_at)), seconds(row.visibility_max));
            let (lost, doubled) = (row.lost.len(), row.duplicated.len());
            let [complete, partial, none] = row.answers;
            writeln!(
                f,
                "{:44} {lasted:>8} {heal:>8} {consumed:>8} {again:>8} {restored:>8} {gap:>8} {lost:>6} {doubled:>8}  {complete:>6} {partial:>6} {none:>6}",
                row.name
            )?;
        }
        for left_out in &self.skipped {
            writeln!(f, "left out: {left_out}")?;
        }
        for (name, latency) in [("steady", self.latency_without_fault), ("under faults", self.latency_with_fault)] {
            writeln!(
                f,
                "sent to found, {name}: p50 {:.3} s, p99 {:.3} s, longest {:.3} s, of {} lines",
                latency.p50.as_secs_f64(),
                latency.p99.as_secs_f64(),
                latency.max.as_secs_f64(),
                latency.count
            )?;
        }
        writeln!(f, "seed {}: {} lines were acknowledged", self.seed, self.acknowledged)?;
        match self.problems.as_slice() {
            [] => writeln!(f, "each is there exactly once, from every node"),
            problems => problems.iter().try_for_each(|problem| writeln!(f, "WRONG: {problem}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_ranked() {
        let of = |count: u64| Latency::of((1..=count).rev().map(Duration::from_millis).collect());
        let (one, many) = (of(1), of(200));
        assert_eq!((one.p50, one.p99), (Duration::from_millis(1), Duration::from_millis(1)));
        let want = [100, 198, 200].map(Duration::from_millis);
        assert_eq!([many.p50, many.p99, many.max], want);
        assert_eq!(Latency::of(Vec::new()).count, 0);
    }
}
