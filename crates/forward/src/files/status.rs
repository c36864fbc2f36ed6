//! The state of files and buffer.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_tailer::FileStatus;

use super::collector::Collector;
use crate::status::{FileLag, FilesStatus};

impl Collector {
    /// The state now, with the files with the longest wait, at most `files_max`.
    pub(crate) fn status(&mut self, now: Duration, files_max: usize) -> FilesStatus {
        self.collect_acks();
        let mut slowest = self.file_lags(now);
        let mut states = BTreeMap::new();
        slowest.iter().for_each(|file| *states.entry(file.state).or_default() += 1);
        let lag_bytes = slowest.iter().map(|file| file.lag_bytes).sum();
        let lag = slowest.iter().map(|file| file.lag).max().unwrap_or_default();
        slowest.sort_by(|a, b| (b.lag, b.lag_bytes, &a.path).cmp(&(a.lag, a.lag_bytes, &b.path)));
        slowest.truncate(files_max);
        let buffer_bytes = self.sink.buffer.unacked_bytes();
        let sink = &self.sink;
        FilesStatus {
            states: states.into_iter().collect(),
            lag_bytes,
            lag,
            slowest,
            unreadable: self.tailer.problems().map(|(path, why)| (path.to_owned(), why.to_owned())).collect(),
            read_records: sink.read.records,
            read_bytes: sink.read.bytes,
            dropped_records: sink.dropped_records,
            damaged_batches: self.damaged_batches,
            lines: self.line_totals(),
            buffer_bytes,
            buffer_disk_bytes: sink.buffer.bytes(),
            buffer_bytes_max: sink.buffer_bytes_max,
            buffer_batches: sink.buffer.unacked_batches(),
            counters: self.tailer.counters().clone(),
            queue_segments: 0,
            pods: sink.pods.as_ref().map(|pods| pods.status(&sink.streams, now)),
            newest_gaps: self.tailer.gaps().cloned().collect(),
        }
    }

    fn file_lags(&mut self, now: Duration) -> Vec<FileLag> {
        self.tailer.note_growth();
        let first_unacked = self.sink.buffer.first_unacked();
        let (tailer, offsets) = (&self.tailer, &mut self.sink.acked_offsets);
        let lag = |file: FileStatus<'_>| {
            let acked = offsets.acked(file.key, file.offset, first_unacked);
            let lag_bytes = file.size.saturating_sub(file.incomplete).saturating_sub(acked);
            let seen = tailer.seen_at(file.key, acked).filter(|_| lag_bytes > 0);
            FileLag {
                path: file.path.to_owned(),
                position: file.offset,
                acked,
                size: file.size,
                lag_bytes,
                lag: seen.map_or(Duration::ZERO, |seen| now.saturating_sub(seen)),
                state: file.state,
            }
        };
        tailer.file_status().map(lag).collect()
    }
}
