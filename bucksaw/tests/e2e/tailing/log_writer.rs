//! A program that writes a log file, and the rotations that others do to it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Writes numbered lines to a file that it keeps open.
pub(super) struct LogFileWriter {
    path: PathBuf,
    file: File,
    lines: Vec<String>,
    /// The beginning of a line.
    begun: String,
    /// The number of the next line.
    next: usize,
}

impl LogFileWriter {
    pub(super) fn new(path: &Path) -> Self {
        let file = File::options().create(true).append(true).open(path).unwrap();
        Self { path: path.to_owned(), file, lines: Vec::new(), begun: String::new(), next: 0 }
    }

    /// The name of the file.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// The whole lines that were written, without LF.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Forgets the lines from this one on, because they were lost by intent.
    pub(super) fn forget_lines(&mut self, from: usize) {
        self.lines.truncate(from);
    }

    pub(super) fn write_lines(&mut self, count: usize) {
        let mut text = String::new();
        for _ in 0..count {
            let number = self.next;
            self.next += 1;
            let line = format!("{} {number} {}", self.name(), "x".repeat(number * 37 % 150));
            text += &format!("{line}\n");
            let whole = std::mem::take(&mut self.begun) + &line;
            self.lines.push(whole);
        }
        self.file.write_all(text.as_bytes()).unwrap();
    }

    /// Writes a part of a line.
    pub(super) fn write(&mut self, text: &[u8]) {
        self.file.write_all(text).unwrap();
        self.begun += std::str::from_utf8(text).unwrap();
    }

    /// Ends a line that was begun, with a name and a number that make it unique.
    pub(super) fn end_line(&mut self) {
        let end = format!(" {} {}\n", self.name(), self.next);
        self.next += 1;
        self.write(end.as_bytes());
        let line = std::mem::take(&mut self.begun);
        self.lines.push(line.trim_end().to_owned());
    }

    /// Renames the file; later lines still go to it.
    pub(super) fn rename_away(&self, name: &str) {
        fs::rename(&self.path, self.path.with_file_name(name)).unwrap();
    }

    /// Opens the path again.
    pub(super) fn reopen(&mut self) {
        if !self.begun.is_empty() {
            self.end_line();
        }
        self.file = File::options().create(true).append(true).open(&self.path).unwrap();
    }

    /// Copies the file and truncates it, as `logrotate` does with `copytruncate`.
    pub(super) fn copy_and_truncate(&self, name: &str) {
        fs::copy(&self.path, self.path.with_file_name(name)).unwrap();
        self.file.set_len(0).unwrap();
    }

    /// Compresses a rotated file.
    pub(super) fn compress(&self, name: &str) {
        let path = self.path.with_file_name(name);
        let out = File::create(self.path.with_file_name(format!("{name}.gz"))).unwrap();
        let mut encoder = GzEncoder::new(out, Compression::default());
        encoder.write_all(&fs::read(&path).unwrap()).unwrap();
        encoder.finish().unwrap();
        fs::remove_file(path).unwrap();
    }
}
