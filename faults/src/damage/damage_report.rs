//! What came of damaged directories.

use std::collections::BTreeMap;
use std::fmt;

/// What became of the records of one directory. The worst of two starts counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DamageOutcome {
    /// All were answered.
    Whole,
    /// All were answered, and answers say that some may be missing.
    PossiblyPartial,
    /// An open queue segment was cut at its end, as a crash does.
    TornTail,
    /// Some are missing, and everything says so.
    LossReported,
    /// The node does not start.
    Refused,
}

/// The names of the fates, in their order, as the table has them.
const OUTCOME_NAMES: [&str; 5] = ["whole", "doubted", "torn", "told", "refused"];

/// One directory.
#[derive(Debug)]
pub(crate) struct TrialResult {
    pub(crate) outcome: DamageOutcome,
    /// `verify` told of the damage before the node was started.
    pub(crate) is_verified: bool,
    /// What must not be.
    pub(crate) failures: Vec<String>,
}

impl TrialResult {
    pub(crate) fn check(&mut self, is_right: bool, words: impl FnOnce() -> String) {
        if !is_right {
            self.failures.push(words());
        }
    }
}

/// Directories of one kind of file.
#[derive(Clone, Debug, Default)]
struct FileKindTotals {
    fates: [usize; OUTCOME_NAMES.len()],
    verified: usize,
    wrong: usize,
}

/// What came of all.
#[derive(Clone, Debug, Default)]
pub struct DamageReport {
    rows: BTreeMap<String, FileKindTotals>,
    /// What was wrong, with the file and its damage.
    pub problems: Vec<String>,
    /// Losses that something did not tell of.
    pub silent: usize,
}

impl DamageReport {
    pub(crate) fn add(&mut self, kind: &str, name: &str, trial: TrialResult) {
        let row = self.rows.entry(kind.to_owned()).or_default();
        row.fates[trial.outcome as usize] += 1;
        row.verified += usize::from(trial.is_verified);
        row.wrong += usize::from(!trial.failures.is_empty());
        self.silent += usize::from(trial.failures.iter().any(|wrong| wrong.contains("SILENT")));
        self.problems.extend(trial.failures.iter().map(|wrong| format!("{name}: {wrong}")));
    }

    /// How many directories were damaged.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rows.values().map(|row| row.fates.iter().sum::<usize>()).sum()
    }

    /// In how many records were missing, and everything said so.
    #[must_use]
    pub fn losses_reported(&self) -> usize {
        self.rows.values().map(|row| row.fates[DamageOutcome::LossReported as usize]).sum()
    }
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| file | rounds | {} | seen by verify | wrong |", OUTCOME_NAMES.join(" | "))?;
        writeln!(f, "| --- | {} |", vec!["---:"; OUTCOME_NAMES.len() + 3].join(" | "))?;
        for (kind, row) in &self.rows {
            let fates: Vec<String> = row.fates.iter().map(usize::to_string).collect();
            let rounds: usize = row.fates.iter().sum();
            writeln!(f, "| `{kind}` | {rounds} | {} | {} | {} |", fates.join(" | "), row.verified, row.wrong)?;
        }
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let (rounds, told, silent) = (self.rounds(), self.losses_reported(), self.silent);
        writeln!(
            f,
            "{rounds} damaged directories, {told} with a reported loss, {silent} with a silent loss, {} wrong",
            self.problems.len()
        )
    }
}
