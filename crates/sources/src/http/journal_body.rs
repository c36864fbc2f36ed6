//! The body of a sender of journal entries: decoded and appended while it arrives, however long it is.

use bucksaw_protocols::journald::{JournalDecoder, JournalError};
use bucksaw_record::Labels;

use super::body_consumer::BodyConsumer;
use super::body_error::{BodyError, BodyErrorReason};
use super::event_body::RECORDS_BYTES;
use crate::intake::EventRecords;

/// Text that is decoded at once, in bytes, so that the decoder's buffer stays small however much is decompressed at once.
const PART_BYTES_MAX: usize = 64 << 10;

/// What became of a body of journal entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalReply {
    /// Records that were accepted.
    pub accepted: u64,
    /// Fields that were left out because their entries would be too long.
    pub dropped_fields: u64,
}

/// Decodes entries and appends them.
pub(super) struct JournalBody {
    decoder: JournalDecoder,
    records: EventRecords,
    record_bytes_max: usize,
}

impl JournalBody {
    /// A body whose records all have `labels`, and whose entries have up to `record_bytes_max` bytes.
    pub(super) fn new(labels: &Labels, records: EventRecords, record_bytes_max: usize) -> Self {
        Self { decoder: JournalDecoder::new(record_bytes_max, labels), records, record_bytes_max }
    }

    pub(super) fn reply(&self) -> JournalReply {
        JournalReply { accepted: self.records.accepted(), dropped_fields: self.decoder.dropped_fields() }
    }

    /// Appends the entries before an error of the format, and returns the error.
    fn refuse(&mut self, error: &JournalError) -> BodyError {
        match self.flush() {
            Ok(()) => BodyErrorReason::Invalid(error.to_string()).into(),
            Err(refused) => refused,
        }
    }
}

impl BodyConsumer for JournalBody {
    fn push(&mut self, text: &[u8]) -> Result<(), BodyError> {
        for part in text.chunks(PART_BYTES_MAX) {
            if let Err(error) = self.decoder.push(part, &mut self.records) {
                return Err(self.refuse(&error));
            }
            if self.records.has_failed() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BodyError> {
        if let Err(error) = self.decoder.finish(&mut self.records) {
            return Err(self.refuse(&error));
        }
        Ok(self.records.finish().map_err(BodyErrorReason::from)?)
    }

    fn flush(&mut self) -> Result<(), BodyError> {
        Ok(self.records.flush().map_err(BodyErrorReason::from)?)
    }

    fn release_buffer(&mut self) {
        self.records.release_memory();
    }

    fn accepted(&self) -> u64 {
        self.records.accepted()
    }

    fn may_flush_early(&self) -> bool {
        true
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn buffered_bytes(&self) -> usize {
        self.decoder.held_bytes() + self.records.memory_bytes()
    }

    fn peak_bytes(&self, text_bytes: usize) -> usize {
        let text = self.decoder.held_bytes().saturating_add(text_bytes);
        // Buffers grow by doubling.
        let decoding = 2 * text.min(self.record_bytes_max + PART_BYTES_MAX);
        let records = (RECORDS_BYTES + self.record_bytes_max).min(text.saturating_mul(8));
        decoding + self.records.memory_bytes().max(records)
    }
}
