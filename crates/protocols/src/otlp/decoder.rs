//! Requests as events.

use bucksaw_record::Labels;

use super::log_record::OtlpRecordWriter;
use super::{OtlpError, json_request, proto_request};
use crate::{Decoded, EventSink};

/// Decodes requests one after the other. Its buffers and the labels of known streams are kept between requests.
#[derive(Debug)]
pub struct OtlpDecoder {
    writer: OtlpRecordWriter,
}

impl OtlpDecoder {
    /// Creates a decoder; each event has `labels`, the labels of the listener.
    pub fn new(labels: &Labels) -> Self {
        Self { writer: OtlpRecordWriter::new(labels) }
    }

    /// Decodes a protobuf request.
    ///
    /// # Errors
    /// [`OtlpError`] if the request is refused as a whole. The events before the error were given to the sink.
    pub fn protobuf(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, OtlpError> {
        proto_request::decode(body, &mut self.writer, sink)
    }

    /// Decodes a JSON request.
    ///
    /// # Errors
    /// As [`Self::protobuf`].
    pub fn json(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, OtlpError> {
        json_request::decode(body, &mut self.writer, sink)
    }
}
