//! Push requests as events.

use bucksaw_record::Labels;

use super::stream::PushStream;
use super::{LokiError, json_push, proto_push};
use crate::{Decoded, EventSink};

/// Decodes push requests one after the other. Its buffers and the labels of known streams are kept between requests.
#[derive(Debug)]
pub struct LokiDecoder {
    stream: PushStream,
}

impl LokiDecoder {
    /// Creates a decoder; each event has `labels`: the labels of the listener, and the tenant of the header
    /// `X-Scope-OrgID` under the name that the listener chooses.
    pub fn new(labels: &Labels) -> Self {
        Self { stream: PushStream::new(labels) }
    }

    /// Decodes a protobuf request; the caller has removed its snappy compression.
    ///
    /// # Errors
    /// [`LokiError`] if the request is refused as a whole. The events before the error were given to the sink.
    pub fn protobuf(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, LokiError> {
        proto_push::decode(body, &mut self.stream, sink)
    }

    /// Decodes a JSON request.
    ///
    /// # Errors
    /// As [`Self::protobuf`].
    pub fn json(&mut self, body: &[u8], sink: &mut dyn EventSink) -> Result<Decoded, LokiError> {
        json_push::decode(body, &mut self.stream, sink)
    }
}
