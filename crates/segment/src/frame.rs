//! Frames: records that were read from a source at once, in queue segments and in the framed protocol.
//!
//! A header of [`FrameHeader::LEN`] bytes, row metadata, and text: `docs/format.md`, "Frame". The text of a record frame is
//! `count` records, each followed by an LF that is not part of it.
//!
//! The checksum is seeded with the id of the file (with 0 on the wire). So a log line that contains the bytes of a frame is not
//! mistaken for a frame when a reader searches for the next intact frame behind damage.

use std::io;

use bucksaw_binary::ByteReader;
use bucksaw_env::{ENCRYPTION_OVERHEAD, FileCipher};
use bucksaw_record::{Id, Labels, Millis};
use memchr::memchr_iter;

use crate::{RowMeta, Rows};

const RESERVED_LEN: usize = 6;

/// The layout bit of a frame whose body is encrypted. Only files have such frames.
const ENCRYPTED_BIT: u8 = 0x80;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Declares a stream: its labels, to which later frames refer by number.
    Stream,
    /// Records.
    Records,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes after the header.
    pub body_len: u32,
    /// Bytes of the row metadata, at the start of the body.
    pub row_meta_len: u32,
    /// The id of the first record.
    pub first_id: Id,
    /// Number of records.
    pub count: u32,
    /// The number of the stream.
    pub stream: u32,
    /// When a node accepted the records.
    pub accepted: Millis,
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Layout bits: which row metadata columns are present.
    pub layout_bits: u8,
}

/// Why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub enum FrameError {
    /// The marker is missing.
    Marker,
    /// A field is out of its bounds.
    Header,
    /// The checksum is wrong.
    Checksum,
    /// The row metadata or the text does not match the header.
    Body,
    /// The stream was not declared, or its declaration is damaged.
    Stream,
    /// The body does not decrypt.
    Encryption,
}

impl FrameError {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Marker => "no frame starts here",
            Self::Header => "the header of the frame is out of bounds",
            Self::Checksum => "the checksum of the frame is wrong",
            Self::Body => "the body of the frame does not match its header",
            Self::Stream => "the labels of the frame's stream are missing",
            Self::Encryption => "the body of the frame does not decrypt: it was changed",
        }
    }
}

impl FrameHeader {
    /// The header and the body of the frame that declares a stream under this number.
    pub fn stream(number: u32, labels: &Labels, accepted: Millis) -> (Self, Vec<u8>) {
        let mut body = Vec::new();
        labels.encode(&mut body);
        let (first_id, kind) = (Id::MIN, FrameKind::Stream);
        let (body_len, row_meta_len, count, layout_bits) = (body.len() as u32, 0, 0, 0);
        (Self { body_len, row_meta_len, first_id, count, stream: number, accepted, kind, layout_bits }, body)
    }

    /// The first bytes of every frame.
    pub(crate) const MARKER: [u8; 4] = *b"BSWF";

    /// Bytes of a header.
    pub const LEN: usize = 56;

    /// Maximum size of a body, which bounds a reader's memory: twice the largest record that can be configured.
    pub const BODY_BYTES_MAX: usize = 32 << 20;

    /// Encodes the header, with the checksum over it and the parts of the body.
    pub fn encode(&self, seed: u32, body: &[&[u8]]) -> [u8; Self::LEN] {
        debug_assert_eq!(body.iter().map(|part| part.len()).sum::<usize>(), self.body_len as usize);
        let mut bytes = self.encode_fields();
        let mut crc = crc32c::crc32c_append(seed, bytes.get(8..).unwrap_or_default());
        for part in body {
            crc = crc32c::crc32c_append(crc, part);
        }
        if let Some(place) = bytes.get_mut(4..8) {
            place.copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// The header without its checksum.
    fn encode_fields(&self) -> [u8; Self::LEN] {
        let mut out = Vec::with_capacity(Self::LEN);
        out.extend_from_slice(&Self::MARKER);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.body_len.to_le_bytes());
        out.extend_from_slice(&self.row_meta_len.to_le_bytes());
        out.extend_from_slice(&self.first_id.bits().to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.stream.to_le_bytes());
        out.extend_from_slice(&self.accepted.0.to_le_bytes());
        out.push(match self.kind {
            FrameKind::Stream => 1,
            FrameKind::Records => 2,
        });
        out.push(self.layout_bits);
        out.resize(Self::LEN, 0);
        let mut bytes = [0; Self::LEN];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Encodes the whole frame with its body encrypted. The body is bound to the header.
    ///
    /// # Errors
    /// Those of [`FileCipher::encrypt`].
    pub fn encode_encrypted(&self, seed: u32, body: &[&[u8]], cipher: &dyn FileCipher) -> io::Result<Vec<u8>> {
        let body_len = self.body_len + ENCRYPTION_OVERHEAD as u32;
        let header = Self { body_len, layout_bits: self.layout_bits | ENCRYPTED_BIT, ..*self };
        // The checksum, over the encrypted body, is not part of the context.
        let mut frame = cipher.encrypt(Frame::context(&header.encode_fields()), body)?;
        let head = header.encode(seed, &[&frame]);
        frame.splice(0..0, head);
        Ok(frame)
    }

    /// Whether the body is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.layout_bits & ENCRYPTED_BIT != 0
    }

    /// Whether only the length field of a frame is damaged: the checksum is right with the length of `body`.
    pub(crate) fn has_damaged_length(seed: u32, head: &[u8; Self::LEN], body: &[u8]) -> bool {
        let Ok(length) = u32::try_from(body.len()) else { return false };
        let mut repaired = *head;
        if let Some(place) = repaired.get_mut(8..12) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        Frame::open(seed, &repaired, body).is_ok()
    }

    /// Decodes a header and checks its bounds, but not its checksum.
    ///
    /// # Errors
    /// [`FrameError::Marker`] or [`FrameError::Header`].
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let mut reader = ByteReader(bytes);
        if reader.bytes(4) != Some(&Self::MARKER) {
            return Err(FrameError::Marker);
        }
        Self::parse_fields(&mut reader).filter(Self::is_valid).ok_or(FrameError::Header)
    }

    fn parse_fields(reader: &mut ByteReader<'_>) -> Option<Self> {
        reader.u32()?;
        let header = Self {
            body_len: reader.u32()?,
            row_meta_len: reader.u32()?,
            first_id: Id::from_bits(reader.u128()?),
            count: reader.u32()?,
            stream: reader.u32()?,
            accepted: Millis(reader.u64()?),
            kind: match reader.u8()? {
                1 => FrameKind::Stream,
                2 => FrameKind::Records,
                _ => return None,
            },
            layout_bits: reader.u8()?,
        };
        (reader.bytes(RESERVED_LEN)? == [0; RESERVED_LEN]).then_some(header)
    }

    fn is_valid(&self) -> bool {
        let has_valid_count = match self.kind {
            FrameKind::Stream => self.count == 0,
            // Every record has at least its LF, and the sequence numbers must not overflow.
            FrameKind::Records => {
                self.count > 0 && self.count <= self.text_len() && self.first_id.checked_add(self.count - 1).is_some()
            }
        };
        let overhead = if self.is_encrypted() { ENCRYPTION_OVERHEAD } else { 0 };
        has_valid_count
            && self.body_len as usize <= Self::BODY_BYTES_MAX + overhead
            && self.row_meta_len <= self.body_len
            && self.accepted <= Millis::MAX
    }

    /// Bytes of text.
    pub fn text_len(&self) -> u32 {
        self.body_len.saturating_sub(self.row_meta_len)
    }

    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> u64 {
        Self::LEN as u64 + u64::from(self.body_len)
    }
}

/// A frame with a verified checksum.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The fixed part.
    pub header: FrameHeader,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes a header and its body.
    ///
    /// # Errors
    /// [`FrameError`] if they are not an intact frame with a checksum seeded with `seed`.
    pub fn open(seed: u32, header: &[u8; FrameHeader::LEN], body: &'a [u8]) -> Result<Self, FrameError> {
        let parsed = FrameHeader::parse(header)?;
        if body.len() != parsed.body_len as usize {
            return Err(FrameError::Body);
        }
        let crc = crc32c::crc32c_append(seed, header.get(8..).unwrap_or_default());
        let crc = crc32c::crc32c_append(crc, body);
        if header.get(4..8) != Some(&crc.to_le_bytes()) {
            return Err(FrameError::Checksum);
        }
        Ok(Self { header: parsed, body })
    }

    /// The frame with its body decrypted; `None` if that is too short.
    pub(crate) fn with_decrypted(self, body: &[u8]) -> Option<Frame<'_>> {
        let body_len = u32::try_from(body.len()).ok()?;
        let header = FrameHeader { body_len, layout_bits: self.header.layout_bits & !ENCRYPTED_BIT, ..self.header };
        header.is_valid().then_some(Frame { header, body })
    }

    /// What the encrypted body of the frame with this header is bound to.
    pub(crate) fn context(header: &[u8; FrameHeader::LEN]) -> &[u8] {
        header.get(8..).unwrap_or_default()
    }

    /// The row metadata as bytes.
    pub fn row_meta(&self) -> &'a [u8] {
        self.body.get(..self.header.row_meta_len as usize).unwrap_or_default()
    }

    /// The text, or the encoded labels of a stream frame.
    pub fn text(&self) -> &'a [u8] {
        self.body.get(self.header.row_meta_len as usize..).unwrap_or_default()
    }

    /// The labels in a stream frame.
    ///
    /// # Errors
    /// [`FrameError::Body`] if it has none.
    pub fn labels(&self) -> Result<Labels, FrameError> {
        match self.header.kind {
            FrameKind::Stream => Labels::decode(self.text()).map_err(|_| FrameError::Body),
            FrameKind::Records => Err(FrameError::Body),
        }
    }

    /// The rows of a record frame, checked against the text: a frame of a client may have a right checksum and an invalid
    /// content.
    ///
    /// # Errors
    /// [`FrameError::Body`] if they do not match.
    pub fn rows(&self) -> Result<Rows, FrameError> {
        let header = &self.header;
        let row_meta = RowMeta::decode(header.layout_bits, self.row_meta(), header.first_id.time(), header.count)
            .ok_or(FrameError::Body)?;
        let text = self.text();
        let fits = is_text_of_rows(text, row_meta.lines.as_deref(), header.count);
        if header.kind != FrameKind::Records || !fits {
            return Err(FrameError::Body);
        }
        row_meta.into_rows(header.first_id, header.count, header.accepted).ok_or(FrameError::Body)
    }
}

/// Whether a text is exactly `count` records, each followed by an LF. Without `lines` each line is a record.
pub(crate) fn is_text_of_rows(text: &[u8], lines: Option<&[u32]>, count: u32) -> bool {
    let wanted = match lines {
        None => u64::from(count),
        Some(lines) if lines.len() == count as usize => lines.iter().map(|lines| u64::from(*lines)).sum(),
        Some(_) => return false,
    };
    text.last().is_none_or(|last| *last == b'\n') && memchr_iter(b'\n', text).count() as u64 == wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordSummary;
    use crate::row_meta::tests::any_row_meta;
    use bucksaw_record::{Producer, RowAttributes};
    use proptest::prelude::*;

    fn frame(count: u32, row_meta: &RowMeta, text: &[u8]) -> ([u8; FrameHeader::LEN], Vec<u8>) {
        let first = Id::new(Millis(50), Producer::new(1), 7);
        let mut body = Vec::new();
        let flags = row_meta.encode(first.time(), &mut body);
        let header = FrameHeader {
            body_len: (body.len() + text.len()) as u32,
            row_meta_len: body.len() as u32,
            first_id: first,
            count,
            stream: 3,
            accepted: Millis(51),
            kind: FrameKind::Records,
            layout_bits: flags,
        };
        let bytes = header.encode(9, &[&body, text]);
        body.extend_from_slice(text);
        (bytes, body)
    }

    #[test]
    fn layout_is_the_documented_one() {
        let (bytes, _) = frame(1, &RowMeta::default(), b"x\n");
        assert_eq!(&bytes[..4], b"BSWF");
        assert_eq!(bytes[8..12], 2_u32.to_le_bytes());
        assert_eq!(bytes[32..36], 1_u32.to_le_bytes());
        assert_eq!((bytes[48], &bytes[50..]), (2, &[0; 6][..]));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let (header, body) = frame(2, &RowMeta::default(), b"one\ntwo\n");
        assert!(Frame::open(9, &header, &body).unwrap().rows().is_ok());
        assert!(matches!(Frame::open(8, &header, &body), Err(FrameError::Checksum)));
        for bit in 0..(header.len() + body.len()) * 8 {
            let (mut header, mut body) = (header, body.clone());
            let place = if bit / 8 < header.len() { &mut header[bit / 8] } else { &mut body[bit / 8 - 56] };
            *place ^= 1 << (bit % 8);
            assert!(Frame::open(9, &header, &body).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn contents_must_fit_the_header() {
        let check = |count, row_meta: &RowMeta, text: &[u8], good: bool| {
            let (header, body) = frame(count, row_meta, text);
            assert_eq!(Frame::open(9, &header, &body).and_then(|frame| frame.rows()).is_ok(), good, "{count} {text:?}");
        };
        let lines = |lines: &[u32]| RowMeta { lines: Some(lines.to_vec()), ..RowMeta::default() };
        check(2, &RowMeta::default(), b"a\nb\n", true);
        check(1, &RowMeta::default(), b"a\nb\n", false);
        check(2, &RowMeta::default(), b"a\nb\nc", false);
        check(2, &lines(&[1, 2]), b"a\nb\nc\n", true);
        check(2, &lines(&[1, 1]), b"a\nb\nc\n", false);
        check(2, &lines(&[3, 0]), b"a\nb\nc\n", false);
        check(2, &lines(&[3]), b"a\nb\nc\n", false);
        check(2, &lines(&[1, u32::MAX]), b"a\nb\nc\n", false);
        check(9, &RowMeta::default(), b"a\n", false);
    }

    proptest! {
        #[test]
        fn row_meta_round_trips((count, mut row_meta) in any_row_meta()) {
            row_meta.lines = None;
            row_meta.attributes = RowAttributes::empty();
            let (header, body) = frame(count, &row_meta, "x\n".repeat(count as usize).as_bytes());
            let opened = Frame::open(9, &header, &body).unwrap();
            let rows = opened.rows().unwrap();
            let (mut of_rows, mut of_frame) = (RecordSummary::default(), RecordSummary::default());
            of_rows.add(&rows, opened.text().len());
            of_frame.add_frame(&opened.header, opened.row_meta());
            prop_assert_eq!(of_frame, of_rows);
            prop_assert_eq!(rows, row_meta.into_rows(Id::new(Millis(50), Producer::new(1), 7), count, Millis(51)).unwrap());
        }

        #[test]
        fn any_bytes_open_or_fail(header: [u8; 32], rest: [u8; 24], body in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut bytes = [0; FrameHeader::LEN];
            bytes[..32].copy_from_slice(&header);
            bytes[32..].copy_from_slice(&rest);
            let _ = Frame::open(0, &bytes, &body).map(|frame| (frame.rows(), frame.labels()));
        }
    }
}
