//! `IngestReply`, `Record` and `Statistics`.

use crate::protobuf::{message_bytes, varint_bytes, write_bytes, write_fixed64, write_message_start, write_varint};

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReply {
    /// The number of the batch.
    pub sequence: u64,
    /// Records that were accepted.
    pub accepted: u64,
    /// Records that were refused.
    pub rejected: u64,
    /// Why the first of them was.
    pub first_error: String,
    /// The code of gRPC of a batch that is refused as a whole; 0 for others.
    pub code: u32,
    /// Why it is.
    pub message: String,
    /// Seconds after which it may be sent again, if that helps.
    pub retry_after_s: Option<u32>,
}

impl BatchReply {
    /// The encoded `IngestReply`.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, 1, self.sequence);
        write_varint(&mut out, 2, self.accepted);
        write_varint(&mut out, 3, self.rejected);
        write_bytes(&mut out, 4, self.first_error.as_bytes());
        write_varint(&mut out, 5, u64::from(self.code));
        write_bytes(&mut out, 6, self.message.as_bytes());
        write_varint(&mut out, 7, u64::from(self.retry_after_s.is_some()));
        write_varint(&mut out, 8, u64::from(self.retry_after_s.unwrap_or_default()));
        out
    }
}

/// A record of an answer, in place.
#[derive(Clone, Debug)]
pub struct RecordParts<'a> {
    /// Its id as text.
    pub id: &'a str,
    /// Nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// Its labels, names and values.
    pub labels: &'a [(&'a str, &'a str)],
    /// Its line.
    pub line: &'a [u8],
    /// Its attributes, names and values in order.
    pub attributes: &'a [(&'a str, &'a [u8])],
    /// Whether the line goes on in the next record.
    pub is_cut: bool,
    /// Whether the line had no line end.
    pub is_unterminated: bool,
}

/// Appends a `Record` as a field of this number.
pub fn write_record(out: &mut Vec<u8>, number: u32, record: &RecordParts<'_>) {
    let pair_bytes = |name: &str, value: &[u8]| field_bytes(name.len()) + field_bytes(value.len());
    let bools = 2 * (usize::from(record.is_cut) + usize::from(record.is_unterminated));
    let time = if record.time_unix_nano == 0 { 0 } else { 9 };
    let labels = record.labels.iter().map(|(name, value)| message_bytes(pair_bytes(name, value.as_bytes())));
    let attributes = record.attributes.iter().map(|(name, value)| message_bytes(pair_bytes(name, value)));
    let length = field_bytes(record.id.len()) + time + bools + field_bytes(record.line.len());
    let length = length + labels.sum::<usize>() + attributes.sum::<usize>();
    write_message_start(out, number, length);
    write_bytes(out, 1, record.id.as_bytes());
    write_fixed64(out, 2, record.time_unix_nano);
    for (name, value) in record.labels {
        write_pair(out, 3, name, value.as_bytes());
    }
    write_bytes(out, 4, record.line);
    for (name, value) in record.attributes {
        write_pair(out, 5, name, value);
    }
    write_varint(out, 6, u64::from(record.is_cut));
    write_varint(out, 7, u64::from(record.is_unterminated));
}

/// Appends `Statistics` as a field of this number.
pub fn write_statistics(
    out: &mut Vec<u8>,
    number: u32,
    matched: u64,
    partial_reasons: Option<&[String]>,
    hints: &[String],
    json: &str,
) {
    let mut statistics = Vec::new();
    write_varint(&mut statistics, 1, matched);
    write_varint(&mut statistics, 2, u64::from(partial_reasons.is_some()));
    for reason in partial_reasons.unwrap_or_default() {
        write_bytes(&mut statistics, 3, reason.as_bytes());
    }
    for hint in hints {
        write_bytes(&mut statistics, 4, hint.as_bytes());
    }
    write_bytes(&mut statistics, 5, json.as_bytes());
    write_message_start(out, number, statistics.len());
    out.extend_from_slice(&statistics);
}

/// Appends the number of a `CountReply` as a field of this number.
pub fn write_count(out: &mut Vec<u8>, number: u32, count: u64) {
    write_varint(out, number, count);
}

/// Appends the notice of a `TailReply` as a field of this number.
pub fn write_notice(out: &mut Vec<u8>, number: u32, notice: &str) {
    write_bytes(out, number, notice.as_bytes());
}

fn write_pair(out: &mut Vec<u8>, number: u32, name: &str, value: &[u8]) {
    write_message_start(out, number, field_bytes(name.len()) + field_bytes(value.len()));
    write_bytes(out, 1, name.as_bytes());
    write_bytes(out, 2, value);
}

/// Bytes of a field of bytes with a number below 16; an empty one is not written.
fn field_bytes(length: usize) -> usize {
    if length == 0 { 0 } else { 1 + varint_bytes(length as u64) + length }
}
