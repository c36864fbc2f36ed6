//! The messages of a client after its hello: a token, batches, labels, flushes and reports.
//!
//! A batch is a record frame of `segment`, of stream 0, with a checksum seeded with 0. A stream frame of stream 0 sets the labels
//! of the batches behind it, in place of those of the hello. A flush has the length of a frame header, so a node always reads
//! that many bytes first:
//!
//! ```text
//!   offset  size  field     meaning
//!        0     4  marker    "BSWL"
//!        4    52  reserved  zero
//! ```
//! A report and a token have a header of that length too: see `agent_report` and `client_token`.

use bucksaw_record::{Id, Labels, Millis};
use bucksaw_segment::{Frame, FrameHeader, FrameKind};

use crate::{AgentReport, ClientToken, DecodeProgress, LABELS_BYTES_MAX, WireError};

/// Asks a `bulk` port to close its segment at once instead of by age. Other ports ignore it.
pub const FLUSH: [u8; FrameHeader::LEN] = {
    let mut bytes = [0; FrameHeader::LEN];
    let (marker, _) = bytes.split_at_mut(4);
    marker.copy_from_slice(b"BSWL");
    bytes
};

/// A message of a client, with a valid checksum.
#[derive(Clone, Debug)]
pub enum ClientMessage<'a> {
    /// Records. Their row metadata is not checked; see [`Frame::rows`].
    Batch(Frame<'a>),
    /// The labels of all batches behind this message. Since version 1.2.
    Labels(Labels),
    /// See [`FLUSH`].
    Flush,
    /// The state of an agent. Since version 1.3.
    Report(AgentReport),
    /// The token of the client. Since version 1.4.
    Token(ClientToken),
}

impl<'a> ClientMessage<'a> {
    /// The number of missing bytes of the message at the start of `bytes`; 0 if it is complete. Computes no checksum.
    ///
    /// # Errors
    /// [`WireError`] if the header is none, or announces more than `frame_bytes_max` bytes.
    pub fn missing_bytes(bytes: &[u8], frame_bytes_max: u32) -> Result<usize, WireError> {
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
            return Ok(FrameHeader::LEN - bytes.len());
        };
        if *head == FLUSH {
            return Ok(0);
        }
        if let Some(length) = AgentReport::body_length(head)? {
            return Ok(length.saturating_sub(body.len()));
        }
        if let Some(length) = ClientToken::body_length(head)? {
            return Ok(length.saturating_sub(body.len()));
        }
        let header = FrameHeader::parse(head).map_err(WireError::Frame)?;
        if header.frame_len() > u64::from(frame_bytes_max) {
            return Err(WireError::FrameTooLong { found: header.frame_len(), max: frame_bytes_max });
        }
        if header.stream != 0 {
            return Err(WireError::NotRecords);
        }
        if header.kind == FrameKind::Stream && header.body_len as usize > LABELS_BYTES_MAX {
            return Err(WireError::LabelsTooLong(header.body_len));
        }
        Ok((header.body_len as usize).saturating_sub(body.len()))
    }

    /// Whether the bytes are the start of a token, as far as they have arrived.
    pub fn may_be_token(bytes: &[u8]) -> bool {
        let marker = ClientToken::MARKER;
        marker.starts_with(bytes.get(..marker.len()).unwrap_or(bytes))
    }

    /// Decodes the message at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as the bytes show it.
    pub fn decode(bytes: &'a [u8], frame_bytes_max: u32) -> Result<DecodeProgress<Self>, WireError> {
        let missing = Self::missing_bytes(bytes, frame_bytes_max)?;
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>().filter(|_| missing == 0) else {
            return Ok(DecodeProgress::Incomplete(missing));
        };
        if *head == FLUSH {
            return Ok(DecodeProgress::Complete(Self::Flush, FrameHeader::LEN));
        }
        if let Some(length) = AgentReport::body_length(head)? {
            let report = AgentReport::decode_body(body.get(..length).unwrap_or_default())?;
            return Ok(DecodeProgress::Complete(Self::Report(report), FrameHeader::LEN + length));
        }
        if let Some(length) = ClientToken::body_length(head)? {
            let token = ClientToken::decode_body(body.get(..length).unwrap_or_default())?;
            return Ok(DecodeProgress::Complete(Self::Token(token), FrameHeader::LEN + length));
        }
        let header = FrameHeader::parse(head).map_err(WireError::Frame)?;
        let body = body.get(..header.body_len as usize).unwrap_or_default();
        let frame = Frame::open(0, head, body).map_err(WireError::Frame)?;
        let message = match header.kind {
            FrameKind::Records => Self::Batch(frame),
            FrameKind::Stream => Self::Labels(Labels::decode(body).map_err(WireError::Labels)?),
        };
        Ok(DecodeProgress::Complete(message, FrameHeader::LEN + body.len()))
    }
}

/// Encodes the message that sets the labels of the batches behind it.
pub fn encode_labels(labels: &Labels) -> Vec<u8> {
    let (header, body) = FrameHeader::stream(0, labels, Millis(0));
    [&header.encode(0, &[&body])[..], &body].concat()
}

/// Records that a client sends.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The id of the first record; the others have the next sequence numbers.
    pub first_id: Id,
    /// The number of records, at least 1.
    pub count: u32,
    /// The client's time. The node replaces it by its own.
    pub accepted: Millis,
    /// The columns of the row metadata; see `segment::RowMeta`.
    pub layout_bits: u8,
    /// The encoded row metadata.
    pub row_meta: &'a [u8],
    /// The text of the records, each followed by an LF; with the row metadata at most [`FrameHeader::BODY_BYTES_MAX`] bytes.
    pub text: &'a [u8],
}

impl Batch<'_> {
    /// Encodes the frame.
    pub fn encode(&self) -> Vec<u8> {
        let body_len = self.row_meta.len() + self.text.len();
        debug_assert!(body_len <= FrameHeader::BODY_BYTES_MAX);
        let header = FrameHeader {
            body_len: body_len as u32,
            row_meta_len: self.row_meta.len() as u32,
            first_id: self.first_id,
            count: self.count,
            stream: 0,
            accepted: self.accepted,
            kind: FrameKind::Records,
            layout_bits: self.layout_bits,
        };
        let mut out = Vec::with_capacity(FrameHeader::LEN + body_len);
        out.extend_from_slice(&header.encode(0, &[self.row_meta, self.text]));
        out.extend_from_slice(self.row_meta);
        out.extend_from_slice(self.text);
        out
    }

    /// Makes a frame of the queue a frame of the wire. `frame` has room for a header of [`FrameHeader::LEN`] bytes, and the
    /// body behind it, which `header` describes.
    pub fn encode_in_place(header: FrameHeader, frame: &mut [u8]) {
        if let Some((head, body)) = frame.split_first_chunk_mut() {
            *head = FrameHeader { stream: 0, ..header }.encode(0, &[body]);
        }
    }
}
