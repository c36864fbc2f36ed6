//! The program, the directory, the input and the results of all measurements.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use clap::Args;
use tempfile::TempDir;

use crate::corpus::Corpus;
use crate::node::BenchNode;
use crate::results::BenchResults;
use crate::{machine, program};

/// Options of all measurements.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The program; `bucksaw` beside this program if omitted
    #[arg(long, global = true, value_name = "FILE")]
    bucksaw: Option<PathBuf>,

    /// Directory for temporary files, which are removed at the end
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// A file of lines, or a directory whose files are joined and repeated; generated lines if omitted
    #[arg(long, global = true, value_name = "PATH", env = "BUCKSAW_CORPUS", default_value = "")]
    corpus: String,

    /// Bytes to generate or to repeat a directory to; K, M and G are powers of 1000
    #[arg(long, global = true, value_name = "SIZE", default_value = "1GB")]
    bytes: Size,

    /// Directory for the CSV results
    #[arg(long, global = true, value_name = "DIR", default_value = "bench/results")]
    results: PathBuf,
}

/// The validated options, with a temporary directory.
#[derive(Debug)]
pub(crate) struct BenchContext {
    options: BenchOptions,
    /// The program.
    pub(crate) bucksaw: PathBuf,
    dir: TempDir,
}

impl BenchContext {
    pub(crate) fn new(options: BenchOptions) -> anyhow::Result<Self> {
        let bucksaw = match &options.bucksaw {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("the path of this program is unknown")?.with_file_name("bucksaw"),
        };
        let missing =
            || format!("{} is not there: build it with `make build`, or name it with --bucksaw", bucksaw.display());
        ensure!(bucksaw.is_file(), missing());
        let dir = match &options.dir {
            Some(dir) => tempfile::Builder::new().prefix("bucksaw-bench-").tempdir_in(dir),
            None => tempfile::Builder::new().prefix("bucksaw-bench-").tempdir(),
        };
        let dir = dir.context("cannot create a temporary directory; choose another place with --dir")?;
        Ok(Self { options, bucksaw, dir })
    }

    /// A path in the temporary directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The lines to send, of the size in the options.
    pub(crate) fn corpus(&self) -> anyhow::Result<Corpus> {
        self.corpus_up_to(u64::MAX)
    }

    /// The lines to send, at most `bytes`.
    pub(crate) fn corpus_up_to(&self, bytes: u64) -> anyhow::Result<Corpus> {
        Corpus::prepare(&self.options.corpus, self.options.bytes.0.min(bytes), &self.path("corpus.log"))
    }

    /// The given files, or the lines to send if there are none.
    pub(crate) fn corpora(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Corpus>> {
        if files.is_empty() {
            return Ok(vec![self.corpus()?]);
        }
        files.iter().map(|file| Corpus::of_file(file)).collect()
    }

    /// The logs of the directory in the options, plain or compressed, by name; none if no directory was given.
    pub(crate) fn corpus_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if self.options.corpus.is_empty() {
            return Ok(Vec::new());
        }
        let dir = Path::new(&self.options.corpus);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let path = entry?.path();
            let name = path.to_string_lossy();
            if [".log", ".ndjson", ".log.zst", ".ndjson.zst"].iter().any(|end| name.ends_with(end)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Starts a node with a data directory of this name, which may exist.
    pub(crate) fn node(&self, name: &str, more: &[&str]) -> anyhow::Result<BenchNode> {
        BenchNode::start(&self.bucksaw, &self.path(name), more)
    }

    /// The same by a launcher: see [`BenchNode::start_launched_by`].
    pub(crate) fn node_launched_by(&self, launcher: &[String], name: &str, more: &[&str]) -> anyhow::Result<BenchNode> {
        BenchNode::start_launched_by(launcher, &self.bucksaw, &self.path(name), more)
    }

    /// Empty results of this program. Warns if its commit is unknown.
    pub(crate) fn results(&self, measured: &'static str) -> anyhow::Result<BenchResults> {
        let (commit, written) = (program::commit(&self.bucksaw), machine::written(&self.bucksaw)?);
        if !commit.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            eprintln!("the program's commit is `{commit}`: see README.md");
        }
        Ok(BenchResults::new(measured).with_program(commit, machine::show(written)))
    }

    /// Prints and writes the results.
    pub(crate) fn report(&self, results: &BenchResults) -> anyhow::Result<()> {
        results.print();
        let file = results.write(&self.options.results)?;
        println!("\nwritten to {}", file.display());
        Ok(())
    }

    /// Writes the results.
    pub(crate) fn report_file(&self, results: &BenchResults) -> anyhow::Result<()> {
        let file = results.write(&self.options.results)?;
        println!("\nwritten to {}", file.display());
        Ok(())
    }

    /// Prints the results with a row for each subject, and writes them.
    pub(crate) fn report_in_rows(&self, results: &BenchResults) -> anyhow::Result<()> {
        results.print_rows();
        let file = results.write(&self.options.results)?;
        println!("\nwritten to {}", file.display());
        Ok(())
    }

    /// Removes the data directory of a node.
    pub(crate) fn clear(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// A number of bytes; K, M and G are powers of ten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = text.split_at(digits);
        let unit: u64 = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" => 1_000,
            "M" | "MB" => 1_000_000,
            "G" | "GB" => 1_000_000_000,
            _ => return Err("expected a size such as 500000, 100MB or 1GB"),
        };
        let number: Option<u64> = digits.parse().ok();
        number.and_then(|number| number.checked_mul(unit)).map(Self).ok_or("expected a size such as 100MB or 1GB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        let check = |text: &str, want: Option<u64>| assert_eq!(text.parse().ok(), want.map(Size), "{text}");
        check("1GB", Some(1_000_000_000));
        check("50m", Some(50_000_000));
        check("7", Some(7));
        for text in ["", "GB", "1.5G", "-1", "1T", "99999999999999999999"] {
            check(text, None);
        }
    }
}
