//! The rate as CSV, a line per second.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;

use super::load_totals::LoadTotals;

/// The first line.
const HEADER: &str = "time,seconds,written_records,written_bytes,acked_records,acked_bytes,\
                      written_records_total,written_bytes_total,acked_records_total,acked_bytes_total";

/// The file. Each line is written at once, so that none is lost when the process ends.
#[derive(Debug)]
pub(super) struct RateLog {
    path: PathBuf,
    file: File,
    before: LoadTotals,
    before_at: Duration,
}

impl RateLog {
    /// Creates the file, or empties it.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("--rate-log: cannot create {}", path.display()))?;
        let mut log = Self { path: path.to_owned(), file, before: LoadTotals::default(), before_at: Duration::ZERO };
        log.write_line(HEADER)?;
        Ok(log)
    }

    /// Writes what happened since the last line; `at` is the time since the start.
    pub(super) fn write(&mut self, now_ms: u64, at: Duration, totals: LoadTotals) -> anyhow::Result<()> {
        let line = line(now_ms, at.saturating_sub(self.before_at), self.before, totals);
        (self.before, self.before_at) = (totals, at);
        self.write_line(&line)
    }

    fn write_line(&mut self, line: &str) -> anyhow::Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("--rate-log: cannot write to {}", self.path.display()))
    }
}

fn line(now_ms: u64, interval: Duration, before: LoadTotals, now: LoadTotals) -> String {
    let time = Timestamp::from_millisecond(now_ms.cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH);
    let totals =
        |totals: LoadTotals| [totals.written_records, totals.written_bytes, totals.acked_records, totals.acked_bytes];
    let (before, now) = (totals(before), totals(now));
    let since = now.iter().zip(before).map(|(now, before)| now.saturating_sub(before));
    let figures: Vec<String> = since.chain(now).map(|figure| figure.to_string()).collect();
    format!("{time:.3},{:.3},{}", interval.as_secs_f64(), figures.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_figures_of_their_interval_and_the_totals() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rate.csv");
        let mut log = RateLog::create(&path).unwrap();
        let totals =
            LoadTotals { written_records: 5, written_bytes: 50, acked_records: 2, acked_bytes: 20, late_records: 0 };
        log.write(1_700_000_000_000, Duration::from_secs(1), totals).unwrap();
        let later = LoadTotals { written_records: 6, acked_records: 6, ..totals };
        log.write(1_700_000_001_250, Duration::from_millis(2_250), later).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                HEADER,
                "2023-11-14T22:13:20.000Z,1.000,5,50,2,20,5,50,2,20",
                "2023-11-14T22:13:21.250Z,1.250,1,0,4,0,6,50,6,20",
            ]
        );
    }
}
