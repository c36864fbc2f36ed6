//! The input: a file, the files of a directory, or generated lines.
//!
//! Generated lines depend only on their number, so all machines send the same bytes. Counting the lines reads the
//! whole file into the page cache. The file is dropped from the cache before: after a read the cache holds larger
//! pieces than after many small writes, which saves a rival that maps the file up to two thirds of its CPU.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use bucksaw_generate::{Config, Generator, SampleFormat};
use rustix::fs::{Advice, fadvise};

/// The time of the first generated line in milliseconds since 1970, and the number of lines with the same time.
const FIRST_MS: u64 = 1_767_225_600_000;
const LINES_PER_MS: u64 = 20;

/// Bytes of a read.
const PIECE: usize = 1 << 20;

/// A file of lines.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Description of the input.
    pub(crate) about: String,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Its number of lines, including a last one without line feed.
    pub(crate) lines: u64,
}

impl Corpus {
    /// Uses the file at `from`, or joins and repeats the files of a directory, or generates lines if `from` is empty.
    /// Writes about `bytes` bytes to `draft` in the last two cases.
    pub(crate) fn prepare(from: &str, bytes: u64, draft: &Path) -> anyhow::Result<Self> {
        let source = Path::new(from);
        if from.is_empty() {
            generate(bytes, draft).context("cannot generate lines")?;
            return Self::of(draft.to_owned(), "generated".into());
        }
        let name = source.file_name().unwrap_or(source.as_os_str()).to_string_lossy().into_owned();
        if source.is_dir() {
            join(source, bytes, draft).with_context(|| format!("cannot join the files of {from}"))?;
            return Self::of(draft.to_owned(), format!("files of {name}, repeated"));
        }
        Self::of_file(source)
    }

    /// Uses a file.
    pub(crate) fn of_file(path: &Path) -> anyhow::Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self::of(path.to_owned(), name)
    }

    fn of(path: PathBuf, about: String) -> anyhow::Result<Self> {
        let mut file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // Fails on file systems without writeback, where nothing is dirty.
        let _ = file.sync_data();
        fadvise(&file, 0, None, Advice::DontNeed).context("cannot drop a file from the page cache")?;
        let (mut bytes, mut lines, mut last) = (0, 0, b'\n');
        let mut piece = vec![0; PIECE];
        loop {
            let read = file.read(&mut piece).with_context(|| format!("cannot read {}", path.display()))?;
            let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else { break };
            bytes += read as u64;
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            last = piece.last().copied().unwrap_or(last);
        }
        ensure!(bytes > 0, "{} is empty", path.display());
        lines += u64::from(last != b'\n');
        let corpus = Self { path, about, bytes, lines };
        eprintln!("{}: {:.0} MB, {} lines, {} bytes per line", corpus.about, bytes as f64 / 1e6, lines, bytes / lines);
        Ok(corpus)
    }

    /// The file name up to the first dot.
    pub(crate) fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The ranges of batches of about `size` bytes, split at line ends.
    pub(crate) fn batches(&self, size: u64) -> anyhow::Result<Vec<(u64, u64)>> {
        let file = File::open(&self.path)?;
        let mut batches = Vec::new();
        let mut start = 0;
        while start < self.bytes {
            let end = line_end(&file, (start + size).min(self.bytes), self.bytes)?;
            batches.push((start, end));
            start = end;
        }
        Ok(batches)
    }

    /// The first lines, about `size` bytes.
    pub(crate) fn sample(&self, size: u64) -> anyhow::Result<Vec<u8>> {
        let mut sample = vec![0; usize::try_from(size.min(self.bytes))?];
        File::open(&self.path)?.read_exact_at(&mut sample, 0)?;
        let end = memchr::memrchr(b'\n', &sample).context("the sample contains no complete line")?;
        sample.truncate(end + 1);
        Ok(sample)
    }
}

/// The end of the line that contains `at`.
fn line_end(file: &File, at: u64, bytes: u64) -> anyhow::Result<u64> {
    let mut from = at.saturating_sub(1);
    let mut piece = [0; 4096];
    while from < bytes {
        let read = file.read_at(&mut piece, from)?;
        let seen = piece.get(..read).unwrap_or_default();
        if let Some(found) = memchr::memchr(b'\n', seen) {
            return Ok(from + found as u64 + 1);
        }
        ensure!(read > 0, "the corpus became shorter");
        from += read as u64;
    }
    Ok(bytes)
}

fn generate(bytes: u64, path: &Path) -> anyhow::Result<()> {
    let mut generator = Generator::new(Config { format: SampleFormat::Text, size: None, seed: 1 }, FIRST_MS);
    let mut file = File::create(path)?;
    let (mut batch, mut written, mut count) = (Vec::with_capacity(2 * PIECE), 0, 0);
    while written < bytes {
        batch.clear();
        while batch.len() < PIECE && written + (batch.len() as u64) < bytes {
            generator.append_line(&mut batch, FIRST_MS + count / LINES_PER_MS);
            count += 1;
        }
        file.write_all(&batch)?;
        written += batch.len() as u64;
    }
    Ok(())
}

fn join(dir: &Path, bytes: u64, path: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|name| name == "log" || name == "ndjson") {
            files.push(path);
        }
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let mut text = fs::read(&file)?;
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
        texts.push(text);
    }
    if texts.iter().all(Vec::is_empty) {
        bail!("no lines in files named *.log or *.ndjson");
    }
    let mut out = BufWriter::new(File::create(path)?);
    let mut written = 0;
    for text in texts.iter().cycle() {
        if written >= bytes {
            break;
        }
        out.write_all(text)?;
        written += text.len() as u64;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_contain_complete_lines_and_cover_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let text = (0..5_000).map(|n| format!("{}\n", "x".repeat(n * 37 % 9_001))).collect::<String>() + "no line feed";
        fs::write(&path, &text).unwrap();
        let corpus = Corpus::prepare(path.to_str().unwrap(), 0, Path::new("")).unwrap();
        assert_eq!((corpus.bytes, corpus.lines), (text.len() as u64, 5_001));
        let batches = corpus.batches(100_000).unwrap();
        assert!(batches.len() > 100);
        let mut at = 0;
        for (start, end) in batches {
            assert_eq!(start, at);
            assert!(end == corpus.bytes || text.as_bytes()[end as usize - 1] == b'\n');
            assert!(end - start < 100_000 + 9_002);
            at = end;
        }
        assert_eq!(at, corpus.bytes);
    }

    #[test]
    fn the_requested_bytes_are_generated() {
        let dir = tempfile::tempdir().unwrap();
        let corpus = Corpus::prepare("", 3_000_000, &dir.path().join("lines")).unwrap();
        assert!((3_000_000..3_010_000).contains(&corpus.bytes), "{}", corpus.bytes);
        assert!(corpus.sample(1_000_000).unwrap().ends_with(b"\n"));
    }
}
