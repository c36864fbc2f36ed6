//! The outcomes of damage trials.

use std::collections::BTreeMap;
use std::fmt;

/// The outcome for the records of a directory. The worst of two starts counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DamageOutcome {
    /// All records were answered.
    Whole,
    /// All records were answered, and answers were marked partial.
    PossiblyPartial,
    /// An active queue segment was cut at its end, as by a crash.
    TornTail,
    /// Records are missing, and everything reports it.
    LossReported,
    /// The node did not start.
    Refused,
}

/// The names of the outcomes in the table, in order.
const OUTCOME_NAMES: [&str; 5] = ["intact", "partial", "torn", "reported", "refused"];

/// A trial.
#[derive(Debug)]
pub(crate) struct TrialResult {
    pub(crate) outcome: DamageOutcome,
    /// `verify` reported the damage before the node was started.
    pub(crate) is_verified: bool,
    /// Violations.
    pub(crate) failures: Vec<String>,
}

impl TrialResult {
    pub(crate) fn check(&mut self, is_right: bool, words: impl FnOnce() -> String) {
        if !is_right {
            self.failures.push(words());
        }
    }
}

/// Trials with one kind of file.
#[derive(Clone, Debug, Default)]
struct FileKindTotals {
    fates: [usize; OUTCOME_NAMES.len()],
    verified: usize,
    failure: usize,
}

/// The report of all trials.
#[derive(Clone, Debug, Default)]
pub struct DamageReport {
    rows: BTreeMap<String, FileKindTotals>,
    /// Violations, with the file and the corruption.
    pub problems: Vec<String>,
    /// Losses that something did not report.
    pub silent: usize,
}

impl DamageReport {
    pub(crate) fn add(&mut self, kind: &str, name: &str, trial: TrialResult) {
        let row = self.rows.entry(kind.to_owned()).or_default();
        row.fates[trial.outcome as usize] += 1;
        row.verified += usize::from(trial.is_verified);
        row.failure += usize::from(!trial.failures.is_empty());
        self.silent += usize::from(trial.failures.iter().any(|failure| failure.contains("SILENT")));
        self.problems.extend(trial.failures.iter().map(|failure| format!("{name}: {failure}")));
    }

    /// The number of damaged directories.
    pub fn rounds(&self) -> usize {
        self.rows.values().map(|row| row.fates.iter().sum::<usize>()).sum()
    }

    /// The number of directories with missing records, all reported.
    pub fn losses_reported(&self) -> usize {
        self.rows.values().map(|row| row.fates[DamageOutcome::LossReported as usize]).sum()
    }
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| file | rounds | {} | seen by verify | failure |", OUTCOME_NAMES.join(" | "))?;
        writeln!(f, "| --- | {} |", vec!["---:"; OUTCOME_NAMES.len() + 3].join(" | "))?;
        for (kind, row) in &self.rows {
            let fates: Vec<String> = row.fates.iter().map(usize::to_string).collect();
            let rounds: usize = row.fates.iter().sum();
            writeln!(f, "| `{kind}` | {rounds} | {} | {} | {} |", fates.join(" | "), row.verified, row.failure)?;
        }
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let (rounds, reported, silent) = (self.rounds(), self.losses_reported(), self.silent);
        writeln!(
            f,
            "{rounds} damaged directories, {reported} with a reported loss, {silent} with a silent loss, {} problems",
            self.problems.len()
        )
    }
}
