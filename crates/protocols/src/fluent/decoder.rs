//! Messages as events.

use bucksaw_record::Labels;

use super::entries::{EntryTarget, FluentEntries};
use super::option::{EntryCompression, FluentOptions};
use super::record::FluentRecord;
use super::scanner::{MsgpackScanner, Scanned};
use super::{FluentError, MESSAGE_DEPTH_MAX, MsgpackError, MsgpackReader, MsgpackValue};
use crate::{Decoded, EventSink, inflate};

/// The length of a message in bytes from which on its buffers are freed. Thousands of connections may be idle.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What a message had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FluentMessage {
    /// How many events the sink took. The sender cannot be informed of those that are rejected; they would be rejected again.
    pub decoded: Decoded,
    /// The answer that the sender waits for, to be sent when the events have their durability. `None` if it wants none.
    pub ack: Option<Vec<u8>>,
    /// The number of entries that the sender states, if it does. It is not compared with the entries.
    pub size: Option<u64>,
}

/// Decodes the messages of one connection. Keeps the labels of earlier messages, at most 1 MiB of them.
#[derive(Debug)]
pub struct FluentDecoder {
    entries: FluentEntries,
    /// Decompressed entries.
    inflated: Vec<u8>,
}

/// The entries of a message, as MessagePack.
enum FluentEvents<'a> {
    One {
        time: &'a [u8],
        record: &'a [u8],
    },
    /// Entries in an array, whose head is read.
    Array {
        count: u64,
        values: MsgpackReader<'a>,
    },
    /// Entries one after the other, maybe compressed.
    Packed(&'a [u8]),
}

impl FluentDecoder {
    /// A decoder whose events all get `labels` too, which prevail over what messages state.
    pub fn new(labels: &Labels) -> Self {
        Self { entries: FluentEntries::new(labels), inflated: Vec::new() }
    }

    /// The id of the chunk that a whole message is, as the sender encoded it. It is the same when the sender sends the chunk again.
    /// `None` if the sender waits for no acknowledgement.
    ///
    /// # Errors
    /// [`FluentError`], as [`Self::decode`].
    pub fn chunk(message: &[u8]) -> Result<Option<&[u8]>, FluentError> {
        let mut values = MsgpackReader::new(message);
        match values.value()? {
            MsgpackValue::Array(count) => Ok(read_message(&mut values, count)?.2.chunk),
            _ => Ok(None),
        }
    }

    /// Decodes one whole message, as [`FluentFramer`](super::FluentFramer) finds it. Compressed entries have at most
    /// `inflated_bytes_max` bytes of text.
    ///
    /// # Errors
    /// [`FluentError`]. Nothing was passed to the sink.
    pub fn decode(
        &mut self,
        message: &[u8],
        inflated_bytes_max: usize,
        sink: &mut dyn EventSink,
    ) -> Result<FluentMessage, FluentError> {
        check_values(message, MESSAGE_DEPTH_MAX, Some(1))?;
        let mut values = MsgpackReader::new(message);
        let count = match values.value()? {
            MsgpackValue::Nil => return Ok(FluentMessage::default()),
            MsgpackValue::Array(count) => count,
            _ => return Err(FluentError::NotForward(message.first().copied().unwrap_or_default())),
        };
        let (tag, events, options) = read_message(&mut values, count)?;
        let mut target = EntryTarget { tag, sink, decoded: Decoded::default() };
        self.entries.clear();
        if options.signal == 0 {
            self.events(events, &options, inflated_bytes_max, &mut target)?;
        } else {
            target.decoded.reject(|| format!("the message has no logs: its `fluent_signal` is {}", options.signal));
        }
        if message.len() > KEPT_BYTES_MAX || self.inflated.capacity() > KEPT_BYTES_MAX {
            self.entries.shrink();
            self.inflated = Vec::new();
        }
        Ok(FluentMessage { decoded: target.decoded, ack: options.chunk.map(encode_ack), size: options.size })
    }

    fn events(
        &mut self,
        events: FluentEvents<'_>,
        options: &FluentOptions<'_>,
        inflated_bytes_max: usize,
        target: &mut EntryTarget<'_>,
    ) -> Result<(), FluentError> {
        let Self { entries, inflated } = self;
        match events {
            FluentEvents::One { time, record } => {
                let record = FluentRecord::take(&mut MsgpackReader::new(record))?;
                Ok(entries.event(time, options.metadata, &record, target)?)
            }
            FluentEvents::Array { count, mut values } => {
                for _ in 0..count {
                    entries.entry(&mut values, target)?;
                }
                Ok(())
            }
            FluentEvents::Packed(packed) => {
                let text = match options.compression {
                    EntryCompression::None => packed,
                    // Gzip has no form of nothing that its decoder accepts.
                    _ if packed.is_empty() => packed,
                    EntryCompression::Gzip => {
                        inflate::gzip(packed, inflated_bytes_max, inflated)?;
                        inflated
                    }
                    EntryCompression::Zstd => {
                        inflate::zstd(packed, inflated_bytes_max, inflated)?;
                        inflated
                    }
                };
                // The message and its array of entries are around the entries of the other modes.
                check_values(text, MESSAGE_DEPTH_MAX - 2, None)?;
                let mut values = MsgpackReader::new(text);
                while !values.is_empty() {
                    entries.entry(&mut values, target)?;
                }
                Ok(())
            }
        }
    }
}

/// Reads the elements of a message behind the head of its array.
fn read_message<'a>(
    values: &mut MsgpackReader<'a>,
    count: u64,
) -> Result<(&'a [u8], FluentEvents<'a>, FluentOptions<'a>), FluentError> {
    if count < 2 {
        return Err(FluentError::Structure("the array has less than two elements"));
    }
    let (MsgpackValue::Text(tag) | MsgpackValue::Binary(tag)) = values.value()? else {
        return Err(FluentError::Structure("the tag is not a string"));
    };
    if tag.len() > Labels::VALUE_BYTES_MAX {
        return Err(FluentError::TagTooLong(tag.len()));
    }
    let second = values.raw()?;
    let mut inside = MsgpackReader::new(second);
    let (events, used) = match inside.value()? {
        MsgpackValue::Text(packed) | MsgpackValue::Binary(packed) => (FluentEvents::Packed(packed), 2),
        MsgpackValue::Array(count) => (FluentEvents::Array { count, values: inside }, 2),
        _ if count < 3 => return Err(FluentError::Structure("a message with a time has no record")),
        _ => (FluentEvents::One { time: second, record: values.raw()? }, 3),
    };
    let options = if count > used { FluentOptions::read(values)? } else { FluentOptions::default() };
    Ok((tag, events, options))
}

/// Checks that the bytes are whole values, `count` of them or any number.
fn check_values(mut bytes: &[u8], depth_max: usize, count: Option<usize>) -> Result<(), MsgpackError> {
    let mut scanner = MsgpackScanner::new(depth_max);
    let mut left = count;
    while left.map_or(!bytes.is_empty(), |left| left > 0) {
        let Scanned::Whole(length) = scanner.scan(bytes)? else { return Err(MsgpackError::Truncated) };
        bytes = usize::try_from(length).ok().and_then(|length| bytes.get(length..)).unwrap_or_default();
        left = left.map(|left| left - 1);
    }
    if bytes.is_empty() { Ok(()) } else { Err(MsgpackError::Trailing(bytes.len() as u64)) }
}

/// The answer to a message whose records are safe: a map with the id of its chunk, as the sender encoded it.
fn encode_ack(chunk: &[u8]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(5 + chunk.len());
    // Writing to memory has no error.
    let _ = rmp::encode::write_map_len(&mut answer, 1);
    let _ = rmp::encode::write_str(&mut answer, "ack");
    answer.extend_from_slice(chunk);
    answer
}
