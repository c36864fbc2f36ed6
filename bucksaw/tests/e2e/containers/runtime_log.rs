//! A log file as a container runtime writes it, and the lines that the container wrote.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bucksaw_record::Millis;
use bucksaw_record::time::format_rfc3339;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuntimeFormat {
    Cri,
    Docker,
}

/// A line of the container, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredLine {
    pub(super) line: String,
    pub(super) stream: String,
    pub(super) time: String,
}

pub(super) struct RuntimeLog {
    format: RuntimeFormat,
    path: PathBuf,
    file: File,
    lines: Vec<StoredLine>,
    /// The begun line of each stream.
    begun: BTreeMap<String, StoredLine>,
    /// Microseconds since 1970 of the last line.
    now: u64,
}

impl RuntimeLog {
    pub(super) fn new(format: RuntimeFormat, path: &Path) -> Self {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::options().create(true).append(true).open(path).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        // In the past, so that no time is ahead of the clock.
        let now = u64::try_from(now).unwrap() - 3_600_000_000;
        Self { format, path: path.to_owned(), file, lines: Vec::new(), begun: BTreeMap::new(), now }
    }

    /// The whole lines that were written.
    pub(super) fn lines(&self) -> &[StoredLine] {
        &self.lines
    }

    /// Writes a part that the next one of the stream continues.
    pub(super) fn write_part(&mut self, stream: &str, text: &str) {
        self.write(stream, text, true);
    }

    /// Writes a line, or the end of one.
    pub(super) fn write_line(&mut self, stream: &str, text: &str) {
        self.write(stream, text, false);
    }

    /// Writes lines of both streams, some in parts.
    pub(super) fn write_lines(&mut self, count: usize) {
        for number in 0..count {
            let stream = if number % 3 == 0 { "stderr" } else { "stdout" };
            let number = self.lines.len();
            if number.is_multiple_of(4) {
                self.write_part("stdout", "one \"part\", ");
                self.write_part(stream, "another\t");
            }
            self.write_line(stream, &format!("line {number} \\ ä {}", "x".repeat(number * 37 % 90)));
            if self.begun.contains_key("stdout") {
                self.write_line("stdout", "end");
            }
        }
    }

    /// Renames the file and begins another one.
    pub(super) fn rotate(&mut self, number: usize) {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        fs::rename(&self.path, name).unwrap();
        self.file = File::options().create(true).append(true).open(&self.path).unwrap();
    }

    fn write(&mut self, stream: &str, text: &str, is_partial: bool) {
        self.now += 1_234;
        let time = format_rfc3339(Millis(self.now / 1_000), (self.now % 1_000 * 1_000) as u32);
        let written = match self.format {
            RuntimeFormat::Cri => format!("{time} {stream} {} {text}\n", if is_partial { "P" } else { "F" }),
            RuntimeFormat::Docker => {
                let log = format!("{text}{}", if is_partial { "" } else { "\n" });
                format!("{{\"log\":{},\"stream\":\"{stream}\",\"time\":\"{time}\"}}\n", serde_json::json!(log))
            }
        };
        self.file.write_all(written.as_bytes()).unwrap();
        let begun = self.begun.remove(stream);
        let mut line = begun.unwrap_or_else(|| StoredLine { line: String::new(), stream: stream.to_owned(), time });
        line.line += text;
        if is_partial {
            self.begun.insert(stream.to_owned(), line);
        } else {
            self.lines.push(line);
        }
    }
}
