//! The entries of a buffer file.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     4  marker    "BSWB"
//!        4     1  kind      1 batch, 2 snapshot, 3 acknowledgement
//!        5     3  reserved  zero
//!        8     4  body      bytes behind the header
//!       12     4  state     bytes of the state at the start of the body
//!       16     4  labels    bytes of the labels behind the state
//!       20     4  records   of the batch
//!       24     8  number    of the batch; of other kinds, the number of the next batch
//!       32     8  acked     all batches before this number are acknowledged
//!       40     4  checksum  CRC-32C of the body
//!       44     4  checksum  CRC-32C of the header before it
//!       48        body      state, labels, frame; of a snapshot: state, and the rewind if it follows one
//! ```
//! The header has a checksum of its own, so the entry behind a damaged body is found by its length. Behind a damaged
//! header, the next entry is found by its marker.

use bucksaw_binary::ByteReader;

/// The length of a header, in bytes.
pub const HEADER_LEN: usize = 48;

/// The longest body, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// The largest number of a batch. No agent reaches it.
pub const NUMBER_MAX: u64 = 1 << 60;

/// The first bytes of an entry.
pub const MARKER: [u8; 4] = *b"BSWB";

/// What an entry contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferEntryKind {
    /// A batch, and the change of state that it makes.
    Batch,
    /// The whole state.
    Snapshot,
    /// Only the acknowledgement in its header.
    Ack,
}

impl BufferEntryKind {
    const ALL: [(Self, u8); 3] = [(Self::Batch, 1), (Self::Snapshot, 2), (Self::Ack, 3)];
}

/// The header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// What the entry contains.
    pub kind: BufferEntryKind,
    /// Bytes behind the header.
    pub body_len: u32,
    /// Bytes of the state in the body.
    pub state_len: u32,
    /// Bytes of the labels in the body.
    pub labels_len: u32,
    /// The records of the batch.
    pub records: u32,
    /// The number of the batch, or of the next one.
    pub number: u64,
    /// All batches before this number are acknowledged.
    pub acked: u64,
    /// The checksum of the body.
    pub body_crc: u32,
}

impl EntryHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let kind = BufferEntryKind::ALL.iter().find(|(kind, _)| *kind == self.kind).map_or(0, |(_, code)| *code);
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&MARKER);
        bytes.extend_from_slice(&[kind, 0, 0, 0]);
        for field in [self.body_len, self.state_len, self.labels_len, self.records] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for field in [self.number, self.acked] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.body_crc.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let mut header = [0; HEADER_LEN];
        header.copy_from_slice(&bytes);
        header
    }

    /// Decodes the header at the start of `bytes`; `None` if there is no undamaged one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let checked = bytes.get(..HEADER_LEN - 4)?;
        let mut reader = ByteReader(bytes);
        if reader.array()? != MARKER {
            return None;
        }
        let code = reader.u8()?;
        let (kind, _) = *BufferEntryKind::ALL.iter().find(|(_, known)| *known == code)?;
        reader.bytes(3)?;
        let [body_len, state_len, labels_len, records] = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let (number, acked, body_crc, header_crc) = (reader.u64()?, reader.u64()?, reader.u32()?, reader.u32()?);
        let is_valid = header_crc == crc32c::crc32c(checked)
            && body_len as usize <= BODY_BYTES_MAX
            && number.max(acked) <= NUMBER_MAX
            && u64::from(state_len) + u64::from(labels_len) <= u64::from(body_len);
        is_valid.then_some(Self { kind, body_len, state_len, labels_len, records, number, acked, body_crc })
    }

    /// The parts of a body with the right length and checksum: state, labels and frame.
    pub fn split<'a>(&self, body: &'a [u8]) -> Option<[&'a [u8]; 3]> {
        if body.len() != self.body_len as usize || crc32c::crc32c(body) != self.body_crc {
            return None;
        }
        let (state, rest) = body.split_at_checked(self.state_len as usize)?;
        let (labels, frame) = rest.split_at_checked(self.labels_len as usize)?;
        Some([state, labels, frame])
    }

    /// Bytes of the frame in the body.
    pub fn frame_len(&self) -> u32 {
        self.body_len.saturating_sub(self.state_len).saturating_sub(self.labels_len)
    }

    /// The length of the entry, in bytes.
    pub fn entry_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.body_len)
    }
}

/// The checksum of a body in parts.
pub(crate) fn body_crc(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}
