//! What a client writes and reads: `IngestBatch` and `IngestReply`.

use super::batch::BatchHead;
use super::replies::BatchReply;
use crate::protobuf::{
    ProtobufError, ProtobufFields, varint_bytes, write_bytes, write_fixed64, write_message_start, write_varint,
};

/// Builds an `IngestBatch` of lines.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    message: Vec<u8>,
}

impl BatchWriter {
    /// A batch without records, in memory for this many bytes of records.
    pub fn new(head: &BatchHead, record_bytes: usize) -> Self {
        let mut message = Vec::with_capacity(record_bytes + 256);
        write_varint(&mut message, 1, head.sequence);
        write_bytes(&mut message, 2, &head.key);
        write_varint(&mut message, 3, head.durability);
        for (name, value) in head.labels.iter() {
            let mut entry = Vec::new();
            write_bytes(&mut entry, 1, name.as_bytes());
            write_bytes(&mut entry, 2, value.as_bytes());
            write_message_start(&mut message, 4, entry.len());
            message.extend_from_slice(&entry);
        }
        Self { message }
    }

    /// Adds a record without attributes. Its time is in nanoseconds since 1970; 0 for the time of arrival.
    pub fn push(&mut self, time_unix_nano: u64, line: &[u8]) {
        let time = if time_unix_nano == 0 { 0 } else { 9 };
        let text = if line.is_empty() { 0 } else { 1 + varint_bytes(line.len() as u64) + line.len() };
        write_message_start(&mut self.message, 5, time + text);
        write_fixed64(&mut self.message, 1, time_unix_nano);
        write_bytes(&mut self.message, 2, line);
    }

    /// The encoded message.
    pub fn finish(self) -> Vec<u8> {
        self.message
    }
}

impl BatchReply {
    /// Reads an `IngestReply`.
    ///
    /// # Errors
    /// [`ProtobufError`].
    pub fn read(message: &[u8]) -> Result<Self, ProtobufError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let (mut reply, mut may_retry, mut seconds) = (Self::default(), false, 0);
        let mut fields = ProtobufFields::new(message);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => reply.sequence = field.varint()?,
                2 => reply.accepted = field.varint()?,
                3 => reply.rejected = field.varint()?,
                4 => reply.first_error = text(field.bytes()?),
                5 => reply.code = narrow(field.varint()?),
                6 => reply.message = text(field.bytes()?),
                7 => may_retry = field.varint()? != 0,
                8 => seconds = narrow(field.varint()?),
                _ => {}
            }
        }
        reply.retry_after_s = may_retry.then_some(seconds);
        Ok(reply)
    }
}
