//! Byte streams of entries as events.

use bucksaw_record::Labels;
use memchr::memchr;

use super::entry::JournalEntry;
use crate::{Decoded, EventSink};

/// The maximum length of a field's name; journald accepts 64 bytes.
const NAME_BYTES_MAX: usize = 255;

/// Why a stream cannot be read any further. The events before the error were given to the sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A line has neither a name nor a value.
    #[error("not the journal export format: `{0}` is not the name of a field")]
    InvalidName(String),
    /// No LF follows a binary value.
    #[error("not the journal export format: no line end follows the value of `{0}`")]
    MissingLineEnd(String),
    /// The stream ends within an entry.
    #[error("the stream ends within an entry of the journal")]
    Truncated,
}

/// What the next bytes of the stream are.
#[derive(Debug)]
enum Position {
    /// The line of a field; the first bytes of the buffer have no LF.
    Field { searched: usize },
    /// The length of a binary value.
    Length { name: Vec<u8> },
    /// A binary value and its LF.
    Value { name: Vec<u8>, bytes: usize },
    /// The rest of a value that is too long, and its LF.
    SkippedValue { name: Vec<u8>, left: u64 },
    /// The rest of a line that is too long.
    SkippedLine,
}

/// Decodes entries. A field that does not fit into an entry is left out, as core dumps are; the entry is stored without it.
#[derive(Debug)]
pub struct JournalDecoder {
    entry: JournalEntry,
    entry_bytes_max: usize,
    /// Bytes that are not yet decoded: less than a field.
    buffer: Vec<u8>,
    position: Position,
    dropped_fields: u64,
}

impl JournalDecoder {
    /// A decoder whose events all have `labels`, and whose entries have at most `entry_bytes_max` bytes of text.
    pub fn new(entry_bytes_max: usize, labels: &Labels) -> Self {
        Self {
            entry: JournalEntry::new(labels),
            entry_bytes_max,
            buffer: Vec::new(),
            position: Position::Field { searched: 0 },
            dropped_fields: 0,
        }
    }

    /// The number of fields that were left out because they were too long.
    pub fn dropped_fields(&self) -> u64 {
        self.dropped_fields
    }

    /// The address of the last whole entry in the journal of its sender; empty if the stream has none.
    pub fn cursor(&self) -> &[u8] {
        self.entry.ended_cursor()
    }

    /// Bytes that are held until more of the stream arrives.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.entry.bytes()
    }

    /// Decodes the next part of the stream.
    ///
    /// # Errors
    /// [`JournalError`] if it is not of this format. The rest of the stream cannot be decoded.
    pub fn push(&mut self, part: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, JournalError> {
        let mut decoded = Decoded::default();
        let held = std::mem::take(&mut self.buffer);
        if held.is_empty() {
            let rest = self.decode(part, &mut decoded, sink)?;
            self.buffer.extend_from_slice(rest);
        } else {
            let mut held = held;
            held.extend_from_slice(part);
            let rest = self.decode(&held, &mut decoded, sink)?.len();
            // A sender that pauses holds no more than it must.
            self.buffer = match rest < held.len() {
                true => held.get(held.len() - rest..).unwrap_or_default().to_vec(),
                false => held,
            };
        }
        Ok(decoded)
    }

    /// Ends the stream. A last entry without the empty line behind it is complete.
    ///
    /// # Errors
    /// [`JournalError::Truncated`] if the stream ends within a field.
    pub fn finish(&mut self, sink: &mut dyn EventSink) -> Result<Decoded, JournalError> {
        let mut decoded = Decoded::default();
        if !self.buffer.is_empty() || !matches!(self.position, Position::Field { .. }) {
            return Err(JournalError::Truncated);
        }
        self.entry.end(&mut decoded, sink);
        Ok(decoded)
    }

    /// Decodes the complete entries, and returns the rest of the bytes.
    fn decode<'a>(
        &mut self,
        mut bytes: &'a [u8],
        decoded: &mut Decoded,
        sink: &mut dyn EventSink,
    ) -> Result<&'a [u8], JournalError> {
        loop {
            let room = self.entry_bytes_max.saturating_sub(self.entry.bytes());
            match &mut self.position {
                Position::Field { searched } => {
                    let unsearched = bytes.get(*searched..).unwrap_or_default();
                    let Some(end) = memchr(b'\n', unsearched).map(|at| at + *searched) else {
                        if bytes.len() <= room.saturating_add(NAME_BYTES_MAX) {
                            *searched = bytes.len();
                            return Ok(bytes);
                        }
                        self.dropped_fields += 1;
                        self.position = Position::SkippedLine;
                        continue;
                    };
                    let line = bytes.get(..end).unwrap_or_default();
                    bytes = bytes.get(end + 1..).unwrap_or_default();
                    self.position = Position::Field { searched: 0 };
                    self.line(line, room, decoded, sink)?;
                }
                Position::Length { name } => {
                    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return Ok(bytes) };
                    let (length, name) = (u64::from_le_bytes(*length), std::mem::take(name));
                    bytes = rest;
                    self.position = match usize::try_from(length) {
                        Ok(bytes) if bytes <= room => Position::Value { name, bytes },
                        _ => {
                            self.dropped_fields += 1;
                            Position::SkippedValue { name, left: length }
                        }
                    };
                }
                Position::Value { name, bytes: length } => {
                    let Some((value, rest)) = bytes.split_at_checked(*length) else { return Ok(bytes) };
                    let Some((line_end, rest)) = rest.split_first() else { return Ok(bytes) };
                    check_line_end(*line_end, name)?;
                    self.entry.field(name, value);
                    bytes = rest;
                    self.position = Position::Field { searched: 0 };
                }
                Position::SkippedValue { name, left } => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= skipped as u64;
                    bytes = bytes.get(skipped..).unwrap_or_default();
                    let Some((line_end, rest)) = bytes.split_first() else { return Ok(bytes) };
                    check_line_end(*line_end, name)?;
                    bytes = rest;
                    self.position = Position::Field { searched: 0 };
                }
                Position::SkippedLine => {
                    let Some(end) = memchr(b'\n', bytes) else { return Ok(&[]) };
                    bytes = bytes.get(end + 1..).unwrap_or_default();
                    self.position = Position::Field { searched: 0 };
                }
            }
        }
    }

    /// A line of the stream: a field, the name of a binary field, or the end of an entry.
    fn line(
        &mut self,
        line: &[u8],
        room: usize,
        decoded: &mut Decoded,
        sink: &mut dyn EventSink,
    ) -> Result<(), JournalError> {
        if line.is_empty() {
            self.entry.end(decoded, sink);
            return Ok(());
        }
        let (name, value) = match memchr(b'=', line) {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..)),
            None => (line, None),
        };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.iter().all(is_name) {
            let start = name.get(..name.len().min(40)).unwrap_or_default();
            return Err(JournalError::InvalidName(start.escape_ascii().to_string()));
        }
        match value {
            Some(value) if value.len() <= room => self.entry.field(name, value),
            Some(_) => self.dropped_fields += 1,
            None => self.position = Position::Length { name: name.to_vec() },
        }
        Ok(())
    }
}

fn check_line_end(byte: u8, name: &[u8]) -> Result<(), JournalError> {
    if byte == b'\n' {
        return Ok(());
    }
    Err(JournalError::MissingLineEnd(String::from_utf8_lossy(name).into_owned()))
}
