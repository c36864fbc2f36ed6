//! The body of a request in a protocol of another log system: collected as a whole, then decoded.

use bucksaw_ingest::{Durability, Source};

use super::body_consumer::BodyConsumer;
use super::body_error::{BodyError, BodyErrorReason};
use super::request::Encoding;
use crate::intake::EventRecords;

/// The longest decompressed body where there is memory for it. Senders divide their records into requests of a few
/// megabytes.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// The first capacity for the text of a body.
const TEXT_BYTES_MIN: usize = 64 << 10;

/// Memory of the collected records besides one of maximum length; see [`EventRecords`].
pub(super) const RECORDS_BYTES: usize = 3 << 20;

/// The longest text of a body whose request can reserve `memory_bytes`, of which the decompressor takes some: a power of two.
pub(super) fn text_bytes_max(memory_bytes: usize, decompressor_bytes: usize, record_bytes_max: usize) -> usize {
    let left = memory_bytes.saturating_sub(decompressor_bytes + RECORDS_BYTES + record_bytes_max);
    // While the text grows, it is there once and a half.
    let fitting = left / 3 * 2;
    1 << fitting.clamp(TEXT_BYTES_MIN, TEXT_BYTES_MAX).ilog2()
}

/// A body of events and how it is to be ingested.
#[derive(Debug)]
pub struct EventRequest<'a> {
    /// The protocol.
    pub source: Source,
    /// How the body is compressed.
    pub encoding: Encoding,
    /// When its records count as accepted.
    pub durability: Durability,
    /// Its idempotency key.
    pub key: Option<&'a [u8]>,
    /// What determines the records besides the key and the body, such as labels.
    pub context: &'a [u8],
    /// The minimum length of the body by its head, in bytes.
    pub bytes_min: u64,
}

/// A body of events that states itself how it is to be ingested.
#[derive(Debug)]
pub struct BatchRequest {
    /// The protocol.
    pub source: Source,
    /// How the body is compressed.
    pub encoding: Encoding,
    /// The length of the body as it is sent, in bytes.
    pub bytes_min: u64,
}

/// What a body of events states about itself.
#[derive(Debug)]
pub struct BatchPlan {
    /// When its records count as accepted.
    pub durability: Durability,
    /// Its idempotency key.
    pub key: Option<Vec<u8>>,
}

/// Decodes a body into its records.
pub(super) type Decode<T> = Box<dyn FnOnce(&[u8], &mut EventRecords) -> T + Send>;

/// Collects a body, and decodes it at its end.
pub(super) struct EventBody<T> {
    text: Vec<u8>,
    /// `None` once the body was decoded.
    decode: Option<Decode<T>>,
    records: EventRecords,
    text_bytes_max: usize,
    record_bytes_max: usize,
    decoded: Option<T>,
}

impl<T> EventBody<T> {
    /// A body of at most `text_bytes_max` bytes of text; see [`text_bytes_max`].
    pub(super) fn new(
        decode: Decode<T>,
        records: EventRecords,
        text_bytes_max: usize,
        record_bytes_max: usize,
    ) -> Self {
        Self { text: Vec::new(), decode: Some(decode), records, text_bytes_max, record_bytes_max, decoded: None }
    }

    /// The records, and what the decoder returned.
    pub(super) fn into_parts(self) -> (EventRecords, Option<T>) {
        (self.records, self.decoded)
    }

    /// The capacity for text of this length. It doubles, so that a body is copied less than twice.
    fn capacity_for(&self, length: usize) -> usize {
        if length <= self.text.capacity() {
            return self.text.capacity();
        }
        length.min(self.text_bytes_max).next_power_of_two().max(TEXT_BYTES_MIN)
    }
}

impl<T: Send + 'static> BodyConsumer for EventBody<T> {
    fn push(&mut self, text: &[u8]) -> Result<(), BodyError> {
        let length = self.text.len() + text.len();
        if length > self.text_bytes_max {
            let message = format!("the body has more than {} bytes: send it in several", self.text_bytes_max);
            return Err(BodyErrorReason::TooLarge(message).into());
        }
        let capacity = self.capacity_for(length);
        self.text.reserve_exact(capacity - self.text.len());
        self.text.extend_from_slice(text);
        Ok(())
    }

    fn push_owned(&mut self, text: Vec<u8>) -> Result<(), BodyError> {
        if self.text.is_empty() && text.len() <= self.text_bytes_max {
            self.text = text;
            return Ok(());
        }
        self.push(&text)
    }

    fn finish(&mut self) -> Result<(), BodyError> {
        let Some(decode) = self.decode.take() else { return Ok(()) };
        self.decoded = Some(decode(&self.text, &mut self.records));
        self.text = Vec::new();
        Ok(self.records.finish().map_err(BodyErrorReason::from)?)
    }

    fn flush(&mut self) -> Result<(), BodyError> {
        Ok(())
    }

    fn release_buffer(&mut self) {}

    fn accepted(&self) -> u64 {
        self.records.accepted()
    }

    fn may_flush_early(&self) -> bool {
        false
    }

    fn buffered_bytes(&self) -> usize {
        self.text.capacity() + self.records.memory_bytes()
    }

    fn peak_bytes(&self, text_bytes: usize) -> usize {
        let length = self.text.len().saturating_add(text_bytes);
        let capacity = self.capacity_for(length);
        let copied = if capacity > self.text.capacity() { self.text.capacity() } else { 0 };
        // Short bodies have few records.
        let records = (RECORDS_BYTES + self.record_bytes_max).min(8 * length.min(self.text_bytes_max));
        capacity + copied + records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::stream;
    use crate::intake::{EventTarget, IdAssignment};

    fn body() -> EventBody<usize> {
        let stream = stream(Source::Loki);
        let ids = IdAssignment::consecutive(&stream.intake);
        let target = EventTarget { intake: stream.intake, source: stream.source, durability: stream.durability };
        EventBody::new(Box::new(|text, _| text.len()), EventRecords::new(target, ids, 1 << 20), TEXT_BYTES_MAX, 1 << 20)
    }

    #[test]
    fn a_body_is_decoded_once_as_a_whole() {
        let mut body = body();
        for part in [&b"ab"[..], b"", b"cde"] {
            body.push(part).unwrap();
        }
        body.finish().unwrap();
        body.finish().unwrap();
        assert_eq!(body.into_parts().1, Some(5));
    }

    #[test]
    fn the_maximum_fits_in_the_memory_of_a_request() {
        for memory in [0, 5 << 20, 14 << 20, 51 << 20, 1 << 30] {
            let max = text_bytes_max(memory, 9 << 20, 1 << 20);
            let needed = max / 2 * 3 + (9 << 20) + RECORDS_BYTES + (1 << 20);
            assert!(max == TEXT_BYTES_MIN || needed <= memory, "{max} of {memory}");
        }
        assert_eq!(text_bytes_max(51 << 20, 9 << 20, 1 << 20), TEXT_BYTES_MAX);
        assert_eq!(text_bytes_max(14 << 20, 64 << 10, 1 << 20), 4 << 20);
    }

    #[test]
    fn a_long_body_is_refused_and_memory_is_as_announced() {
        let mut body = body();
        let part = vec![b'x'; 300_000];
        let refused = loop {
            let announced = body.peak_bytes(part.len());
            let before = body.text.capacity();
            if let Err(refused) = body.push(&part) {
                break refused;
            }
            let used = body.text.capacity() + if body.text.capacity() > before { before } else { 0 };
            assert!(used <= announced, "{used} of {announced}");
        };
        assert!(matches!(refused.reason, BodyErrorReason::TooLarge(_)));
        assert!(body.text.len() > TEXT_BYTES_MAX - part.len());
    }
}
