//! Programs that write and rotate log files on a simulated disk.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bucksaw_env::sim::Fs;
use bucksaw_env::{Fs as _, sim};
use bucksaw_fixtures::Random;

/// The directory of the logs.
pub(super) const LOG_DIR: &str = "/logs";

/// The directory of the logs of a pod.
pub(super) const POD_LOG_DIR: &str = "/var/log/pods/shop_cart_u1/web";

/// How a program rotates its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogRotation {
    Rename,
    CopyTruncate,
    /// The newest rotated file is compressed at once.
    Compress,
    /// It is compressed by the next rotation.
    CompressLater,
    /// The file is truncated without a copy.
    Truncate,
    /// The file is removed without a copy.
    Remove,
}

/// A log of one program.
pub(super) struct SimLog {
    path: PathBuf,
    rotation: LogRotation,
    /// Whether a rotation creates the next file, as logrotate's `create` does.
    creates_empty_file: bool,
    /// The rotated files, the newest first.
    rotated: Vec<PathBuf>,
    /// Lines of the current file.
    current: Vec<String>,
    /// An incomplete line at its end.
    incomplete: bool,
}

impl fmt::Debug for SimLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, rotation, rotated, current, incomplete, .. } = self;
        write!(f, "{path:?} {rotation:?} {rotated:?}, {} lines, incomplete: {incomplete}", current.len())
    }
}

/// All logs, and what was written to them.
#[derive(Debug)]
pub(super) struct LogFiles {
    pub(super) logs: Vec<SimLog>,
    pub(super) written: Vec<String>,
    /// Lines of files that were truncated or removed without a copy.
    pub(super) removed: Vec<String>,
    /// Lines without an end at the end of rotated files, which match a pattern and may grow, so that the lines wait.
    pub(super) unended: Vec<String>,
    line_bytes: usize,
}

impl LogFiles {
    /// One to three logs in a directory. Some scenarios lose lines that were not read.
    pub(super) fn new(rng: &mut Random, may_lose: bool, dir: &str) -> Self {
        use LogRotation::{Compress, CompressLater, CopyTruncate, Remove, Rename, Truncate};
        let kept = [Rename, CopyTruncate, Compress, CompressLater];
        let all = [Rename, CopyTruncate, Compress, CompressLater, Truncate, Remove];
        let count = 1 + rng.below(3);
        let mut log = |name: &&str| SimLog {
            path: Path::new(dir).join(name),
            rotation: if may_lose { *rng.pick(&all) } else { *rng.pick(&kept) },
            creates_empty_file: rng.one_in(2),
            rotated: Vec::new(),
            current: Vec::new(),
            incomplete: false,
        };
        let logs = ["a.log", "b.log", "c.log"][..count].iter().map(&mut log).collect();
        Self {
            logs,
            written: Vec::new(),
            removed: Vec::new(),
            unended: Vec::new(),
            line_bytes: *rng.pick(&[20, 200, 4_000]),
        }
    }

    /// Whether a log is copied and truncated. While no agent reads such a log, not every copy can be recognised.
    pub(super) fn copies(&self) -> bool {
        self.logs.iter().any(|log| log.rotation == LogRotation::CopyTruncate)
    }

    fn new_line(&mut self, rng: &mut Random) -> String {
        // The end of a line tells it apart too: the tailer recognises files by the bytes before its position.
        let number = format!("{:06} ", self.written.len());
        let line = number.repeat(1 + rng.below(self.line_bytes) / number.len());
        self.written.push(line.clone());
        line
    }

    /// Writes whole lines, after the end of an incomplete one.
    pub(super) fn write(&mut self, fs: &Fs, at: usize, lines: usize, rng: &mut Random) {
        let mut text = String::new();
        if std::mem::take(&mut self.logs[at].incomplete) {
            text.push('\n');
        }
        for _ in 0..lines {
            let line = self.new_line(rng);
            text.push_str(&line);
            text.push('\n');
            self.logs[at].current.push(line);
        }
        append(fs, &self.logs[at].path, text.as_bytes());
    }

    /// Writes a line without its end.
    pub(super) fn begin_line(&mut self, fs: &Fs, at: usize, rng: &mut Random) {
        if !self.logs[at].incomplete {
            let line = self.new_line(rng);
            append(fs, &self.logs[at].path, line.as_bytes());
            self.logs[at].current.push(line);
            self.logs[at].incomplete = true;
        }
    }

    /// Ends all incomplete lines.
    pub(super) fn complete_lines(&mut self, fs: &Fs, rng: &mut Random) {
        (0..self.logs.len()).for_each(|at| self.write(fs, at, 0, rng));
    }

    /// Rotates a log. An incomplete line stays where it is.
    pub(super) fn rotate(&mut self, fs: &Fs, at: usize) {
        let log = &mut self.logs[at];
        let Some(contents) = fs.live_bytes(&log.path) else { return };
        let lines = std::mem::take(&mut log.current);
        if std::mem::take(&mut log.incomplete) {
            self.unended.extend(lines.last().cloned());
        }
        match log.rotation {
            LogRotation::Truncate => {
                self.removed.extend(lines);
                fs.write_from(&log.path, 0, b"").unwrap();
            }
            LogRotation::Remove => {
                self.removed.extend(lines);
                fs.remove(&log.path).unwrap();
            }
            rotation => {
                log.shift(fs);
                let newest = PathBuf::from(format!("{}.1", log.path.display()));
                if rotation == LogRotation::CopyTruncate {
                    append(fs, &newest, &contents);
                    fs.write_from(&log.path, 0, b"").unwrap();
                } else {
                    fs.rename(&log.path, &newest).unwrap();
                }
                log.rotated.insert(0, newest);
                match rotation {
                    LogRotation::Compress => log.compress(fs, 0),
                    LogRotation::CompressLater if log.rotated.len() > 1 => log.compress(fs, 1),
                    _ => {}
                }
                if rotation != LogRotation::CopyTruncate && log.creates_empty_file {
                    append(fs, &log.path, b"");
                }
            }
        }
        sync(fs);
    }
}

impl SimLog {
    /// Renames `.1` to `.2` and so on.
    fn shift(&mut self, fs: &Fs) {
        for at in (0..self.rotated.len()).rev() {
            let old = &self.rotated[at];
            let new = old.display().to_string().replace(&format!(".log.{}", at + 1), &format!(".log.{}", at + 2));
            fs.rename(old, Path::new(&new)).unwrap();
            self.rotated[at] = PathBuf::from(new);
        }
    }

    fn compress(&mut self, fs: &Fs, at: usize) {
        let path = &self.rotated[at];
        if path.extension().is_some_and(|extension| extension == "gz") {
            return;
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&fs.live_bytes(path).unwrap()).unwrap();
        let packed = PathBuf::from(format!("{}.gz", path.display()));
        append(fs, &packed, &encoder.finish().unwrap());
        fs.remove(path).unwrap();
        self.rotated[at] = packed;
    }
}

fn append(fs: &Fs, path: &Path, bytes: &[u8]) {
    fs.append_to(path, bytes).unwrap();
    sync(fs);
}

/// Makes the logs durable: power cuts are to test what the agent wrote, not what programs lost.
fn sync(fs: &sim::Fs) {
    for dir in [LOG_DIR, POD_LOG_DIR].map(Path::new) {
        let paths: Vec<PathBuf> = fs.paths().into_iter().filter(|path| path.starts_with(dir)).collect();
        paths.iter().for_each(|path| fs.open(path).unwrap().sync().unwrap());
        // One of the two is missing.
        let _ = fs.sync_dir(dir);
    }
}
