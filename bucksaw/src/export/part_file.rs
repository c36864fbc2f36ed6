//! The unfinished file of an export, and how far it is.
//!
//! `FILE.part` has the records of all complete pages: for NDJSON as they will be, for Parquet as NDJSON in a frame of zstd per page,
//! because a Parquet file cannot be continued. `FILE.part.json` is replaced after each page and names the bytes that count;
//! what is behind them is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bucksaw_env::{real, replace};
use serde::{Deserialize, Serialize};

use super::format::ExportFormat;
use super::parquet_file;
use crate::progress::Progress;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The level of zstd for records that become Parquet.
const ZSTD_LEVEL: i32 = 1;

/// What is exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) expression: String,
    /// The range as typed, by which a repeated command is recognised.
    pub(super) begin: String,
    pub(super) end: String,
    /// The range as it was at the first start, as RFC 3339.
    pub(super) from: String,
    pub(super) to: String,
}

/// How far an export is.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    question: Question,
    format: ExportFormat,
    /// The id of the last record.
    after: Option<String>,
    records: u64,
    /// Bytes of the part file.
    bytes: u64,
}

/// An unfinished export to a file.
pub(super) struct PartFile {
    /// The file that is there in the end.
    path: PathBuf,
    part_path: PathBuf,
    checkpoint_path: PathBuf,
    file: File,
    /// Writes to `file`; `None` between two pages.
    writer: Option<PageWriter>,
    checkpoint: Checkpoint,
}

/// Writes the records of a page.
enum PageWriter {
    Plain(BufWriter<File>),
    Packed(zstd::Encoder<'static, BufWriter<File>>),
}

impl PageWriter {
    fn write(&mut self, object: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(writer) => writer.write_all(object).and_then(|()| writer.write_all(b"\n")),
            Self::Packed(writer) => writer.write_all(object).and_then(|()| writer.write_all(b"\n")),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut writer) => writer.flush(),
            Self::Packed(writer) => writer.finish()?.flush(),
        }
    }
}

impl PartFile {
    /// Begins an export, or goes on with the one that the same command began.
    pub(super) fn open(path: &Path, format: ExportFormat, question: Question) -> anyhow::Result<Self> {
        let shown = path.display();
        if fs::symlink_metadata(path).is_ok() {
            bail!("{shown} exists: remove it, or name another file with -o");
        }
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let (part_path, checkpoint_path) = (beside(".part"), beside(".part.json"));
        let cannot_write = || format!("cannot write {}", part_path.display());
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(&part_path).with_context(cannot_write)?;
        if file.try_lock().is_err() {
            bail!("another export to {shown} is running");
        }
        let checkpoint = match read_checkpoint(&checkpoint_path)? {
            Some(found) => {
                let same = (&found.question.expression, &found.question.begin, &found.question.end, found.format)
                    == (&question.expression, &question.begin, &question.end, format);
                if !same {
                    bail!(
                        "{} belongs to an unfinished export of other records: repeat that command, or remove the file",
                        checkpoint_path.display()
                    );
                }
                if file.metadata()?.len() < found.bytes {
                    bail!(
                        "{} is shorter than it was: remove it and {}, and start again",
                        part_path.display(),
                        checkpoint_path.display()
                    );
                }
                found
            }
            None => Checkpoint { question, format, after: None, records: 0, bytes: 0 },
        };
        let mut part = Self { path: path.to_owned(), part_path, checkpoint_path, file, writer: None, checkpoint };
        part.roll_back()?;
        // A repeated command needs the range of the first one even if that has written no page.
        part.save()?;
        Ok(part)
    }

    pub(super) fn question(&self) -> &Question {
        &self.checkpoint.question
    }

    /// The last record, and the number of records up to it.
    pub(super) fn position(&self) -> (Option<String>, u64) {
        (self.checkpoint.after.clone(), self.checkpoint.records)
    }

    /// Appends a record.
    pub(super) fn write(&mut self, object: &[u8]) -> anyhow::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(page_writer(&self.file, self.checkpoint.format)?),
        };
        writer.write(object).with_context(|| format!("cannot write {}", self.part_path.display()))
    }

    /// Ends a page, whose last record has this id and number.
    pub(super) fn commit(&mut self, last: &str, records: u64) -> anyhow::Result<()> {
        let cannot_write = || format!("cannot write {}", self.part_path.display());
        if let Some(writer) = self.writer.take() {
            writer.finish().with_context(cannot_write)?;
        }
        self.file.sync_data().with_context(cannot_write)?;
        let bytes = self.file.metadata().with_context(cannot_write)?.len();
        (self.checkpoint.after, self.checkpoint.records, self.checkpoint.bytes) =
            (Some(last.to_owned()), records, bytes);
        self.save()
    }

    /// Removes what was written since the last page ended.
    pub(super) fn roll_back(&mut self) -> anyhow::Result<()> {
        // Writes what it has buffered, which is cut off then.
        self.writer = None;
        let cut = self.file.set_len(self.checkpoint.bytes);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(self.checkpoint.bytes)))
            .map(drop)
            .with_context(|| format!("cannot write {}", self.part_path.display()))
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self: Box<Self>, progress: &mut Progress) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let cannot_write = || format!("cannot write {shown}");
        let complete = match self.checkpoint.format {
            ExportFormat::Ndjson => {
                self.file.sync_all().with_context(cannot_write)?;
                self.part_path.clone()
            }
            ExportFormat::Parquet => {
                let draft = self.part_path.with_extension("draft");
                self.file.seek(SeekFrom::Start(0)).with_context(cannot_write)?;
                let records = zstd::Decoder::new(BufReader::new(&self.file)).with_context(cannot_write)?;
                let file = File::create(&draft).with_context(cannot_write)?;
                let total = self.checkpoint.records;
                parquet_file::write(BufReader::new(records), &file, |done| {
                    if progress.is_due() {
                        progress.show(&format!(", {done} of {total} records"));
                    }
                })
                .with_context(cannot_write)?;
                file.sync_all().with_context(cannot_write)?;
                draft
            }
        };
        fs::rename(&complete, &self.path).with_context(cannot_write)?;
        // The records are safe; without these files the next export to this name begins anew.
        for path in [&self.part_path, &self.checkpoint_path] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", path.display()));
                }
                _ => {}
            }
        }
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir).and_then(|dir| dir.sync_all()).with_context(cannot_write)
    }

    fn save(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(&self.checkpoint)?;
        replace(&real::Fs, &self.checkpoint_path, &[&text])
            .with_context(|| format!("cannot write {}", self.checkpoint_path.display()))
    }
}

fn page_writer(file: &File, format: ExportFormat) -> anyhow::Result<PageWriter> {
    let writer = BufWriter::with_capacity(BUFFER_BYTES, file.try_clone().context("cannot open the file again")?);
    Ok(match format {
        ExportFormat::Ndjson => PageWriter::Plain(writer),
        ExportFormat::Parquet => {
            PageWriter::Packed(zstd::Encoder::new(writer, ZSTD_LEVEL).context("cannot start zstd")?)
        }
    })
}

fn read_checkpoint(path: &Path) -> anyhow::Result<Option<Checkpoint>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let found = serde_json::from_slice(&text);
    found.map(Some).with_context(|| format!("{} is damaged: remove it to start again", path.display()))
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn question(expression: &str) -> Question {
        let text = |text: &str| text.to_owned();
        Question { expression: text(expression), begin: text("1h"), end: text("now"), from: text("a"), to: text("b") }
    }

    fn open(path: &Path, expression: &str) -> anyhow::Result<PartFile> {
        PartFile::open(path, ExportFormat::Ndjson, question(expression))
    }

    /// Opens a file that was closed. A child process that another test starts has the lock until it runs its program.
    fn reopen(path: &Path, expression: &str) -> anyhow::Result<PartFile> {
        for _ in 0..1_000 {
            match open(path, expression) {
                Err(error) if error.to_string().starts_with("another export to ") => {
                    thread::sleep(Duration::from_millis(5));
                }
                opened => return opened,
            }
        }
        open(path, expression)
    }

    #[test]
    fn pages_that_did_not_end_are_cut_off() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("out.ndjson");
        let mut part = open(&path, "x").unwrap();
        part.write(b"{1}").unwrap();
        part.write(b"{2}").unwrap();
        part.commit("02", 2).unwrap();
        part.write(b"{3}").unwrap();
        part.roll_back().unwrap();
        part.write(b"{4}").unwrap();
        // As a killed process leaves it.
        drop(part);
        let mut part = reopen(&path, "x").unwrap();
        assert_eq!(part.position(), (Some("02".to_owned()), 2));
        part.write(b"{5}").unwrap();
        part.commit("05", 3).unwrap();
        Box::new(part).finish(&mut Progress::none()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{1}\n{2}\n{5}\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn other_records_and_damaged_files_are_refused() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("out.ndjson");
        let error = |expression: &str| reopen(&path, expression).err().unwrap().to_string();
        let part = open(&path, "x").unwrap();
        let second = open(&path, "x").err().unwrap().to_string();
        assert!(second.starts_with("another export to "), "{second}");
        drop(part);
        assert!(error("y").contains("belongs to an unfinished export of other records"), "{}", error("y"));
        let checkpoint = path.with_extension("ndjson.part.json");
        fs::write(&checkpoint, b"{").unwrap();
        assert!(error("x").contains("is damaged: remove it to start again"), "{}", error("x"));
        fs::remove_file(&checkpoint).unwrap();
        let mut part = reopen(&path, "x").unwrap();
        part.write(b"{1}").unwrap();
        part.commit("01", 1).unwrap();
        drop(part);
        fs::write(path.with_extension("ndjson.part"), b"").unwrap();
        assert!(error("x").contains("is shorter than it was"), "{}", error("x"));
        fs::write(&path, b"").unwrap();
        assert!(error("x").ends_with("exists: remove it, or name another file with -o"), "{}", error("x"));
    }
}
