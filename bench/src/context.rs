//! What all measurements share: the program, a place for files, where results go.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use clap::Args;
use tempfile::TempDir;

use crate::corpus::Corpus;
use crate::node::BenchNode;
use crate::results::BenchResults;
use crate::{machine, program};

/// Options of every measurement.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The program; left out, it is `bucksaw` beside this one
    #[arg(long, global = true, value_name = "FILE")]
    bucksaw: Option<PathBuf>,

    /// Where files are made; what is made there is removed at the end
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// A file of lines to send, or a directory whose files are joined and repeated; left out, lines are generated
    #[arg(long, global = true, value_name = "PATH", env = "BUCKSAW_CORPUS", default_value = "")]
    corpus: String,

    /// How much is generated, or a directory repeated up to; K, M and G are powers of 1000
    #[arg(long, global = true, value_name = "SIZE", default_value = "1GB")]
    bytes: Size,

    /// Where the results are written as CSV
    #[arg(long, global = true, value_name = "DIR", default_value = "bench/results")]
    results: PathBuf,
}

/// The options, checked, and a directory of our own.
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
            None => std::env::current_exe().context("cannot tell where this program is")?.with_file_name("bucksaw"),
        };
        let missing =
            || format!("{} is not there: build it with `make build`, or name it with --bucksaw", bucksaw.display());
        ensure!(bucksaw.is_file(), missing());
        let dir = match &options.dir {
            Some(dir) => tempfile::Builder::new().prefix("bucksaw-bench-").tempdir_in(dir),
            None => tempfile::Builder::new().prefix("bucksaw-bench-").tempdir(),
        };
        let dir = dir.context("cannot make a directory for files: choose a place with --dir")?;
        Ok(Self { options, bucksaw, dir })
    }

    /// A path in the directory of our own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The lines to send: as many as were asked for.
    pub(crate) fn corpus(&self) -> anyhow::Result<Corpus> {
        self.corpus_up_to(u64::MAX)
    }

    /// The lines to send, when so many bytes are enough.
    pub(crate) fn corpus_up_to(&self, bytes: u64) -> anyhow::Result<Corpus> {
        Corpus::prepare(&self.options.corpus, self.options.bytes.0.min(bytes), &self.path("corpus.log"))
    }

    /// The files as they are; where there are none, the lines to send.
    pub(crate) fn corpora(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Corpus>> {
        if files.is_empty() {
            return Ok(vec![self.corpus()?]);
        }
        files.iter().map(|file| Corpus::of_file(file)).collect()
    }

    /// Starts a node on a directory of that name; a name may be used again.
    pub(crate) fn node(&self, name: &str, more: &[&str]) -> anyhow::Result<BenchNode> {
        BenchNode::start(&self.bucksaw, &self.path(name), more)
    }

    /// Results of this program. Says so when they cannot be put down to a commit.
    pub(crate) fn results(&self, measured: &'static str) -> anyhow::Result<BenchResults> {
        let (commit, written) = (program::commit(&self.bucksaw), machine::written(&self.bucksaw)?);
        if !commit.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            eprintln!("the program's commit is `{commit}`: see README.md before you quote it");
        }
        Ok(BenchResults::new(measured).with_program(commit, machine::show(written)))
    }

    /// Prints the results, and writes them.
    pub(crate) fn report(&self, results: &BenchResults) -> anyhow::Result<()> {
        results.print();
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

    /// Removes a node's directory, so that the next one begins with nothing.
    pub(crate) fn clear(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// A number of bytes; K, M and G are powers of ten, as in the figures that are printed.
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
