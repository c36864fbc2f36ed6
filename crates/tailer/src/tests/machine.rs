//! A machine with log files, a tailer, and the lines that were written and delivered.
#![expect(clippy::disallowed_methods, reason = "changes real files as other programs do")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, FileIdentity, Fs as _, real, sim};

use crate::{FileChunk, FileKey, FilePosition, PathPattern, Tailer, TailerConfig};

#[derive(Debug)]
pub(super) enum LogDisk {
    Sim(sim::Fs),
    Real(tempfile::TempDir),
}

/// What the sink has persisted.
#[derive(Debug, Default)]
pub(super) struct SinkState {
    pub(super) positions: BTreeMap<FileKey, FilePosition>,
    /// Paths and lines, in the order of delivery.
    pub(super) delivered: Vec<(PathBuf, String)>,
    /// Files whose end was delivered.
    pub(super) ended: Vec<FileKey>,
    /// Fails instead of consuming.
    pub(super) is_failing: bool,
    /// Consumes incomplete lines that have waited.
    pub(super) takes_waiting: bool,
    /// The longest time that a text waited.
    pub(super) waited_max: Duration,
}

#[derive(Debug)]
pub(super) struct LogMachine {
    pub(super) disk: LogDisk,
    pub(super) clock: Arc<sim::Clock>,
    pub(super) env: Env,
    pub(super) config: TailerConfig,
    pub(super) tailer: Tailer,
    pub(super) sink: SinkState,
    pub(super) written: Vec<String>,
    lines: u32,
    /// Prints what happens.
    pub(super) is_traced: bool,
}

/// Runs a scenario on both file systems.
pub(super) fn on_both(patterns: &[&str], scenario: impl Fn(&mut LogMachine)) {
    scenario(&mut LogMachine::simulated(patterns));
    scenario(&mut LogMachine::real(patterns));
}

impl LogMachine {
    pub(super) fn simulated(patterns: &[&str]) -> Self {
        let fs = sim::Fs::new();
        fs.create_dir_all(Path::new("/l")).unwrap();
        Self::new(LogDisk::Sim(fs), patterns)
    }

    pub(super) fn real(patterns: &[&str]) -> Self {
        Self::new(LogDisk::Real(tempfile::tempdir().unwrap()), patterns)
    }

    fn new(disk: LogDisk, patterns: &[&str]) -> Self {
        let clock = Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000));
        let fs: Arc<dyn bucksaw_env::Fs> = match &disk {
            LogDisk::Sim(fs) => {
                fs.use_clock(Arc::clone(&clock));
                Arc::new(fs.clone())
            }
            LogDisk::Real(_) => Arc::new(real::Fs),
        };
        let env = Env { fs, clock: Arc::clone(&clock) as _, entropy: Arc::new(sim::Entropy::seeded(1)) };
        let root = match &disk {
            LogDisk::Sim(_) => "/l".to_owned(),
            LogDisk::Real(dir) => dir.path().to_str().unwrap().to_owned(),
        };
        let patterns =
            patterns.iter().map(|pattern| PathPattern::parse(&format!("{root}/{pattern}")).unwrap()).collect();
        let config = TailerConfig { patterns, ..TailerConfig::default() };
        let tailer = Tailer::new(config.clone(), &env, Vec::new(), true);
        Self {
            disk,
            clock,
            env,
            config,
            tailer,
            sink: SinkState::default(),
            written: Vec::new(),
            lines: 0,
            is_traced: false,
        }
    }

    /// Starts again with these settings, as at the first start.
    pub(super) fn configure(&mut self, change: impl FnOnce(&mut TailerConfig)) {
        change(&mut self.config);
        self.tailer = Tailer::new(self.config.clone(), &self.env, Vec::new(), true);
    }

    pub(super) fn fs(&self) -> &sim::Fs {
        match &self.disk {
            LogDisk::Sim(fs) => fs,
            LogDisk::Real(_) => panic!("a real disk has no faults"),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        match &self.disk {
            LogDisk::Sim(_) => Path::new("/l").join(name),
            LogDisk::Real(dir) => dir.path().join(name),
        }
    }

    /// Time passes between two changes.
    fn tick(&self, what: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{}", what());
        }
        self.clock.advance(Duration::from_millis(10));
    }

    pub(super) fn append(&mut self, name: &str, bytes: &[u8]) {
        self.tick(|| {
            format!("append {name}: {}", bytes.escape_ascii().to_string().chars().take(20).collect::<String>())
        });
        let path = self.path(name);
        match &self.disk {
            LogDisk::Sim(fs) => fs.append_to(&path, bytes).unwrap(),
            LogDisk::Real(_) => {
                fs::OpenOptions::new().create(true).append(true).open(&path).unwrap().write_all(bytes).unwrap();
            }
        }
    }

    /// The next lines that differ from all others.
    pub(super) fn new_line(&mut self, name: &str) -> String {
        self.lines += 1;
        let line = format!("{:06} {name} {}", self.lines, "x".repeat(self.lines as usize * 7 % 40));
        self.written.push(line.clone());
        line
    }

    /// Appends new lines.
    pub(super) fn write(&mut self, name: &str, lines: usize) {
        for _ in 0..lines {
            let line = self.new_line(name) + "\n";
            self.append(name, line.as_bytes());
        }
    }

    pub(super) fn mkdir(&self, name: &str) {
        self.env.fs.create_dir_all(&self.path(name)).unwrap();
    }

    pub(super) fn remove_dir(&self, name: &str) {
        match &self.disk {
            LogDisk::Sim(fs) => fs.remove_dir_all(self.path(name)),
            LogDisk::Real(_) => fs::remove_dir_all(self.path(name)).unwrap(),
        }
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        self.tick(|| format!("rename {from} {to}"));
        self.env.fs.rename(&self.path(from), &self.path(to)).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        self.tick(|| format!("remove {name}"));
        self.env.fs.remove(&self.path(name)).unwrap();
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.env.fs.stat(&self.path(name)).is_ok()
    }

    /// Truncates in place and then appends.
    pub(super) fn write_from(&self, name: &str, size: usize, bytes: &[u8]) {
        self.tick(|| format!("truncate {name} to {size} and append {} bytes", bytes.len()));
        let path = self.path(name);
        match &self.disk {
            LogDisk::Sim(fs) => fs.write_from(&path, size, bytes).unwrap(),
            LogDisk::Real(_) => {
                let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
                file.set_len(size as u64).unwrap();
                file.write_all(bytes).unwrap();
            }
        }
    }

    pub(super) fn contents(&self, name: &str) -> Vec<u8> {
        let file = self.env.fs.open(&self.path(name)).unwrap();
        file.read_bytes(0, file.size().unwrap() as usize).unwrap()
    }

    pub(super) fn copy(&mut self, from: &str, to: &str) {
        let bytes = self.contents(from);
        self.append(to, &bytes);
    }

    /// Fills `app.log`, rotates and compresses it, and begins a new one, all before the next scan.
    pub(super) fn fill_rotate_and_compress(&mut self, extension: &str) {
        self.write("app.log", 24);
        self.rename("app.log", "app.log.1");
        self.write("app.log", 3);
        self.compress("app.log.1", extension);
    }

    /// Rotates `b.log`, whose new file must get this number, and then copies and truncates it, with scans in between.
    pub(super) fn rotate_into_number(&mut self, number: FileIdentity) {
        self.rename("b.log", "b.log.1");
        self.write("b.log", 5);
        assert_eq!(self.env.fs.stat(&self.path("b.log")).unwrap().identity, number);
        self.run();
        // A copy of it is known as one.
        self.copy("b.log", "b.log.2");
        self.write_from("b.log", 0, b"");
        self.write("b.log", 2);
        self.run();
    }

    /// Replaces a file by a compressed one, as `gzip` or `zstd --rm` does.
    pub(super) fn compress(&mut self, name: &str, extension: &str) {
        let bytes = self.contents(name);
        self.append(&format!("{name}.{extension}"), &packed(&bytes, extension));
        self.remove(name);
    }

    pub(super) fn symlink(&self, target: &str, link: &str) {
        let (target, link) = (self.path(target), self.path(link));
        match &self.disk {
            LogDisk::Sim(fs) => fs.symlink(target, link),
            LogDisk::Real(_) => {
                drop(fs::remove_file(&link));
                std::os::unix::fs::symlink(target, link).unwrap();
            }
        }
    }

    pub(super) fn scan(&mut self) {
        let changes = self.tailer.changes();
        self.tailer.scan();
        self.tick(|| "scan".to_owned());
        self.trace_files();
        if self.tailer.changes() != changes {
            self.persist();
        }
    }

    /// Persists all positions.
    pub(super) fn persist(&mut self) {
        self.sink.positions = self.tailer.positions().map(|position| (position.key, position.clone())).collect();
    }

    /// Reads until nothing more comes. Returns whether a scan is due.
    pub(super) fn read(&mut self) -> bool {
        let mut is_scan_due = false;
        loop {
            let report = self.read_once().unwrap();
            is_scan_due |= report.is_scan_due;
            if !report.has_more && report.consumed_bytes == 0 {
                return is_scan_due;
            }
        }
    }

    pub(super) fn read_once(&mut self) -> io::Result<crate::ReadReport> {
        let sink = &mut self.sink;
        let before = sink.delivered.len();
        let report = self.tailer.read(&mut |chunk| sink.consume(chunk));
        if self.is_traced {
            println!("read {report:?}: {:?}", &self.sink.delivered[before..]);
            self.trace_files();
        }
        report
    }

    pub(super) fn trace_files(&self) {
        for file in self.tailer.files.values().filter(|_| self.is_traced) {
            let position = &file.position;
            println!(
                "    {} {} at {}: {:?} inode {} offset {} of {}, {} known, missing {}, time {}{}",
                position.key.0 & 0xffff,
                position.path.display(),
                file.current_path.display(),
                file.stage,
                position.identity.inode,
                position.offset,
                position.size,
                position.fingerprint.length(),
                file.missing_scans,
                position.modified_ms % 10_000_000,
                if position.is_finished { ", finished" } else { "" },
            );
        }
        for held in self.tailer.held.iter().filter(|_| self.is_traced) {
            println!("    held {held:?}");
        }
    }

    /// Reads all files, as if the system had reported that each has grown.
    pub(super) fn wake_and_read(&mut self) {
        let idle: Vec<FileKey> = self.tailer.idle_files().collect();
        idle.into_iter().for_each(|key| self.tailer.wake(key));
        self.read();
    }

    /// Scans and reads a few times.
    pub(super) fn run(&mut self) {
        for _ in 0..4 {
            self.scan();
            self.read();
            self.clock.advance(Duration::from_secs(1));
        }
    }

    /// Runs until all files are idle and the detached ones are closed.
    pub(super) fn run_long(&mut self) {
        for _ in 0..8 {
            self.run();
            self.clock.advance(Duration::from_secs(400));
        }
        self.run();
        self.persist();
    }

    /// The tailer ends; another one starts where the sink is.
    pub(super) fn restart(&mut self) {
        let positions: Vec<u8> = self
            .sink
            .positions
            .values()
            .flat_map(|position| {
                let mut bytes = Vec::new();
                position.encode(&mut bytes);
                assert_eq!(FilePosition::decode(&bytes).as_ref(), Ok(position));
                bytes
            })
            .collect();
        assert!(self.sink.positions.is_empty() || !positions.is_empty());
        let positions = self.sink.positions.values().cloned().collect();
        self.tailer = Tailer::new(self.config.clone(), &self.env, positions, false);
        self.tick(|| "restart".to_owned());
        self.trace_files();
    }

    /// Each written line was delivered once.
    #[track_caller]
    pub(super) fn check(&self) {
        self.check_lines();
        assert_eq!(self.tailer.counters().gaps(), 0, "{:?}", self.tailer.gaps().collect::<Vec<_>>());
    }

    #[track_caller]
    pub(super) fn check_lines(&self) {
        let mut delivered = self.lines();
        delivered.sort_unstable();
        let mut written: Vec<&str> = self.written.iter().map(String::as_str).collect();
        written.sort_unstable();
        assert_eq!(delivered, written);
    }

    /// The lines of each path came in the order in which they were written.
    #[track_caller]
    pub(super) fn check_order(&self) {
        let mut last: BTreeMap<&Path, &str> = BTreeMap::new();
        for (path, line) in &self.sink.delivered {
            let before = last.insert(path, line);
            assert!(before.is_none_or(|before| before < line.as_str()), "{before:?} came before {line}");
        }
    }

    pub(super) fn lines(&self) -> Vec<&str> {
        self.sink.delivered.iter().map(|(_, line)| line.as_str()).collect()
    }
}

impl SinkState {
    /// Consumes whole lines; all of the text at the end of a file, or if it is full.
    pub(super) fn consume(&mut self, chunk: &FileChunk<'_>) -> io::Result<usize> {
        if self.is_failing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.waited_max = self.waited_max.max(chunk.waited);
        let lines_end = chunk.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let takes_waiting = self.takes_waiting && chunk.waited > Duration::ZERO;
        let end = if chunk.is_end || takes_waiting || (chunk.is_full && lines_end == 0) {
            chunk.text.len()
        } else {
            lines_end
        };
        for line in chunk.text[..end].split_inclusive(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned();
            self.delivered.push((chunk.path.to_owned(), line));
        }
        self.positions.insert(chunk.key, chunk.position_after(end));
        if chunk.is_end {
            self.ended.push(chunk.key);
        }
        Ok(end)
    }
}

pub(super) fn packed(bytes: &[u8], extension: &str) -> Vec<u8> {
    if extension == "zst" {
        return zstd::stream::encode_all(bytes, 3).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
