//! Writers: processes of applications, each a thread here.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::load::EdgeLoad;

/// How often a writer of a file wakes up. It writes each line by a call of its own, as applications do.
const FILE_INTERVAL: Duration = Duration::from_millis(1);

/// How often a writer sends a message with the lines since the last one, as clients with a buffer do.
const PUSH_INTERVAL: Duration = Duration::from_millis(10);

/// Rotated files that are kept, as container runtimes do.
const ROTATED_FILES: u32 = 5;

/// Takes the lines of one writer.
pub(super) trait LineTarget: Send {
    /// Writes the lines with these numbers.
    fn write(&mut self, lines: Range<u64>) -> anyhow::Result<()>;

    /// The time between two writes.
    fn interval(&self) -> Duration;
}

/// A file that is renamed and created anew when it is long enough.
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
    line_bytes: u64,
    bytes: u64,
    rotate_bytes: u64,
}

impl RotatedFile {
    pub(super) fn create(path: &Path, line_bytes: u64, rotate_bytes: u64) -> anyhow::Result<Self> {
        let file = append(path)?;
        Ok(Self { path: path.to_owned(), file, line_bytes, bytes: 0, rotate_bytes })
    }

    /// `x.log.1` is the newest rotated file.
    fn rotated(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    fn rotate(&mut self) -> anyhow::Result<()> {
        for number in (1..ROTATED_FILES).rev() {
            // Fails if there are not that many yet.
            let _ = fs::rename(self.rotated(number), self.rotated(number + 1));
        }
        fs::rename(&self.path, self.rotated(1))?;
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("cannot create {}", path.display()))
}

impl LineTarget for RotatedFile {
    fn write(&mut self, lines: Range<u64>) -> anyhow::Result<()> {
        for number in lines {
            let line = docker_line(self.line_bytes, number);
            self.file.write_all(line.as_bytes())?;
            self.bytes += line.len() as u64;
            if self.bytes >= self.rotate_bytes {
                self.rotate()?;
            }
        }
        Ok(())
    }

    fn interval(&self) -> Duration {
        FILE_INTERVAL
    }
}

/// A connection with the forward protocol of Fluentd, in its packed mode.
pub(super) struct FluentConnection {
    stream: TcpStream,
    line_bytes: u64,
}

impl FluentConnection {
    pub(super) fn connect(address: &str, line_bytes: u64) -> anyhow::Result<Self> {
        Ok(Self { stream: connect(address)?, line_bytes })
    }
}

impl LineTarget for FluentConnection {
    fn write(&mut self, lines: Range<u64>) -> anyhow::Result<()> {
        let mut entries = Vec::new();
        for number in lines {
            let now = jiff::Timestamp::now();
            rmp::encode::write_array_len(&mut entries, 2)?;
            rmp::encode::write_ext_meta(&mut entries, 8, 0)?;
            entries.extend((now.as_second() as u32).to_be_bytes());
            entries.extend(now.subsec_nanosecond().unsigned_abs().to_be_bytes());
            rmp::encode::write_map_len(&mut entries, 2)?;
            for (name, value) in [("log", &*text(self.line_bytes, number)), ("stream", "stdout")] {
                rmp::encode::write_str(&mut entries, name)?;
                rmp::encode::write_str(&mut entries, value)?;
            }
        }
        let mut message = Vec::with_capacity(entries.len() + 32);
        rmp::encode::write_array_len(&mut message, 2)?;
        rmp::encode::write_str(&mut message, "edge")?;
        rmp::encode::write_bin(&mut message, &entries)?;
        Ok(self.stream.write_all(&message)?)
    }

    fn interval(&self) -> Duration {
        PUSH_INTERVAL
    }
}

/// A connection with messages of RFC 5424, each ended by an LF.
pub(super) struct SyslogConnection {
    stream: TcpStream,
    line_bytes: u64,
}

impl SyslogConnection {
    pub(super) fn connect(address: &str, line_bytes: u64) -> anyhow::Result<Self> {
        Ok(Self { stream: connect(address)?, line_bytes })
    }
}

impl LineTarget for SyslogConnection {
    fn write(&mut self, lines: Range<u64>) -> anyhow::Result<()> {
        let mut message = String::new();
        for number in lines {
            let now = jiff::Timestamp::now();
            message.push_str(&format!("<14>1 {now:.6} edge writer - - - {}\n", text(self.line_bytes, number)));
        }
        Ok(self.stream.write_all(message.as_bytes())?)
    }

    fn interval(&self) -> Duration {
        PUSH_INTERVAL
    }
}

fn connect(address: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Runs all writers at the rate of the load, and returns the seconds that they took. `written` counts their lines.
pub(super) fn write_all(
    targets: &mut [Box<dyn LineTarget>],
    load: &EdgeLoad,
    seconds: u64,
    written: &AtomicU64,
) -> anyhow::Result<f64> {
    let lines = load.lines_per_writer(seconds);
    let started = Instant::now();
    thread::scope(|scope| {
        let writers: Vec<_> = targets
            .iter_mut()
            .map(|target| scope.spawn(|| write_at_rate(&mut **target, lines, seconds, written)))
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked")))
    })?;
    Ok(started.elapsed().as_secs_f64())
}

fn write_at_rate(target: &mut dyn LineTarget, lines: u64, seconds: u64, counter: &AtomicU64) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut written = 0;
    while written < lines {
        let due = (started.elapsed().as_secs_f64() / seconds as f64 * lines as f64) as u64;
        let due = due.min(lines);
        if due > written {
            // Line 0 is the one before the measurement.
            target.write(written + 1..due + 1)?;
            counter.fetch_add(due - written, Ordering::Relaxed);
            written = due;
        }
        thread::sleep(target.interval());
    }
    Ok(())
}

/// A line of a container's log in the form of Docker's `json-file`, with its line end `length` bytes long.
pub(super) fn docker_line(length: u64, number: u64) -> String {
    let tail = format!("\\n\",\"stream\":\"stdout\",\"time\":\"{:.9}\"}}\n", jiff::Timestamp::now());
    let head = "{\"log\":\"";
    let text = text(length.saturating_sub((head.len() + tail.len()) as u64), number);
    format!("{head}{text}{tail}")
}

/// The message of an application, with at least the length of its beginning.
fn text(length: u64, number: u64) -> String {
    let head = format!("request {number} ");
    let filler = usize::try_from(length).unwrap_or_default().saturating_sub(head.len());
    format!("{head}{}", "x".repeat(filler))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_length() {
        let line = docker_line(100, 7);
        assert_eq!((line.len(), line.matches('\n').count()), (100, 1));
        assert!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["log"].is_string());
        assert_eq!(text(40, 7).len(), 40);
    }

    #[test]
    fn files_are_rotated_and_the_oldest_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = RotatedFile::create(&dir.path().join("a.log"), 100, 250).unwrap();
        file.write(0..24).unwrap();
        let mut lengths: Vec<(String, u64)> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
            .collect();
        lengths.sort();
        let rotated = (1..=ROTATED_FILES).map(|number| (format!("a.log.{number}"), 300));
        assert_eq!(lengths, [("a.log".to_owned(), 0)].into_iter().chain(rotated).collect::<Vec<_>>());
    }
}
