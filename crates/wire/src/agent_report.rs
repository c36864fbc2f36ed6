//! What an agent reports about itself, so that a node knows its agents. Since version 1.3.
//!
//! ```text
//!   offset  size  field            meaning (little-endian)
//!        0     4  marker           "BSWA"
//!        4     4  length           bytes behind the header; at most REPORT_BYTES_MAX
//!        8    48  reserved         zero
//!       56    16  id               of the agent, the same over restarts
//!       72     8  files            followed files
//!       80     8  unreadable       paths that cannot be read
//!       88     8  lag_bytes        unread and unacknowledged bytes of files
//!       96     8  lag_ms           the longest wait of one
//!      104     8  buffer_bytes     unacknowledged, in the buffer on disk
//!      112     8  gaps             places in files where lines may be missing, since the start
//!      120     8  dropped_records  dropped because the buffer was full, since the start
//!      128     8  acked_records    acknowledged since the start
//!      136     2  host length      at most HOST_BYTES_MAX
//!      138     2  version length   at most VERSION_BYTES_MAX
//!      140        host, version    UTF-8
//! ```
//! The header has the length of a frame header, so a node always reads that many bytes first. A later minor version may add bytes
//! at the end. A report is not acknowledged, and a node may ignore it.

use bucksaw_binary::ByteReader;
use bucksaw_segment::FrameHeader;

use crate::fields::sanitize_text;
use crate::{REPORT_BYTES_MAX, WireError};

/// The longest name of a host, in bytes.
const HOST_BYTES_MAX: usize = 255;

/// The longest version of a program, in bytes.
const VERSION_BYTES_MAX: usize = 64;

/// Larger numbers are reported as this one: the largest whole number that JSON readers keep exact.
const NUMBER_MAX: u64 = (1 << 53) - 1;

const MARKER: [u8; 4] = *b"BSWA";

/// What an agent reports about itself. Texts have no control characters, numbers are below 2^53.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// The same over restarts of the agent.
    pub id: [u8; 16],
    /// The name of its machine; empty if unknown.
    pub host: String,
    /// The version of its program.
    pub version: String,
    /// Followed files.
    pub files: u64,
    /// Paths that cannot be read.
    pub unreadable_files: u64,
    /// Unread and unacknowledged bytes of files.
    pub lag_bytes: u64,
    /// The longest wait of such a byte, in milliseconds.
    pub lag_ms: u64,
    /// Unacknowledged bytes in the buffer on disk.
    pub buffer_bytes: u64,
    /// Places in files where lines may be missing, since the start of the agent.
    pub gaps: u64,
    /// Records dropped because the buffer was full, since the start of the agent.
    pub dropped_records: u64,
    /// Records acknowledged by nodes since the start of the agent.
    pub acked_records: u64,
}

impl AgentReport {
    /// Encodes the message. Texts are shortened to their limits, and numbers limited.
    pub fn encode(&self) -> Vec<u8> {
        let (host, version) = (prefix(&self.host, HOST_BYTES_MAX), prefix(&self.version, VERSION_BYTES_MAX));
        let mut body = self.id.to_vec();
        for number in self.numbers() {
            body.extend_from_slice(&number.min(NUMBER_MAX).to_le_bytes());
        }
        // The limits are below that of the type.
        body.extend_from_slice(&(host.len() as u16).to_le_bytes());
        body.extend_from_slice(&(version.len() as u16).to_le_bytes());
        body.extend_from_slice(host.as_bytes());
        body.extend_from_slice(version.as_bytes());
        let mut out = MARKER.to_vec();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.resize(FrameHeader::LEN, 0);
        out.append(&mut body);
        out
    }

    /// The length of the report behind this header; `None` if it is that of another message.
    ///
    /// # Errors
    /// [`WireError::ReportTooLong`].
    pub(crate) fn body_length(header: &[u8; FrameHeader::LEN]) -> Result<Option<usize>, WireError> {
        let mut reader = ByteReader(header);
        if reader.bytes(MARKER.len()) != Some(&MARKER) {
            return Ok(None);
        }
        let length = reader.u32().unwrap_or_default();
        let fits = length as usize <= REPORT_BYTES_MAX;
        if fits { Ok(Some(length as usize)) } else { Err(WireError::ReportTooLong(length)) }
    }

    /// Decodes the bytes behind the header.
    ///
    /// # Errors
    /// [`WireError::InvalidReport`].
    pub(crate) fn decode_body(body: &[u8]) -> Result<Self, WireError> {
        Self::read(&mut ByteReader(body)).ok_or(WireError::InvalidReport)
    }

    fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        let mut report = Self { id: reader.bytes(16)?.try_into().ok()?, ..Self::default() };
        let mut number = || Some(reader.u64()?.min(NUMBER_MAX));
        report.files = number()?;
        report.unreadable_files = number()?;
        report.lag_bytes = number()?;
        report.lag_ms = number()?;
        report.buffer_bytes = number()?;
        report.gaps = number()?;
        report.dropped_records = number()?;
        report.acked_records = number()?;
        let lengths = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        (lengths.0 <= HOST_BYTES_MAX && lengths.1 <= VERSION_BYTES_MAX).then_some(())?;
        report.host = sanitize_text(reader.bytes(lengths.0)?);
        report.version = sanitize_text(reader.bytes(lengths.1)?);
        Some(report)
    }

    fn numbers(&self) -> [u64; 8] {
        [
            self.files,
            self.unreadable_files,
            self.lag_bytes,
            self.lag_ms,
            self.buffer_bytes,
            self.gaps,
            self.dropped_records,
            self.acked_records,
        ]
    }
}

/// The longest prefix of whole characters within a length.
fn prefix(text: &str, length_max: usize) -> &str {
    let end = (0..=text.len().min(length_max)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientMessage, DecodeProgress};

    fn decoded(bytes: &[u8]) -> Result<AgentReport, WireError> {
        match ClientMessage::decode(bytes, 64)? {
            DecodeProgress::Complete(ClientMessage::Report(report), used) => {
                assert_eq!(used, bytes.len());
                Ok(report)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reports_are_bounded() {
        let report = AgentReport {
            host: "ä".repeat(300),
            version: "1\n2".to_owned(),
            lag_bytes: u64::MAX,
            files: 7,
            ..AgentReport::default()
        };
        let found = decoded(&report.encode()).unwrap();
        assert_eq!((found.host.len(), found.version.as_str()), (254, "1\u{fffd}2"));
        assert_eq!((found.lag_bytes, found.files), (NUMBER_MAX, 7));
        // A later version may add bytes.
        let mut longer = report.encode();
        let length = (longer.len() - FrameHeader::LEN + 9) as u32;
        longer[4..8].copy_from_slice(&length.to_le_bytes());
        longer.extend_from_slice(&[7; 9]);
        assert_eq!(decoded(&longer).unwrap(), found);
    }

    #[test]
    fn malformed_reports_are_refused() {
        let bytes = AgentReport { host: "a".to_owned(), ..AgentReport::default() }.encode();
        for end in 0..bytes.len() {
            let step = ClientMessage::decode(&bytes[..end], 64).unwrap();
            assert!(matches!(step, DecodeProgress::Incomplete(1..)), "{end}: {step:?}");
        }
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            ClientMessage::decode(&bytes, 64).map(|_| ())
        };
        assert_eq!(with(6, 1), Err(WireError::ReportTooLong(65_621)));
        assert_eq!(with(136, 200), Err(WireError::InvalidReport));
        assert_eq!(with(137, 2), Err(WireError::InvalidReport));
        assert_eq!(with(4, 10), Err(WireError::InvalidReport));
    }
}
