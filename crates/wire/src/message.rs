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
use bucksaw_segment::{Frame, Header, Kind};

use crate::{Step, WireError};

/// Asks a bulk port to close its segment now rather than at its age. Other ports pass over it.
pub const FLUSH: [u8; Header::LEN] = {
    let mut bytes = [0; Header::LEN];
    let (marker, _) = bytes.split_at_mut(4);
    marker.copy_from_slice(b"BSWL");
    bytes
};

/// A message of a client, its checksum checked.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Records. What the frame says of them is still to be checked, see [`Frame::rows`].
    Batch(Frame<'a>),
    /// See [`FLUSH`].
    Flush,
}

impl<'a> Message<'a> {
    /// How many more bytes the message at the start of `bytes` needs; 0 when it is whole. Cheap: no checksum is counted.
    ///
    /// # Errors
    /// [`WireError`] when the header shows that it can be no message, or one that is larger than `frame_bytes_max`.
    pub fn missing(bytes: &[u8], frame_bytes_max: u32) -> Result<usize, WireError> {
        let Some((head, body)) = bytes.split_first_chunk::<{ Header::LEN }>() else {
            return Ok(Header::LEN - bytes.len());
        };
        if *head == FLUSH {
            return Ok(0);
        }
        let header = Header::parse(head).map_err(WireError::Frame)?;
        if header.frame_len() > u64::from(frame_bytes_max) {
            return Err(WireError::FrameLong { found: header.frame_len(), max: frame_bytes_max });
        }
        if header.kind != Kind::Records || header.stream != 0 {
            return Err(WireError::NotRecords);
        }
        Ok((header.body_len as usize).saturating_sub(body.len()))
    }

    /// Reads the message from the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError`], as soon as it shows.
    pub fn decode(bytes: &'a [u8], frame_bytes_max: u32) -> Result<Step<Self>, WireError> {
        let missing = Self::missing(bytes, frame_bytes_max)?;
        let Some((head, body)) = bytes.split_first_chunk::<{ Header::LEN }>().filter(|_| missing == 0) else {
            return Ok(Step::Need(missing));
        };
        if *head == FLUSH {
            return Ok(Step::Whole(Self::Flush, Header::LEN));
        }
        let header = Header::parse(head).map_err(WireError::Frame)?;
        let body = body.get(..header.body_len as usize).unwrap_or_default();
        let frame = Frame::open(0, head, body).map_err(WireError::Frame)?;
        Ok(Step::Whole(Self::Batch(frame), Header::LEN + body.len()))
    }
}

/// Records on their way to a node.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The id of the first; the others have the next sequence numbers.
    pub first: Id,
    /// How many; at least 1.
    pub count: u32,
    /// When the client took them. The node puts its own time in its place.
    pub accepted: Millis,
    /// Which side columns there are, see `segment::Sides`.
    pub flags: u8,
    /// The side columns, encoded.
    pub sides: &'a [u8],
    /// The records, each followed by an LF. With the sides at most [`Header::BODY_BYTES_MAX`] bytes.
    pub text: &'a [u8],
}

impl Batch<'_> {
    /// The frame's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body_len = self.sides.len() + self.text.len();
        debug_assert!(body_len <= Header::BODY_BYTES_MAX);
        let header = Header {
            body_len: body_len as u32,
            sides_len: self.sides.len() as u32,
            first: self.first,
            count: self.count,
            stream: 0,
            accepted: self.accepted,
            kind: Kind::Records,
            flags: self.flags,
        };
        let mut out = Vec::with_capacity(Header::LEN + body_len);
        out.extend_from_slice(&header.seal(0, &[self.sides, self.text]));
        out.extend_from_slice(self.sides);
        out.extend_from_slice(self.text);
        out
    }
}
