//! Random histories: programs write, rotate, compress and delete logs of all kinds, while the tailer runs, ends and starts
//! again at any moment. Afterwards each line was delivered once. A line may be missing only if no tailer could have read it.
//!
//! `BUCKSAW_TAILER_SEEDS=5000` runs 5,000 histories, `BUCKSAW_TAILER_SEED=7` only this one.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use bucksaw_env::FileIdentity;
use bucksaw_fixtures::{Random, SeededRuns};

use super::machine::LogMachine;
use crate::Gap;

/// The histories of an ordinary test run.
const SEEDS: u64 = 400;

/// The rotated files that are kept.
const KEPT: usize = 3;

/// How a program rotates its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationKind {
    Rename,
    RenameByDate,
    Compress(&'static str),
    CompressLater(&'static str),
    CopyTruncate,
    CopyTruncateCompress,
    Delete,
}

const KINDS: [RotationKind; 9] = [
    RotationKind::Rename,
    RotationKind::RenameByDate,
    RotationKind::Compress("gz"),
    RotationKind::Compress("zst"),
    RotationKind::CompressLater("gz"),
    RotationKind::CompressLater("zst"),
    RotationKind::CopyTruncate,
    RotationKind::CopyTruncateCompress,
    RotationKind::Delete,
];

/// Whether a loss must be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossKind {
    /// No position of the file was ever persisted, or the line was written between copy and truncation.
    Unseen,
    /// The file was known.
    Known,
}

#[derive(Debug)]
struct RandomLog {
    name: String,
    kind: RotationKind,
    /// The rotated files, the newest first.
    rotated: Vec<String>,
    /// An incomplete line at the end of the file.
    incomplete: Option<String>,
    rotations: u32,
    /// Whether a file was removed. After a restart nothing tells how it ended.
    has_removed: bool,
}

struct RandomHistory {
    machine: LogMachine,
    /// Whether programs create their new file before they write to it.
    creates_empty_files: bool,
    rng: Random,
    logs: Vec<RandomLog>,
    /// Lines by the file that has them.
    lines: BTreeMap<String, Vec<String>>,
    /// Lines that no tailer can read any more.
    lost: BTreeMap<String, LossKind>,
    /// Lines of deleted files that are open in the tailer.
    in_deleted: BTreeSet<String>,
    gaps: Vec<Gap>,
}

impl RandomHistory {
    fn new(seed: u64, creates_empty_files: bool) -> Self {
        let mut rng = Random::new(seed);
        let patterns: &[&[&str]] =
            &[&["*.log", "d/*.log"], &["*.log*", "d/*.log*"], &["**"], &["a.log", "d/b.log", "c.log"]];
        let mut machine = LogMachine::simulated(patterns[rng.below(patterns.len())]);
        machine.mkdir("d");
        if rng.one_in(2) {
            machine.fs().reuse_inode_numbers();
        }
        let read_bytes = [40, 200, 3_000][rng.below(3)];
        machine.configure(|config| config.read_bytes = read_bytes);
        let names = ["a.log", "d/b.log", "c.log"];
        let count = 1 + rng.below(3);
        let mut log = |name: &&str| RandomLog {
            name: (*name).to_owned(),
            kind: KINDS[rng.below(KINDS.len())],
            rotated: Vec::new(),
            incomplete: None,
            rotations: 0,
            has_removed: false,
        };
        let logs = names[..count].iter().map(&mut log).collect();
        let (lines, lost) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, creates_empty_files, rng, logs, lines, lost, in_deleted: BTreeSet::new(), gaps: Vec::new() }
    }

    fn run(&mut self) {
        for _ in 0..60 {
            self.step();
        }
        for at in 0..self.logs.len() {
            self.complete_line(at);
        }
        self.machine.run_long();
        self.machine.run_long();
        // A file that matches a pattern may grow for ever, so that the sink decides about its last line.
        self.machine.sink.takes_waiting = true;
        self.machine.wake_and_read();
        self.machine.run_long();
        self.gaps.extend(self.machine.tailer.gaps().cloned());
        if self.rng.one_in(3) {
            self.restart();
            self.machine.run_long();
        }
    }

    fn step(&mut self) {
        let at = self.rng.below(self.logs.len());
        match self.rng.below(20) {
            0..8 => {
                let lines = 1 + self.rng.below(6);
                self.complete_line(at);
                (0..lines).for_each(|_| self.write(at));
            }
            8 => self.begin_line(at),
            9 => self.write_late(at),
            10..12 => self.rotate(at),
            12..14 => self.scan(),
            14 | 15 => drop(self.machine.read_once().unwrap()),
            16 => self.machine.wake_and_read(),
            17 => self.restart(),
            18 => self.machine.persist(),
            _ => {
                let most = [10, 1_000, 400_000][self.rng.below(3)];
                self.machine.clock.advance(Duration::from_millis(self.rng.below(most) as u64));
            }
        }
    }

    fn scan(&mut self) {
        if self.rng.one_in(2) {
            self.machine.scan();
        } else {
            self.machine.tailer.scan();
            self.machine.trace_files();
        }
    }

    fn restart(&mut self) {
        // The handles of deleted files are gone.
        let delivered = self.delivered();
        for line in std::mem::take(&mut self.in_deleted) {
            if !delivered.contains(&line) {
                self.lost.insert(line, LossKind::Unseen);
            }
        }
        self.gaps.extend(self.machine.tailer.gaps().cloned());
        self.machine.restart();
        for at in 0..self.logs.len() {
            self.note_unseen(at);
        }
    }

    /// A log that was rotated before its first position was persisted need not be looked for under other names.
    fn note_unseen(&mut self, at: usize) {
        let log = &self.logs[at];
        let path = self.machine.path(&log.name);
        if self.machine.tailer.positions().all(|position| position.path != path) {
            let lines = log.rotated.iter().filter_map(|name| self.lines.get(name)).flatten();
            self.lost.extend(lines.map(|line| (line.clone(), LossKind::Unseen)));
        }
    }

    fn delivered(&self) -> BTreeSet<String> {
        self.machine.lines().into_iter().map(str::to_owned).collect()
    }

    fn write(&mut self, at: usize) {
        let name = self.logs[at].name.clone();
        let line = self.machine.new_line(&name);
        self.machine.append(&name, (line.clone() + "\n").as_bytes());
        self.lines.entry(name).or_default().push(line);
    }

    fn begin_line(&mut self, at: usize) {
        if self.logs[at].incomplete.is_none() {
            let name = self.logs[at].name.clone();
            let line = self.machine.new_line(&name);
            self.machine.append(&name, line.as_bytes());
            self.lines.entry(name).or_default().push(line.clone());
            self.logs[at].incomplete = Some(line);
        }
    }

    fn complete_line(&mut self, at: usize) {
        if self.logs[at].incomplete.take().is_some() {
            self.machine.append(&self.logs[at].name.clone(), b"\n");
        }
    }

    /// The program has the rotated file still open.
    fn write_late(&mut self, at: usize) {
        let is_renamed = matches!(
            self.logs[at].kind,
            RotationKind::Rename | RotationKind::RenameByDate | RotationKind::CompressLater(_)
        );
        let Some(name) = self.logs[at].rotated.first().filter(|_| is_renamed).cloned() else { return };
        if self.machine.contents(&name).ends_with(b"\n") {
            let line = self.machine.new_line(&name);
            self.machine.append(&name, (line.clone() + "\n").as_bytes());
            let lines = self.lines.entry(name).or_default();
            if lines.iter().any(|line| self.lost.contains_key(line)) {
                self.lost.insert(line.clone(), LossKind::Unseen);
            }
            lines.push(line);
        }
    }

    fn rotate(&mut self, at: usize) {
        let RandomLog { name, kind, rotations, .. } = &self.logs[at];
        let (name, kind, rotations) = (name.clone(), *kind, *rotations);
        if !self.machine.exists(&name) {
            return;
        }
        if self.machine.tailer.positions().all(|position| position.path != self.machine.path(&name)) {
            let lines = self.lines.get(&name).into_iter().flatten();
            self.lost.extend(lines.map(|line| (line.clone(), LossKind::Unseen)));
        }
        // The incomplete line stays in the rotated file, and what follows begins a new one.
        self.logs[at].incomplete = None;
        self.logs[at].rotations += 1;
        if kind == RotationKind::Delete {
            self.remove(at, &name);
            self.begin_file(at);
            return;
        }
        while self.logs[at].rotated.len() >= KEPT {
            let oldest = self.logs[at].rotated.pop().unwrap();
            self.remove(at, &oldest);
        }
        let newest = if kind == RotationKind::RenameByDate {
            format!("{name}-{}", 20_240_101 + rotations)
        } else {
            self.shift(at);
            format!("{name}.1")
        };
        match kind {
            RotationKind::CopyTruncate | RotationKind::CopyTruncateCompress => self.copy_and_truncate(&name, &newest),
            _ => {
                self.machine.rename(&name, &newest);
                self.move_lines(&name, &newest);
            }
        }
        self.logs[at].rotated.insert(0, newest.clone());
        self.note_unseen(at);
        match kind {
            RotationKind::Compress(extension) => self.compress(at, 0, extension),
            RotationKind::CopyTruncateCompress => self.compress(at, 0, "gz"),
            RotationKind::CompressLater(extension) if self.logs[at].rotated.len() > 1 => {
                self.compress(at, 1, extension);
            }
            _ => {}
        }
        self.begin_file(at);
    }

    /// The program begins its new file, or does so at the next line.
    fn begin_file(&mut self, at: usize) {
        if self.rng.one_in(2) {
            self.write(at);
        } else if self.creates_empty_files {
            self.machine.append(&self.logs[at].name.clone(), b"");
        }
    }

    /// Renames `.2` to `.3` and so on.
    fn shift(&mut self, at: usize) {
        for index in (0..self.logs[at].rotated.len()).rev() {
            let old = self.logs[at].rotated[index].clone();
            let new = old.replace(&format!(".log.{}", index + 1), &format!(".log.{}", index + 2));
            self.machine.rename(&old, &new);
            self.move_lines(&old, &new);
            self.logs[at].rotated[index] = new;
            if self.rng.one_in(20) {
                self.scan();
            }
        }
    }

    fn copy_and_truncate(&mut self, name: &str, newest: &str) {
        // Of a file that was empty when it was found no copy can be recognised.
        let identity = self.machine.env.fs.stat(&self.machine.path(name)).unwrap().identity;
        let positions = self.machine.tailer.positions().chain(self.machine.sink.positions.values());
        if positions.filter(|position| position.identity == identity).any(|position| position.fingerprint.length() == 0)
        {
            let lines = self.lines.get(name).into_iter().flatten();
            self.lost.extend(lines.map(|line| (line.clone(), LossKind::Unseen)));
        }
        self.machine.copy(name, newest);
        let copied = self.lines.remove(name).unwrap_or_default();
        self.lines.insert(newest.to_owned(), copied);
        if self.rng.one_in(4) {
            self.scan();
        }
        if self.rng.one_in(2) {
            let before = self.machine.contents(name);
            let line = self.machine.new_line(name);
            let is_whole = before.is_empty() || before.ends_with(b"\n");
            if is_whole {
                self.machine.append(name, (line.clone() + "\n").as_bytes());
                if self.rng.one_in(2) {
                    self.machine.wake_and_read();
                }
                self.lost.insert(line, LossKind::Unseen);
            } else {
                self.machine.written.pop();
            }
            self.machine.write_from(name, 0, b"");
            // Which part of the file is in the copy is known to the running tailer only.
            self.machine.scan();
        } else {
            self.machine.write_from(name, 0, b"");
        }
    }

    fn compress(&mut self, at: usize, index: usize, extension: &str) {
        let name = self.logs[at].rotated[index].clone();
        if name.ends_with(extension) {
            return;
        }
        self.machine.compress(&name, extension);
        let packed = format!("{name}.{extension}");
        self.move_lines(&name, &packed);
        self.logs[at].rotated[index] = packed;
    }

    fn move_lines(&mut self, from: &str, to: &str) {
        let lines = self.lines.remove(from).unwrap_or_default();
        self.lines.insert(to.to_owned(), lines);
    }

    fn remove(&mut self, at: usize, name: &str) {
        self.logs[at].has_removed = true;
        let identity = self.machine.env.fs.stat(&self.machine.path(name)).unwrap().identity;
        let lines = self.lines.remove(name).unwrap_or_default();
        let delivered = self.delivered();
        let undelivered = lines.into_iter().filter(|line| !delivered.contains(line));
        if self.is_open(identity) {
            self.in_deleted.extend(undelivered);
        } else {
            // Another file may have had the number before.
            let contents = self.machine.contents(name);
            let is_known = self.machine.sink.positions.values().any(|position| {
                let fingerprint = &position.fingerprint;
                position.identity == identity && fingerprint.length() > 0 && fingerprint.matches(&contents)
            });
            let kind = if is_known { LossKind::Known } else { LossKind::Unseen };
            self.lost.extend(undelivered.map(|line| (line, kind)));
        }
        self.machine.remove(name);
    }

    /// Whether the tailer reads the file through a handle.
    fn is_open(&self, identity: FileIdentity) -> bool {
        let tailer = &self.machine.tailer;
        let file = tailer.by_identity.get(&identity).and_then(|key| tailer.files.get(key));
        file.is_some_and(|file| file.handle.is_some())
    }

    fn check(&self) -> Result<(), String> {
        let mut missing: BTreeSet<&str> = self.machine.written.iter().map(String::as_str).collect();
        let mut cut = Vec::new();
        for line in self.machine.lines() {
            // Before a gap the bytes in memory are the end of the file, also within a line.
            let is_cut = || !self.gaps.is_empty() && self.lost.keys().any(|lost| lost.starts_with(line));
            if !missing.remove(line) {
                if is_cut() && !self.machine.written.iter().any(|written| written == line) && !cut.contains(&line) {
                    cut.push(line);
                    continue;
                }
                return Err(format!("{line:?} was delivered twice, or never written"));
            }
        }
        for line in &missing {
            match self.lost.get(*line) {
                None => return Err(format!("{line:?} is missing")),
                Some(LossKind::Known) if self.gaps.is_empty() => return Err(format!("no gap is counted for {line:?}")),
                Some(_) => {}
            }
        }
        self.check_gaps()
    }

    /// No gap is counted for a log whose lines were all to be found.
    fn check_gaps(&self) -> Result<(), String> {
        for log in self.logs.iter().filter(|log| !log.has_removed) {
            let path = self.machine.path(&log.name);
            let is_of_log = |gap: &&Gap| gap.path.as_os_str().as_bytes().starts_with(path.as_os_str().as_bytes());
            // The name of its file is in each line.
            let has_lost = self.lost.keys().chain(&self.in_deleted).any(|line| line.contains(&log.name));
            if let Some(gap) = self.gaps.iter().find(is_of_log).filter(|_| !has_lost) {
                return Err(format!("{gap:?}, and nothing was lost"));
            }
        }
        Ok(())
    }
}

fn run_seed(seed: u64, is_traced: bool, creates_empty_files: bool) -> Result<(), String> {
    let mut history = RandomHistory::new(seed, creates_empty_files);
    history.machine.is_traced = is_traced;
    history.run();
    let kinds: Vec<_> = history.logs.iter().map(|log| (&log.name, log.kind)).collect();
    history.check().map_err(|error| format!("{error}; {kinds:?}"))
}

/// Lines delivered twice: a number was given to another file (1016, 3382, 4387, 6838, 8259, 16363), or a copy was taken for
/// another one (3054). A part of a line before a gap (3597). Lines lost: a late write to a renamed file hid a newer one
/// (4369, 4732), the number of a held copy was given to another file (4397), a file grew after its end and was compressed
/// (13693). A rotated file that was not found, as it got the number of a compressed one that was not read yet (127352), or as another
/// one was rotated before it while no scan ran (88892).
///
/// With empty files: lines delivered twice, as the number of a compressed empty file was given to another file (3674, 4042); lines
/// lost, as the number of an empty file was given to the new file with its name (3144, 11721); gaps without a loss, as an empty file
/// was compressed at once (242, 4656) or filled before (18238); a rotated file that was read twice, for the reason of 127352 (116701), or as its number was that of an empty file of another directory (147885).
#[test]
fn histories_that_failed_once() {
    let with_empty_files = [242, 3144, 3674, 4042, 4656, 11721, 18238, 116701, 147885].map(|seed| (seed, true));
    let others = [1016, 3054, 3382, 3597, 4369, 4387, 4397, 4732, 6838, 8259, 13693, 16363, 127352, 88892]
        .map(|seed| (seed, false));
    for (seed, creates_empty_files) in others.into_iter().chain(with_empty_files) {
        run_seed(seed, false, creates_empty_files).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn random_histories_lose_and_repeat_nothing() {
    let runs = SeededRuns { prefix: "BUCKSAW_TAILER", seeds: SEEDS };
    runs.check(|seed, is_traced| run_seed(seed, is_traced, false));
}

#[test]
fn random_histories_with_empty_files_lose_and_repeat_nothing() {
    let runs = SeededRuns { prefix: "BUCKSAW_TAILER", seeds: SEEDS };
    runs.check(|seed, is_traced| run_seed(seed, is_traced, true));
}
