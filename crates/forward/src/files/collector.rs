//! Moves text from files into the buffer, and batches from the buffer into the send window.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_buffer::{BufferError, BufferRecovery, DiskBuffer, NewBatch};
use bucksaw_env::{Env, Fs, LogLimits, log_limited};
use bucksaw_tailer::{FileChunk, FileKey, Tailer};
use tracing::{error, info, warn};

use super::acked_offsets::AckedOffsets;
use super::config::{FilesConfig, WhenFull};
use super::entry_batches::{EntrySplitter, put_labels};
use super::file_stream::FileStream;
use super::pod_labeler::PodLabeler;
use super::positions::{Positions, StateError, encode, encode_cursor};
use crate::Config;
use crate::batch_builder::ShippedBatch;
use crate::file_packer::{FilePacker, FileStreamRef, PackedChunk};
use crate::lines::{ChunkText, LineTotals};
use crate::send_window::SendWindow;
use crate::source_acks::SourceAcks;

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectorError {
    #[error(transparent)]
    Buffer(#[from] BufferError),
    #[error("the positions in the buffer: {0}")]
    Positions(#[from] StateError),
}

/// Bytes of files without a record to ship, after which the positions are saved.
const UNSAVED_BYTES_MAX: u64 = 16 << 20;

/// The work of one step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepReport {
    /// Whether another step would find work at once.
    pub(crate) has_more: bool,
    /// Whether a file was rotated or truncated.
    pub(crate) is_scan_due: bool,
    /// Whether batches are unacknowledged.
    pub(crate) has_unacked: bool,
}

/// What waits in the buffer, and what was lost since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Batches without an acknowledgement.
    pub batches: u64,
    /// Records dropped because the buffer was full.
    pub dropped_records: u64,
    /// Batches that could not be read back from the buffer, because it was damaged while the agent ran. Their lines are lost.
    pub damaged_batches: u64,
    /// Places in files where lines may be missing.
    pub gaps: u64,
    /// Segments of the listeners' queue without an acknowledgement.
    pub queue_segments: u64,
}

pub(crate) struct Collector {
    config: Config,
    when_full: WhenFull,
    pub(crate) tailer: Tailer,
    window: Arc<SendWindow>,
    pub(super) sink: BufferSink,
    /// By their numbers in the buffer.
    acks: SourceAcks,
    /// The last entry of the journal that is in the buffer.
    journal_cursor: Option<Vec<u8>>,
    /// The change count of the tailer at the last snapshot of its positions.
    seen_changes: u64,
    pub(super) damaged_batches: u64,
    /// The number of gaps when the positions were saved last.
    saved_gaps: u64,
    /// Whether all that is unread of the buffer is damaged.
    is_end_damaged: bool,
    log_limits: LogLimits,
}

/// Receives chunks of files.
pub(super) struct BufferSink {
    packer: FilePacker,
    pub(super) buffer: DiskBuffer,
    positions: Positions,
    pub(super) streams: HashMap<FileKey, FileStream>,
    /// Gives streams the labels of their pods, if that is wanted.
    pub(super) pods: Option<PodLabeler>,
    entries: EntrySplitter,
    /// Records dropped because the buffer was full.
    pub(super) dropped_records: u64,
    pub(super) read: ReadTotals,
    pub(super) acked_offsets: AckedOffsets,
    pub(super) buffer_bytes_max: u64,
    is_write_failing: bool,
    /// Files whose last chunk has more than a batch.
    unfinished: Vec<FileKey>,
    /// Bytes that were consumed without a record since positions were saved.
    unsaved_bytes: u64,
    fs: Arc<dyn Fs>,
    /// The state directory.
    dir: PathBuf,
}

/// The sums over all records that were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTotals {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Collector {
    /// Opens the buffer and resumes at its positions.
    pub(crate) fn open(
        config: &Config,
        files: &FilesConfig,
        env: &Env,
        window: Arc<SendWindow>,
    ) -> Result<Self, CollectorError> {
        let buffer_config = bucksaw_buffer::Config { bytes_max: files.buffer_bytes_max };
        let (buffer, recovery) = DiskBuffer::open(Arc::clone(&env.fs), &files.state_dir.join("buffer"), buffer_config)?;
        let BufferRecovery { state, is_snapshot_missing, missing_batches, repeated_batches, unacked_records, .. } =
            recovery;
        if missing_batches > 0 {
            warn!(
                missing_batches,
                repeated_batches,
                "batches in the buffer are damaged or missing: their lines are read again, and some are stored twice"
            );
        }
        if unacked_records > 0 {
            info!(records = unacked_records, "the last run left unacknowledged records, which are sent again");
        }
        // Damaged positions are no first start, at which the ends of files may be the start of reading.
        let is_first_start = state.is_empty() && buffer.bytes() == 0;
        if is_snapshot_missing || state.is_empty() && !is_first_start {
            warn!(
                "the positions in the files are damaged: files are read from their start, and lines are stored twice"
            );
        }
        let recovered = Positions::decode(&state)?;
        // The journal is then read from its start, too.
        let is_damaged = state.is_empty() && !is_first_start;
        let journal_cursor = recovered.journal.or_else(|| is_damaged.then(Vec::new));
        let tailer = Tailer::new(files.tailer.clone(), env, recovered.files, is_first_start);
        let sink = BufferSink {
            packer: FilePacker::new(config, env),
            buffer,
            positions: Positions::default(),
            streams: HashMap::new(),
            pods: files.pods.clone().map(PodLabeler::new),
            entries: EntrySplitter::default(),
            dropped_records: 0,
            read: ReadTotals::default(),
            acked_offsets: AckedOffsets::default(),
            buffer_bytes_max: files.buffer_bytes_max,
            is_write_failing: false,
            unfinished: Vec::new(),
            unsaved_bytes: 0,
            fs: Arc::clone(&env.fs),
            dir: files.state_dir.clone(),
        };
        let mut collector = Self {
            config: config.clone(),
            when_full: files.when_full,
            tailer,
            window,
            sink,
            acks: SourceAcks::default(),
            journal_cursor,
            seen_changes: 0,
            damaged_batches: 0,
            saved_gaps: 0,
            is_end_damaged: false,
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
        };
        if let Some(cursor) = &collector.journal_cursor {
            collector.sink.positions.set_journal(encode_cursor(cursor));
        }
        collector.sink.positions.replace(collector.tailer.positions());
        // Tried again by each step.
        collector.sink.save_if_due();
        Ok(collector)
    }

    /// Looks for new, rotated and vanished files.
    ///
    /// # Errors
    /// Those of the buffer, at the first scan ever.
    pub(crate) fn scan(&mut self) -> Result<(), BufferError> {
        let is_first = self.tailer.is_first_start();
        self.tailer.scan();
        self.note_changes();
        self.sink.streams.retain(|key, _| self.tailer.is_known(*key));
        self.sink.acked_offsets.retain(|key| self.tailer.is_known(key));
        if let Some(pods) = &mut self.sink.pods {
            pods.retain(&self.sink.streams);
        }
        // Otherwise the next start would take a file that was there, and had no new line, for one that appeared later.
        if is_first { self.sink.buffer.save(&self.sink.positions.snapshot()) } else { Ok(()) }
    }

    /// Reads the files that grow, and fills the send window.
    pub(crate) fn step(&mut self, now: Duration) -> StepReport {
        self.collect_acks();
        let mut report = StepReport::default();
        self.fill_window(now);
        let released = self.sink.pods.as_mut().map(|pods| pods.take_released(now));
        released.into_iter().flatten().for_each(|key| self.tailer.deliver_again(key));
        loop {
            let (config, window, acks) = (&self.config, &self.window, &self.acks);
            let sink = &mut self.sink;
            let read = self.tailer.read(&mut |chunk| {
                let (consumed, appended) = sink.append(config, chunk, now)?;
                if let Some((number, batch)) = appended
                    && window.has_space()
                    && sink.buffer.first_unread() == number
                {
                    sink.buffer.skip_unread();
                    window.push(ShippedBatch { ticket: Some(acks.ticket(number, true)), ..batch }, now);
                }
                Ok(consumed)
            });
            match read {
                Ok(read) => {
                    report.has_more = read.has_more;
                    report.is_scan_due = read.is_scan_due;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
                    match self.pass_damage() || self.make_room() {
                        true => {}
                        false => break,
                    }
                }
                Err(_) => break,
            }
        }
        let held = self.sink.pods.as_mut().map(PodLabeler::take_held);
        held.into_iter().flatten().for_each(|key| self.tailer.pause(key));
        for key in std::mem::take(&mut self.sink.unfinished) {
            self.tailer.deliver_again(key);
            report.has_more = true;
        }
        self.sink.save_if_due();
        self.note_changes();
        report.has_unacked = self.sink.buffer.unacked_batches() > 0;
        report
    }

    /// Writes what was acknowledged, so that a later start sends less again; and the positions if there are new gaps, so that a
    /// later start does not count them again. The caller has reported these.
    pub(crate) fn write_ack(&mut self) {
        self.collect_acks();
        let gaps = self.tailer.counters().gaps();
        if gaps > self.saved_gaps {
            self.note_changes();
            match self.sink.buffer.save(&self.sink.positions.snapshot()) {
                Ok(()) => self.saved_gaps = gaps,
                Err(error) => self.sink.note_write_error(&error),
            }
        }
        // Without it, batches are sent again with the same ids.
        if let Err(error) = self.sink.buffer.write_ack() {
            self.sink.note_write_error(&error);
        }
    }

    /// Writes all positions.
    pub(crate) fn save(&mut self) {
        self.collect_acks();
        // Without files, a later start with some is their first.
        if self.tailer.is_first_start() && self.journal_cursor.is_none() {
            return;
        }
        if let Err(error) = self.sink.buffer.save(&self.sink.positions.snapshot()) {
            self.sink.note_write_error(&error);
        }
    }

    /// What waits, and what was lost.
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            batches: self.sink.buffer.unacked_batches(),
            dropped_records: self.sink.dropped_records,
            damaged_batches: self.damaged_batches,
            gaps: self.tailer.counters().gaps(),
            queue_segments: 0,
        }
    }

    /// The last entry of the journal that is in the buffer: `None` if it was never read, empty if it is to be read from its
    /// start.
    pub(crate) fn journal_cursor(&self) -> Option<&[u8]> {
        self.journal_cursor.as_deref()
    }

    /// Begins to read the journal behind this entry.
    ///
    /// # Errors
    /// Those of the buffer.
    pub(crate) fn begin_journal(&mut self, cursor: &[u8]) -> Result<(), BufferError> {
        self.sink.positions.set_journal(encode_cursor(cursor));
        self.journal_cursor = Some(cursor.to_vec());
        self.sink.buffer.save(&self.sink.positions.snapshot())
    }

    /// Appends entries of the journal, the last of which has this cursor. All of them are stored, or none. Returns whether
    /// they are; if not, the buffer is full or cannot be written.
    pub(crate) fn append_journal(&mut self, batches: &[ShippedBatch], cursor: &[u8], now: Duration) -> bool {
        self.collect_acks();
        self.fill_window(now);
        let (state, mut labels, mut frame) = (encode_cursor(cursor), Vec::new(), Vec::new());
        for batch in batches {
            put_labels(&batch.labels, &mut labels);
            frame.extend_from_slice(&batch.frame);
        }
        let records = batches.iter().map(|batch| batch.records).sum();
        let new = NewBatch { state: &state, labels: &labels, frame: &frame, records };
        loop {
            match self.sink.buffer.append(&new, || self.sink.positions.snapshot()) {
                Ok(_) => break,
                Err(BufferError::Full { .. }) if self.pass_damage() || self.make_room() => {}
                Err(BufferError::Full { .. }) => return false,
                Err(error) => {
                    self.sink.note_write_error(&error);
                    return false;
                }
            }
        }
        self.sink.note_written();
        self.sink.read.records += u64::from(records);
        self.sink.read.bytes += batches.iter().map(|batch| batch.text_bytes as u64).sum::<u64>();
        self.sink.positions.set_journal(state);
        self.journal_cursor = Some(cursor.to_vec());
        self.fill_window(now);
        true
    }

    /// What became of lines that were not shipped as they are.
    pub(crate) fn line_totals(&self) -> LineTotals {
        self.sink.packer.totals()
    }

    pub(super) fn collect_acks(&mut self) {
        self.sink.buffer.ack(self.acks.next_unacked());
    }

    /// Moves batches from the disk into the send window.
    fn fill_window(&mut self, now: Duration) {
        self.is_end_damaged = false;
        while !self.sink.buffer.is_read() && self.window.has_space() {
            let expected = self.sink.buffer.first_unread();
            match self.sink.read_next() {
                Ok(Some((number, batches))) => {
                    self.note_damaged(expected, number);
                    self.push(number, batches, now);
                }
                Ok(None) => {
                    self.is_end_damaged = true;
                    // The lines of batches that were missing at the start are read from the files again.
                    if self.sink.buffer.damaged_between(expected, self.sink.buffer.next_number()) == 0 {
                        self.pass_damage();
                    }
                    return;
                }
                Err(error) => return self.sink.note_write_error(&error),
            }
        }
    }

    /// Passes over the batches at the end of the buffer, if all are damaged and those before them are acknowledged. Otherwise
    /// they would fill a buffer for ever. Returns whether there were any.
    fn pass_damage(&mut self) -> bool {
        let (first, next) = (self.sink.buffer.first_unread(), self.sink.buffer.next_number());
        if !self.is_end_damaged || self.sink.buffer.first_unacked() < first || first >= next {
            return false;
        }
        self.is_end_damaged = false;
        self.note_damaged(first, next);
        self.sink.buffer.ack(next);
        true
    }

    /// Moves the batches of an entry of the buffer into the send window.
    fn push(&self, number: u64, batches: Vec<ShippedBatch>, now: Duration) {
        let last = batches.len().saturating_sub(1);
        for (at, batch) in batches.into_iter().enumerate() {
            self.window.push(ShippedBatch { ticket: Some(self.acks.ticket(number, at == last)), ..batch }, now);
        }
    }

    /// Counts the batches in a range that cannot be read, without those whose lines are read again. At the end of the buffer they
    /// are not counted yet: the next start would read their lines again.
    fn note_damaged(&mut self, first: u64, end: u64) {
        let batches = self.sink.buffer.damaged_between(first, end);
        if batches > 0 {
            self.damaged_batches += batches;
            error!(batches, "batches in the buffer are damaged: their lines are lost");
        }
    }

    /// Drops the oldest batches of a full buffer, if that is wanted.
    fn make_room(&mut self) -> bool {
        if self.when_full == WhenFull::Block {
            return false;
        }
        match self.sink.buffer.drop_oldest() {
            Ok(Some(dropped)) => {
                self.window.drop_before(&self.acks, self.sink.buffer.first_unacked());
                self.sink.dropped_records += dropped.records;
                let all = self.sink.dropped_records;
                log_limited!(
                    self.log_limits,
                    warn,
                    records = dropped.records,
                    records_since_start = all,
                    "the buffer is full: dropped the oldest records"
                );
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.sink.note_write_error(&error);
                false
            }
        }
    }

    fn note_changes(&mut self) {
        let changes = self.tailer.changes();
        if changes != self.seen_changes {
            self.seen_changes = changes;
            self.sink.positions.replace(self.tailer.positions());
        }
    }
}

impl BufferSink {
    /// Appends the whole lines of a chunk; returns the consumed bytes, and the batch with its number.
    ///
    /// # Errors
    /// `QuotaExceeded` if the buffer is full; other errors of writing.
    fn append(
        &mut self,
        config: &Config,
        chunk: &FileChunk<'_>,
        now: Duration,
    ) -> io::Result<(usize, Option<(u64, ShippedBatch)>)> {
        let stream = self.streams.entry(chunk.key).or_insert_with(|| FileStream::new(config, &*self.fs, chunk.path));
        if let Some(pods) = &mut self.pods
            && !pods.prepare(config, stream, (chunk.key, chunk.path), now)
        {
            return Ok((0, None));
        }
        let of = FileStreamRef {
            labels: &stream.labels,
            line_times: &mut stream.line_times,
            lines: &mut stream.lines,
            filter: stream.filter.as_ref(),
            source: chunk.key.0,
        };
        let text = ChunkText {
            text: chunk.text,
            offset: chunk.offset(),
            is_end: chunk.is_end,
            is_full: chunk.is_full,
            waited: chunk.waited,
            wait: config.lines.wait(),
            now,
        };
        let PackedChunk { consumed, batch, has_more } = self.packer.pack(of, text);
        if has_more {
            self.unfinished.push(chunk.key);
        }
        let position_after = chunk.position_after(consumed);
        let position = encode(&position_after);
        let Some(batch) = batch else {
            // The end of a file, which is found again after a restart, or dropped lines, which are dropped again.
            self.packer.confirm();
            self.positions.insert(chunk.key, position);
            self.unsaved_bytes += consumed as u64;
            return Ok((consumed, None));
        };
        let new =
            NewBatch { state: &position, labels: &stream.encoded_labels, frame: &batch.frame, records: batch.records };
        match self.buffer.append(&new, || self.positions.snapshot()) {
            Ok(number) => {
                if let Some(pods) = &mut self.pods {
                    pods.note_written(stream, batch.records);
                }
                self.note_written();
                self.packer.confirm();
                self.positions.insert(chunk.key, position);
                self.note_read(
                    chunk.key,
                    number,
                    &batch,
                    (position_after.offset - consumed as u64, position_after.offset),
                );
                Ok((consumed, Some((number, batch))))
            }
            Err(BufferError::Full { .. }) => Err(io::ErrorKind::QuotaExceeded.into()),
            Err(error) => {
                self.note_write_error(&error);
                Err(io::Error::other(error))
            }
        }
    }

    /// Saves the positions if many lines were dropped since, or if the buffer was damaged at the start.
    fn save_if_due(&mut self) {
        if self.unsaved_bytes < UNSAVED_BYTES_MAX && !self.buffer.is_save_due() {
            return;
        }
        match self.buffer.save(&self.positions.snapshot()) {
            Ok(()) => self.unsaved_bytes = 0,
            Err(error) => self.note_write_error(&error),
        }
    }

    fn note_read(&mut self, key: FileKey, number: u64, batch: &ShippedBatch, offsets: (u64, u64)) {
        self.read.records += u64::from(batch.records);
        self.read.bytes += batch.text_bytes as u64;
        self.acked_offsets.note(key, number, offsets, self.buffer.first_unacked());
    }

    fn read_next(&mut self) -> Result<Option<(u64, Vec<ShippedBatch>)>, BufferError> {
        let Some(read) = self.buffer.read_next()? else { return Ok(None) };
        Ok(Some((read.number, self.entries.split(read))))
    }

    /// Logs the end of a series of errors.
    fn note_written(&mut self) {
        if std::mem::take(&mut self.is_write_failing) {
            info!("the state directory can be written again");
        }
    }

    /// Logs the first error of a series.
    fn note_write_error(&mut self, error: &BufferError) {
        if !self.is_write_failing {
            self.is_write_failing = true;
            let dir = self.dir.display();
            error!(%error, %dir, "files and the journal are not read until the state directory can be written");
        }
    }
}
