//! Records of one size, with times up to now.

use bucksaw_generate::{Config, Generator, SampleFormat};
use jiff::Timestamp;

/// Records of a millisecond.
const RECORDS_PER_MS: u64 = 100;

/// Generates records one by one.
pub(super) struct SampleRecords {
    generator: Generator,
    line: Vec<u8>,
    first_ms: u64,
    number: u64,
}

impl SampleRecords {
    /// The last of this many records has the time of now.
    pub(super) fn new(records: u64, bytes: u32) -> anyhow::Result<Self> {
        let now = u64::try_from(Timestamp::now().as_millisecond())?;
        let first_ms = now.saturating_sub(records / RECORDS_PER_MS);
        let config = Config { format: SampleFormat::Text, size: Some(usize::try_from(bytes)?), seed: 1 };
        Ok(Self { generator: Generator::new(config, first_ms), line: Vec::new(), first_ms, number: 0 })
    }

    /// The next record, without a line end, and its time in milliseconds.
    pub(super) fn next_line(&mut self) -> (u64, &[u8]) {
        let time = self.first_ms + self.number / RECORDS_PER_MS;
        self.number += 1;
        self.line.clear();
        self.generator.append_line(&mut self.line, time);
        (time, self.line.strip_suffix(b"\n").unwrap_or(&self.line))
    }
}
