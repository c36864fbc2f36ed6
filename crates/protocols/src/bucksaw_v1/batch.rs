//! `IngestBatch`: records that a client sends together.

use bucksaw_record::{InvalidLabels, Labels, Millis};

use crate::event::without_line_end;
use crate::protobuf::{ProtobufError, ProtobufFields};
use crate::{AttributeList, Decoded, Event, EventSink};

/// The longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// Why a batch is refused as a whole. It would be refused again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The message is damaged, or another one.
    #[error("not an IngestBatch: {0}")]
    Protobuf(#[from] ProtobufError),
    /// A string is not UTF-8.
    #[error("a string of the batch is not UTF-8")]
    NotText,
    /// The labels are invalid.
    #[error("labels: {0}")]
    Labels(#[from] InvalidLabels),
    /// The key is too long.
    #[error("idempotency_key is longer than {max} bytes", max = KEY_BYTES_MAX)]
    LongKey,
}

/// What a batch states besides its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchHead {
    /// The number that the reply repeats.
    pub sequence: u64,
    /// The idempotency key; empty if there is none.
    pub key: Vec<u8>,
    /// The value of `Durability`.
    pub durability: u64,
    /// The labels of its records.
    pub labels: Labels,
    /// The number of its records.
    pub records: u64,
}

impl BatchHead {
    /// Reads the head, and checks the records, so that [`decode_records`] decodes all of them.
    ///
    /// # Errors
    /// [`BatchError`]. [`Self::sequence_of`] may give the number of the batch even so.
    pub fn read(message: &[u8]) -> Result<Self, BatchError> {
        let (mut head, mut labels) = (Self::default(), Vec::new());
        let mut fields = ProtobufFields::new(message);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => head.sequence = field.varint()?,
                2 => {
                    let key = text(field.bytes()?)?;
                    if key.len() > KEY_BYTES_MAX {
                        return Err(BatchError::LongKey);
                    }
                    head.key = key.as_bytes().to_vec();
                }
                3 => head.durability = field.varint()?,
                4 => {
                    let (name, value) = pair(field.bytes()?)?;
                    let (name, value) = (text(name)?, text(value)?);
                    // Of two entries of a map with a name the last counts.
                    labels.retain(|(other, _)| *other != name);
                    labels.push((name, value));
                    if labels.len() > Labels::COUNT_MAX {
                        return Err(InvalidLabels::TooMany.into());
                    }
                }
                5 => {
                    RecordFields::read(field.bytes()?, |_, _| {})?;
                    head.records += 1;
                }
                _ => {}
            }
        }
        head.labels = Labels::new(labels)?;
        Ok(head)
    }

    /// The number of a batch that cannot be read, if it precedes the damage.
    pub fn sequence_of(message: &[u8]) -> u64 {
        let mut fields = ProtobufFields::new(message);
        while let Ok(Some(field)) = fields.next() {
            if field.number == 1 {
                return field.varint().unwrap_or_default();
            }
        }
        0
    }
}

/// Gives the records of a batch with these labels to a sink.
///
/// # Errors
/// [`BatchError`] if [`BatchHead::read`] has one. The records before it were given to the sink.
pub fn decode_records(message: &[u8], labels: &Labels, sink: &mut dyn EventSink) -> Result<Decoded, BatchError> {
    let (mut decoded, mut attributes) = (Decoded::default(), AttributeList::default());
    let mut fields = ProtobufFields::new(message);
    while let Some(field) = fields.next()? {
        if field.number != 5 {
            continue;
        }
        attributes.clear();
        let mut has_invalid_name = false;
        let record = RecordFields::read(field.bytes()?, |name, value| match str::from_utf8(name) {
            Ok(name) if !name.is_empty() => attributes.push(name, value),
            _ => has_invalid_name = true,
        })?;
        if has_invalid_name {
            decoded.reject(|| "an attribute has no name, or one that is not UTF-8".to_owned());
            continue;
        }
        let event = Event { time: record.time, line: without_line_end(record.line), attributes: &attributes };
        decoded.push(sink, labels, &event);
    }
    Ok(decoded)
}

/// An `IngestRecord`.
struct RecordFields<'a> {
    time: Option<(Millis, u32)>,
    line: &'a [u8],
}

impl<'a> RecordFields<'a> {
    /// Reads a record, and calls `attribute` with the name and value of each attribute.
    fn read(record: &'a [u8], mut attribute: impl FnMut(&'a [u8], &'a [u8])) -> Result<Self, ProtobufError> {
        let mut read = Self { time: None, line: b"" };
        let mut fields = ProtobufFields::new(record);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => {
                    let nanos = field.fixed64()?;
                    read.time = (nanos > 0).then_some((Millis(nanos / 1_000_000), (nanos % 1_000_000) as u32));
                }
                2 => read.line = field.bytes()?,
                3 => {
                    let (name, value) = pair(field.bytes()?)?;
                    attribute(name, value);
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

/// A message with two fields of bytes: an attribute, or an entry of a map.
fn pair(message: &[u8]) -> Result<(&[u8], &[u8]), ProtobufError> {
    let (mut name, mut value): (&[u8], &[u8]) = (b"", b"");
    let mut fields = ProtobufFields::new(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => name = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((name, value))
}

fn text(bytes: &[u8]) -> Result<&str, BatchError> {
    str::from_utf8(bytes).map_err(|_| BatchError::NotText)
}
