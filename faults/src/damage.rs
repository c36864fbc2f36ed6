//! One change to one byte, page or end of one file, in thousands of data directories: what is lost is told of.
//!
//! ```text
//!   stocks ──► a copy ──► one file is damaged ──► verify ──► the program starts ──► search, count, histogram
//!                                                                   └─► refuses     status, metrics, verify
//! ```
//! The claim: the records answered are a subset of those stored; if it is a proper one, each answer, `status`, metrics and
//! `verify` say so; the damaged file is still there; the process does not panic. A node that refuses to start names the
//! file, and has changed nothing. `verify` names the file, whatever the damage costs, where the file shows it (`visible`).
//!
//! One loss cannot be told from what a crash leaves: a queue segment that was open and is cut at its end. It is counted by
//! itself.

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
use crate::random::Random;
use crate::standalone::{StandaloneNode, free_net};
use answers::AnswerSet;
use corruption::Corruption;
pub use damage_report::DamageReport;
use damage_report::{DamageOutcome, TrialResult};
use fixtures::{DataDirFixture, copy_directory};
use visibility::{KEYS, is_visible};

/// Metrics are counted anew each second, and after a merge that failed in ten.
const REPORT_MAX: Duration = Duration::from_secs(12);

/// How often the node is started a second time.
const RESTART_ONE_IN: usize = 4;

/// How much more often a kind of segment is damaged than another kind of file.
const SEGMENT_WEIGHT: usize = 3;

/// Between two lines that say how far it is.
const PROGRESS_ROUNDS: usize = 500;

/// How the claim is tried.
#[derive(Clone, Debug)]
pub struct DamageOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// How many directories are damaged.
    pub rounds: usize,
    /// Decides which file is damaged, and how.
    pub seed: u64,
    /// Only files of one of these kinds, as the table names them; all when empty.
    pub only: Vec<String>,
    /// Where directories stay with which something is wrong.
    pub keep: Option<PathBuf>,
}

/// Damages one directory after the other.
///
/// # Errors
/// When it cannot be brought about: the program is missing, say. What the program does wrong is in the [`Toll`].
pub fn damage(options: &DamageOptions) -> anyhow::Result<DamageReport> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let (net, minder) = (free_net(options.seed)?, CleanupGuard::start()?);
    let stocks = fixtures::make_all(&options.bucksaw, home.path(), net, &minder)?;
    let mut random = Random::new(options.seed);
    let mut toll = DamageReport::default();
    let places = damage_targets(&stocks, &options.only)?;
    ensure!(!places.is_empty(), "there are no such files");
    let often = |kind: &&String| if kind.contains('*') { SEGMENT_WEIGHT } else { 1 };
    let kinds: Vec<&String> = places.keys().flat_map(|kind| std::iter::repeat_n(kind, often(&kind))).collect();
    let ip = Ipv4Addr::new(127, net[0], net[1], 11);
    for round in 0..options.rounds {
        let kind = *random.pick(&kinds);
        let (stock, path) = random.pick(&places[kind]);
        let stock = &stocks[*stock];
        let dir = home.path().join("trial");
        copy_directory(&stock.dir, &dir)?;
        let change = Corruption::random(&mut random, &fs::read(dir.join(path))?);
        let node = StandaloneNode::new(&options.bucksaw, dir.clone(), ip, &minder, &stock.arguments);
        let mut patient = DamageTrial { options, stock, path, kind, change, node };
        let trial = patient.run(&mut random);
        patient.node.kill();
        let log = patient.node.log();
        let name = format!("round {round}: {} of {}, {}", path.display(), stock.name, patient.change);
        let trial = trial.with_context(|| name.clone())?;
        if let (Some(keep), false) = (&options.keep, trial.failures.is_empty()) {
            copy_directory(&dir, &keep.join(format!("{round}")))?;
            fs::copy(&log, keep.join(format!("{round}.log")))?;
        }
        toll.add(kind, &name, trial);
        fs::remove_dir_all(&dir)?;
        fs::remove_file(log)?;
        if (round + 1) % PROGRESS_ROUNDS == 0 {
            eprintln!("{} of {} rounds, {} wrong", round + 1, options.rounds, toll.problems.len());
        }
    }
    Ok(toll)
}

/// Files that can be damaged, by kind: the stock, and the path in it.
fn damage_targets(
    stocks: &[DataDirFixture],
    only: &[String],
) -> anyhow::Result<BTreeMap<String, Vec<(usize, PathBuf)>>> {
    let mut places: BTreeMap<String, Vec<(usize, PathBuf)>> = BTreeMap::new();
    for (number, stock) in stocks.iter().enumerate() {
        for (path, bytes) in files(&stock.dir)? {
            let kind = kind(&path);
            if !bytes.is_empty() && (only.is_empty() || only.contains(&kind)) {
                places.entry(kind).or_default().push((number, path));
            }
        }
    }
    Ok(places)
}

/// The directory, and the extension of a segment or the name of another file.
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

/// A directory with a damaged file.
struct DamageTrial<'a> {
    options: &'a DamageOptions,
    stock: &'a DataDirFixture,
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
        let (is_sound, said) = answers::verify(&self.options.bucksaw, &self.node.dir)?;
        let mut trial = TrialResult { outcome: DamageOutcome::Whole, is_verified: !is_sound, failures: Vec::new() };
        trial.check(!said.contains("panicked"), || format!("verify panicked: {said}"));
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        if is_visible(self.kind, self.change.is_truncation(), &damaged) {
            trial.check(!is_sound, || format!("SILENT: verify does not see it: {said}"));
            // Of a file and its backup the file is named.
            let named = name.replace(".backup", ".json");
            trial.check(said.contains(&*named), || format!("verify does not name {named}: {said}"));
        }
        let before = files(&self.node.dir)?;
        let again = random.below(RESTART_ONE_IN) == 0;
        for run in 0..1 + usize::from(again) {
            let mut order = [0, 1, 2];
            random.shuffle(&mut order);
            if let Some(status) = self.node.start()? {
                trial.outcome = DamageOutcome::Refused;
                let (said, name) = (self.node.stderr(), self.path.file_name().unwrap_or_default().to_string_lossy());
                trial.check(said.contains(&*name), || {
                    format!("run {run} ended with {status} and does not name {name}: {said}")
                });
                trial.check(!is_sound, || "the node refuses to start, and verify calls the directory sound".to_owned());
                let kept = files(&self.node.dir)?;
                let is_there = |(path, bytes): (&PathBuf, &Vec<u8>)| kept.get(path) == Some(bytes);
                trial.check(before.iter().all(is_there), || "the node refuses to start, and changed files".to_owned());
                break;
            }
            self.check_answers(run, &order, &damaged, &mut trial)?;
        }
        let said = self.node.stderr();
        trial.check(!said.contains("panicked at"), || format!("the node panicked: {said}"));
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
        let asked = AnswerSet::fetch(at, order).with_context(|| self.node.stderr())?;
        let found: BTreeSet<&String> = asked.lines.iter().collect();
        let missing = self.stock.lines.iter().filter(|line| !found.contains(line)).count();
        let foreign = found.iter().filter(|line| !self.stock.lines.contains(**line)).count();
        trial.check(foreign == 0, || format!("run {run}: {foreign} lines were never stored"));
        trial.check(found.len() == asked.lines.len(), || format!("run {run}: lines are told twice"));
        // An open segment may end anywhere after a crash.
        let is_torn = self.change.is_truncation() && self.kind == "queue/*.active";
        let is_due = |missing: bool| missing && !is_torn || self.stock.is_partial;
        let mut is_told = asked.is_partial;
        trial.check(asked.is_partial || !is_due(missing > 0), || {
            format!("run {run}: SILENT: a search lacks {missing} of {} lines", self.stock.lines.len())
        });
        for told in &asked.counts {
            let (what, count, all) = (told.what, told.count, self.stock.lines.len() as u64);
            trial.check(count <= all, || format!("run {run}: {what} tells {count} of {all}"));
            is_told |= told.is_partial;
            trial.check(told.is_partial || !is_due(count < all), || {
                format!("run {run}: SILENT: {what} tells {count} of {all}")
            });
        }
        if missing == 0 {
            if asked.is_partial && !self.stock.is_partial {
                trial.outcome = trial.outcome.max(DamageOutcome::PossiblyPartial);
            }
        } else if is_torn && !is_told {
            trial.outcome = trial.outcome.max(DamageOutcome::TornTail);
        } else {
            trial.outcome = trial.outcome.max(DamageOutcome::LossReported);
            self.check_reported(run, damaged, trial)?;
        }
        if self.kind == KEYS && trial.is_verified {
            self.check_keys(run, damaged, trial)?;
        }
        if self.stock.is_partial {
            let said = answers::status(&self.options.bucksaw, at)?;
            trial.check(!said.contains("all well"), || format!("run {run}: status says that all is well: {said}"));
        }
        self.node.kill();
        Ok(())
    }

    /// No record is missing, but a retry may be stored twice: status and metrics have to say so, unless it is the header of the
    /// file that is damaged.
    fn check_keys(&self, run: usize, damaged: &[u8], trial: &mut TrialResult) -> anyhow::Result<()> {
        if visibility::is_header_alone(damaged, &fs::read(self.stock.dir.join(self.path))?) {
            return Ok(());
        }
        let at = self.node.http();
        let status = answers::status(&self.options.bucksaw, at)?;
        trial.check(status.contains("batch key"), || format!("run {run}: SILENT: status: {status}"));
        trial
            .check(answers::metrics_report_key_damage(at)?, || format!("run {run}: SILENT: metrics do not count keys"));
        Ok(())
    }

    /// Records are missing, and answers said so: status, metrics and `verify` have to.
    fn check_reported(&self, run: usize, damaged: &[u8], trial: &mut TrialResult) -> anyhow::Result<()> {
        let at = self.node.http();
        let until = Instant::now() + REPORT_MAX;
        let mut status = String::new();
        let mut tells = || {
            status = answers::status(&self.options.bucksaw, at)?;
            let told =
                (!status.contains("all well") && status.contains("damaged"), answers::metrics_report_damage(at)?);
            anyhow::Ok(told)
        };
        let mut told = tells()?;
        while told != (true, true) && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            told = tells()?;
        }
        trial.check(told.0, || format!("run {run}: SILENT: status: {status}"));
        trial.check(told.1, || format!("run {run}: SILENT: metrics"));
        let (is_sound, said) = answers::verify(&self.options.bucksaw, &self.node.dir)?;
        trial.check(!is_sound, || format!("run {run}: SILENT: verify: {said}"));
        let is_kept = files(&self.node.dir)?.values().any(|bytes| bytes == damaged);
        trial.check(is_kept || damaged.is_empty(), || format!("run {run}: the damaged file is gone"));
        Ok(())
    }
}

/// All files below a directory, by their paths in it.
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
                // What goes away meanwhile is not there.
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
    fn files_have_kinds() {
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
