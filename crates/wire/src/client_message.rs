//! What a client says after the hello: batches, and that it waits.
//!
//! A batch is a record frame as `segment` draws it, stream 0, its checksum seeded with 0. A flush is as long as a frame's
//! header, so that a node always reads that much first:
//!
//! ```text
//!   offset  size  field     meaning
//!        0     4  marker    "BSWL"
//!        4    52  reserved  zero
//! ```

use bucksaw_record::{Id, Millis};
use bucksaw_segment::{Frame, FrameHeader, FrameKind};

use crate::{DecodeProgress, WireError};

/// Asks a bulk port to close its segment now rather than at its age. Other ports pass over it.
pub const FLUSH: [u8; FrameHeader::LEN] = {
    let mut bytes = [0; FrameHeader::LEN];
    let (marker, _) = bytes.split_at_mut(4);
    marker.copy_from_slice(b"BSWL");
    bytes
};

/// A message of a client, its checksum checked.
#[derive(Clone, Copy, Debug)]
pub enum ClientMessage<'a> {
    /// Records. What the frame says of them is still to be checked, see [`Frame::rows`].
    Batch(Frame<'a>),
    /// See [`FLUSH`].
    Flush,
}

impl<'a> ClientMessage<'a> {
    /// How many more bytes the message at the start of `bytes` needs; 0 when it is whole. Cheap: no checksum is counted.
    ///
    /// # Errors
    /// [`WireError`] when the header shows that it can be no message, or one that is larger than `frame_bytes_max`.
    pub fn missing_bytes(bytes: &[u8], frame_bytes_max: u32) -> Result<usize, WireError> {
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
            return Ok(FrameHeader::LEN - bytes.len());
        };
        if *head == FLUSH {
            return Ok(0);
        }
        let header = FrameHeader::parse(head).map_err(WireError::Frame)?;
        if header.frame_len() > u64::from(frame_bytes_max) {
            return Err(WireError::FrameTooLong { found: header.frame_len(), max: frame_bytes_max });
        }
        if header.kind != FrameKind::Records || header.stream != 0 {
            return Err(WireError::NotRecords);
        }
        Ok((header.body_len as usize).saturating_sub(body.len()))
    }

    /// Reads the message from the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as it shows.
    pub fn decode(bytes: &'a [u8], frame_bytes_max: u32) -> Result<DecodeProgress<Self>, WireError> {
        let missing = Self::missing_bytes(bytes, frame_bytes_max)?;
        let Some((head, body)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>().filter(|_| missing == 0) else {
            return Ok(DecodeProgress::Incomplete(missing));
        };
        if *head == FLUSH {
            return Ok(DecodeProgress::Complete(Self::Flush, FrameHeader::LEN));
        }
        let header = FrameHeader::parse(head).map_err(WireError::Frame)?;
        let body = body.get(..header.body_len as usize).unwrap_or_default();
        let frame = Frame::open(0, head, body).map_err(WireError::Frame)?;
        Ok(DecodeProgress::Complete(Self::Batch(frame), FrameHeader::LEN + body.len()))
    }
}

/// Records on their way to a node.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The id of the first; the others have the next sequence numbers.
    pub first_id: Id,
    /// How many; at least 1.
    pub count: u32,
    /// When the client took them. The node puts its own time in its place.
    pub accepted: Millis,
    /// Which side columns there are, see `segment::Sides`.
    pub layout_bits: u8,
    /// The side columns, encoded.
    pub row_meta: &'a [u8],
    /// The records, each followed by an LF. With the sides at most [`Header::BODY_BYTES_MAX`] bytes.
    pub text: &'a [u8],
}

impl Batch<'_> {
    /// The frame's bytes.
    #[must_use]
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
}
