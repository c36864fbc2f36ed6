//! The report of a run.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::monitor::LatencyProbe;
use crate::query_load::QueryObservation;

/// The row of the final comparison.
pub(crate) const FINAL_ROW: &str = "at the end";

/// A fault and its effects.
#[derive(Clone, Debug, Default)]
pub struct FaultResult {
    /// The kinds of the faults and the affected nodes.
    pub name: String,
    /// The times since the start of the run at which it began and ended.
    pub started_at: Duration,
    /// See `began`.
    pub ended_at: Duration,
    /// The time from its end until all nodes were ready, nothing old was pending and all answers were complete; `None`
    /// if that was not reached.
    pub healed_after: Option<Duration>,
    /// Bytes consumed by stores over bytes accepted during the fault, if measured.
    pub consumed: Option<f64>,
    /// The time from its end until that ratio was 1 again; `None` if that was not reached.
    pub caught_up_after: Option<Duration>,
    /// The time from its end until all records were re-replicated, if there were fewer replicas.
    pub restored_after: Option<Duration>,
    /// The maximum visibility time of probe lines sent during the fault.
    pub visibility_max: Duration,
    /// Acknowledged lines missing from a complete answer.
    pub lost: BTreeSet<(String, u64)>,
    /// Lines that occur more than once in an answer.
    pub duplicated: BTreeSet<(String, u64)>,
    /// Answered lines that were never sent.
    pub unexpected: usize,
    /// Queries during the fault: complete answers, partial ones, and failures.
    pub answers: [usize; 3],
}

impl FaultResult {
    /// Counts the answer to a query during the fault.
    pub(crate) fn count(&mut self, observation: &QueryObservation) {
        self.answers[observation.compared.as_ref().map_or(2, |seen| usize::from(seen.partial))] += 1;
    }
}

/// Visibility times of probe lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// The number of probe lines.
    pub count: usize,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The maximum.
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

/// The report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed that repeats the run.
    pub seed: u64,
    /// In the order of the run.
    pub rows: Vec<FaultResult>,
    /// Faults that could not be applied here, with reasons.
    pub skipped: Vec<String>,
    /// All violations; empty if the run passed.
    pub problems: Vec<String>,
    /// Acknowledged lines.
    pub acknowledged: u64,
    /// Visibility without faults.
    pub latency_without_fault: Latency,
    /// Visibility during faults and recovery.
    pub latency_with_fault: Latency,
}

impl Report {
    /// Records the result of a comparison with an answer of the named node, also in the row of that time.
    pub(crate) fn record_observation(&mut self, row: &mut FaultResult, observation: &QueryObservation, node: &str) {
        let Some(seen) = &observation.compared else { return };
        let keyed =
            |numbers: &[u64]| numbers.iter().map(|number| (observation.writer.clone(), *number)).collect::<Vec<_>>();
        if !seen.partial {
            row.lost.extend(keyed(&seen.comparison.lost));
        }
        row.duplicated.extend(keyed(&seen.comparison.duplicated));
        row.unexpected += seen.comparison.unexpected;
        if let Some(problem) = seen.comparison.describe_failure(seen.partial) {
            let (at, what) = (observation.at.as_secs_f64(), &row.name);
            self.add_problem(format!(
                "{at:.1} s, {what}: the answer of {node} about {}: {problem}",
                observation.writer
            ));
        }
    }

    /// Records and prints a problem.
    pub(crate) fn add_problem(&mut self, problem: String) {
        eprintln!("           {problem}");
        self.problems.push(problem);
    }

    /// Records the visibility times of probe lines, each for the first fault that overlapped it.
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
            "fault", "duration", "recovery", "consumed", "caught up", "restored", "visible", "lost", "dupl."
        )?;
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        for row in &self.rows {
            let recovery = row.healed_after.map_or_else(|| "never".to_owned(), seconds);
            let or_none = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), seconds);
            let (caught_up, restored) = (or_none(row.caught_up_after), or_none(row.restored_after));
            let consumed = row.consumed.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
            let (duration, visible) =
                (seconds(row.ended_at.saturating_sub(row.started_at)), seconds(row.visibility_max));
            let (lost, duplicated) = (row.lost.len(), row.duplicated.len());
            let [complete, partial, none] = row.answers;
            writeln!(
                f,
                "{:44} {duration:>8} {recovery:>8} {consumed:>8} {caught_up:>8} {restored:>8} {visible:>8} {lost:>6} {duplicated:>8}  {complete:>6} {partial:>6} {none:>6}",
                row.name
            )?;
        }
        for skipped in &self.skipped {
            writeln!(f, "left out: {skipped}")?;
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
