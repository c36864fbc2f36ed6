//! Damages one byte, page or end of one file in thousands of data directories, and checks that every loss is reported.
//!
//! ```text
//!   fixtures ──► a copy ──► one file is damaged ──► verify ──► the program starts ──► search, counts, histogram
//!                                                                   └─► refuses     status, metrics, verify
//! ```
//! The answered records must be a subset of the stored ones. If some are missing, each answer, `status`, metrics and
//! `verify` report it. The damaged file is not removed, and the process does not panic. A node that refuses to start
//! names the file and changes nothing. `verify` names the file even if no record is lost, where the damage is
//! [`visible`](visibility).
//!
//! One loss is indistinguishable from a crash: an active queue segment that is cut at its end. It is counted
//! separately.

mod answers;
mod corruption;
mod damage_report;
mod fixtures;
mod visibility;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cleanup_guard::CleanupGuard;
use crate::standalone::{StandaloneNode, free_net};
use answers::{AnswerSet, QUESTIONS};
use bucksaw_fixtures::Random;
use corruption::Corruption;
pub use damage_report::DamageReport;
use damage_report::{DamageOutcome, TrialResult};
use fixtures::{DataDirFixture, copy_directory};
use visibility::{KEYS, is_visible};

/// Metrics are updated every second, and ten seconds after a failed merge.
const REPORT_MAX: Duration = Duration::from_secs(12);

/// One in this many trials starts the node a second time.
const RESTART_ONE_IN: usize = 4;

/// The weight of segment files relative to other kinds of files.
const SEGMENT_WEIGHT: usize = 3;

/// The interval of progress lines.
const PROGRESS_ROUNDS: usize = 500;

/// Options of the damage trials.
#[derive(Clone, Debug)]
pub struct DamageOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// The number of damaged directories.
    pub rounds: usize,
    /// The seed of the files and corruptions.
    pub seed: u64,
    /// Damages only files of these kinds, by their names in the table; all if empty.
    pub only: Vec<String>,
    /// The directory for copies of directories with a problem.
    pub keep: Option<PathBuf>,
}

/// Damages directories, one after another.
///
/// # Errors
/// The trials cannot run, for example because the program is missing. Problems of the program are in the
/// [`DamageReport`].
pub fn damage(options: &DamageOptions) -> anyhow::Result<DamageReport> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let (net, cleanup) = (free_net(options.seed)?, CleanupGuard::start()?);
    let fixtures = fixtures::make_all(&options.bucksaw, home.path(), net, &cleanup)?;
    let mut random = Random::new(options.seed);
    let mut report = DamageReport::default();
    let places = damage_targets(&fixtures, &options.only)?;
    ensure!(!places.is_empty(), "no file is of these kinds");
    let often = |kind: &&String| if kind.contains('*') { SEGMENT_WEIGHT } else { 1 };
    let kinds: Vec<&String> = places.keys().flat_map(|kind| std::iter::repeat_n(kind, often(&kind))).collect();
    let ip = Ipv4Addr::new(127, net[0], net[1], 11);
    for round in 0..options.rounds {
        let kind = *random.pick(&kinds);
        let (fixture, path) = random.pick(&places[kind]);
        let fixture = &fixtures[*fixture];
        let dir = home.path().join("trial");
        copy_directory(&fixture.dir, &dir)?;
        let change = Corruption::random(&mut random, &fs::read(dir.join(path))?);
        let node = StandaloneNode::new(&options.bucksaw, dir.clone(), ip, &cleanup, &fixture.arguments);
        let mut trial_run = DamageTrial { options, fixture, path, kind, change, node };
        let trial = trial_run.run(&mut random);
        trial_run.node.kill();
        let log = trial_run.node.log();
        let name = format!("round {round}: {} of {}, {}", path.display(), fixture.name, trial_run.change);
        let trial = trial.with_context(|| name.clone())?;
        if let (Some(keep), false) = (&options.keep, trial.failures.is_empty()) {
            copy_directory(&dir, &keep.join(format!("{round}")))?;
            fs::copy(&log, keep.join(format!("{round}.log")))?;
        }
        report.add(kind, &name, trial);
        fs::remove_dir_all(&dir)?;
        fs::remove_file(log)?;
        if (round + 1) % PROGRESS_ROUNDS == 0 {
            eprintln!("{} of {} rounds, {} problems", round + 1, options.rounds, report.problems.len());
        }
    }
    Ok(report)
}

/// Files that can be damaged, by kind: the fixture, and the path in it.
fn damage_targets(
    fixtures: &[DataDirFixture],
    only: &[String],
) -> anyhow::Result<BTreeMap<String, Vec<(usize, PathBuf)>>> {
    let mut places: BTreeMap<String, Vec<(usize, PathBuf)>> = BTreeMap::new();
    for (number, fixture) in fixtures.iter().enumerate() {
        for (path, bytes) in files(&fixture.dir)? {
            let kind = kind(&path);
            if !bytes.is_empty() && (only.is_empty() || only.contains(&kind)) {
                places.entry(kind).or_default().push((number, path));
            }
        }
    }
    Ok(places)
}

/// The kind of a file: its directory, and the extension of a segment or else its name.
fn kind(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dir = path.parent().map(|dir| dir.display().to_string()).filter(|dir| !dir.is_empty());
    let is_small = name.ends_with(".json") || name.ends_with(".backup");
    let is_segment = dir.is_some() && !is_small && name.contains('.');
    let name = match name.rsplit_once('.') {
        Some((_, state)) if is_segment => format!("*.{state}"),
        _ => name,
    };
    dir.map_or(name.clone(), |dir| format!("{dir}/{name}"))
}

/// A data directory with a damaged file.
struct DamageTrial<'a> {
    options: &'a DamageOptions,
    fixture: &'a DataDirFixture,
    path: &'a Path,
    kind: &'a str,
    change: Corruption,
    node: StandaloneNode,
}

impl DamageTrial<'_> {
    fn run(&mut self, random: &mut Random) -> anyhow::Result<TrialResult> {
        let file = self.node.dir.join(self.path);
        let damaged = self.change.apply(&fs::read(&file)?);
        fs::write(&file, &damaged)?;
        let (is_sound, output) = answers::verify(&self.options.bucksaw, &self.node.dir)?;
        let mut trial = TrialResult { outcome: DamageOutcome::Whole, is_verified: !is_sound, failures: Vec::new() };
        trial.check(!output.contains("panicked"), || format!("verify panicked: {output}"));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        if is_visible(self.kind, self.change.is_truncation(), &damaged) {
            trial.check(!is_sound, || format!("SILENT: verify does not detect it: {output}"));
            // For a file with a backup, the file is named.
            let named = name.replace(".backup", ".json");
            trial.check(output.contains(&*named), || format!("verify does not name {named}: {output}"));
        }
        let before = files(&self.node.dir)?;
        let again = random.below(RESTART_ONE_IN) == 0;
        for run in 0..1 + usize::from(again) {
            let mut order: Vec<usize> = (0..QUESTIONS).collect();
            random.shuffle(&mut order);
            if let Some(status) = self.node.start()? {
                trial.outcome = DamageOutcome::Refused;
                let (output, name) = (self.node.stderr(), self.path.file_name().unwrap_or_default().to_string_lossy());
                trial.check(output.contains(&*name), || {
                    format!("run {run} ended with {status} and does not name {name}: {output}")
                });
                trial.check(!is_sound, || "the node refuses to start, and verify calls the directory sound".to_owned());
                let remaining = files(&self.node.dir)?;
                let is_unchanged = |(path, bytes): (&PathBuf, &Vec<u8>)| remaining.get(path) == Some(bytes);
                trial.check(before.iter().all(is_unchanged), || {
                    "the node refuses to start, and changed files".to_owned()
                });
                break;
            }
            self.check_answers(run, &order, &damaged, &mut trial)?;
        }
        let output = self.node.stderr();
        trial.check(!output.contains("panicked at"), || format!("the node panicked: {output}"));
        Ok(trial)
    }

    fn check_answers(
        &mut self,
        run: usize,
        order: &[usize],
        damaged: &[u8],
        trial: &mut TrialResult,
    ) -> anyhow::Result<()> {
        let at = self.node.http();
        let answers = AnswerSet::fetch(at, order).with_context(|| self.node.stderr())?;
        let found: BTreeSet<&String> = answers.records.iter().collect();
        let stored = &self.fixture.records;
        let missing = stored.iter().filter(|record| !found.contains(record)).count();
        let unexpected: Vec<_> = found.iter().filter(|record| !stored.contains(**record)).collect();
        trial.check(unexpected.is_empty(), || {
            format!("run {run}: {} records were never stored, such as {}", unexpected.len(), unexpected[0])
        });
        trial.check(found.len() == answers.records.len(), || format!("run {run}: records are duplicated"));
        // A crash may cut an active segment anywhere.
        let is_torn = self.change.is_truncation() && self.kind == "queue/*.active";
        let is_due = |missing: bool| missing && !is_torn || self.fixture.is_partial;
        let mut is_reported = answers.is_partial;
        trial.check(answers.is_partial || !is_due(missing > 0), || {
            format!("run {run}: SILENT: a search misses {missing} of {} records", stored.len())
        });
        for reported in &answers.counts {
            let (what, count, all) = (reported.what, reported.count, self.fixture.expected(reported.is_filtered));
            trial.check(count <= all, || format!("run {run}: {what} reports {count} of {all}"));
            is_reported |= reported.is_partial;
            trial.check(reported.is_partial || !is_due(count < all), || {
                format!("run {run}: SILENT: {what} reports {count} of {all}")
            });
        }
        if missing == 0 {
            if answers.is_partial && !self.fixture.is_partial {
                trial.outcome = trial.outcome.max(DamageOutcome::PossiblyPartial);
            }
        } else if is_torn && !is_reported {
            trial.outcome = trial.outcome.max(DamageOutcome::TornTail);
        } else {
            trial.outcome = trial.outcome.max(DamageOutcome::LossReported);
            self.check_reported(run, damaged, trial)?;
        }
        if self.kind == KEYS && trial.is_verified {
            self.check_keys(run, damaged, trial)?;
        }
        if self.fixture.is_partial {
            let output = answers::status(&self.options.bucksaw, at)?;
            trial.check(!output.contains("all well"), || format!("run {run}: status reports no problem: {output}"));
        }
        self.node.kill();
        Ok(())
    }

    /// No record is missing, but a retry may be stored twice. Status and metrics must report it, unless the header of
    /// the file is damaged.
    fn check_keys(&self, run: usize, damaged: &[u8], trial: &mut TrialResult) -> anyhow::Result<()> {
        if visibility::is_header_alone(damaged, &fs::read(self.fixture.dir.join(self.path))?) {
            return Ok(());
        }
        let at = self.node.http();
        let status = answers::status(&self.options.bucksaw, at)?;
        trial.check(status.contains("idempotency key"), || format!("run {run}: SILENT: status: {status}"));
        trial.check(answers::metrics_report_key_damage(at)?, || {
            format!("run {run}: SILENT: metrics report no damaged keys")
        });
        Ok(())
    }

    /// Records are missing and answers report it. Status, metrics and `verify` must report it too.
    fn check_reported(&self, run: usize, damaged: &[u8], trial: &mut TrialResult) -> anyhow::Result<()> {
        let at = self.node.http();
        let until = Instant::now() + REPORT_MAX;
        let mut status = String::new();
        let mut tells = || {
            status = answers::status(&self.options.bucksaw, at)?;
            let reported =
                (!status.contains("all well") && status.contains("damaged"), answers::metrics_report_damage(at)?);
            anyhow::Ok(reported)
        };
        let mut reported = tells()?;
        while reported != (true, true) && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            reported = tells()?;
        }
        trial.check(reported.0, || format!("run {run}: SILENT: status: {status}"));
        trial.check(reported.1, || format!("run {run}: SILENT: metrics"));
        let (is_sound, output) = answers::verify(&self.options.bucksaw, &self.node.dir)?;
        trial.check(!is_sound, || format!("run {run}: SILENT: verify: {output}"));
        let is_kept = files(&self.node.dir)?.values().any(|bytes| bytes == damaged);
        trial.check(is_kept || damaged.is_empty(), || format!("run {run}: the damaged file was removed"));
        Ok(())
    }
}

/// All files below a directory, by their relative paths.
fn files(dir: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(inside) = dirs.pop() {
        for entry in fs::read_dir(dir.join(&inside))? {
            let entry = entry?;
            let path = inside.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                dirs.push(path);
            } else {
                // Skips files removed meanwhile.
                match fs::read(entry.path()) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    bytes => drop(all.insert(path, bytes?)),
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files_are_recognised() {
        let check = |path: &str, want: &str| assert_eq!(kind(Path::new(path)), want);
        check("queue/01.active", "queue/*.active");
        check("queue/boot", "queue/boot");
        check("store/1-2-3.seg", "store/*.seg");
        check("store/trash/1-2.seg", "store/trash/*.seg");
        check("node.json", "node.json");
        check("node.backup", "node.backup");
        check("store/clock.json", "store/clock.json");
        check("store/clock.backup", "store/clock.backup");
        check("queue/01.keys", KEYS);
    }
}
