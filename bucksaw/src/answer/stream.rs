//! The stream in which a node answers the command line: messages of records, statistics, errors and notices.
//!
//! ```text
//!   offset  size  field   meaning (little-endian)
//!        0     1  kind    1 raw bytes, 2 NDJSON, 3 statistics (the last message), 4 error (the last), 5 notice
//!        1     4  length  of the content
//!        5     …  bytes   kinds 3 and 5 are JSON, kind 4 is text
//! ```
//! Invariant: a complete answer ends with a message of kind 3.

use anyhow::bail;
use bytes::{Buf, Bytes};

/// The media type of the stream.
pub(crate) const MEDIA_TYPE: &str = "application/x-bucksaw-stream";

/// Limit of a message that is held in memory, in bytes. Raw bytes are passed on as they arrive and may be longer.
const HELD_BYTES_MAX: u32 = 64 << 20;

const HEADER_BYTES: usize = 5;

const RAW: u8 = 1;

/// A message of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Part of the matching records as received, each followed by a line end.
    Raw(Bytes),
    /// Matching records as JSON, one object per line.
    Json(Bytes),
    /// The statistics of the complete answer; the last message.
    Stats(Bytes),
    /// Why the node stopped; the last message.
    Error(Bytes),
    /// A notice to the user, as JSON.
    Notice(Bytes),
}

/// Reads the messages of a stream that arrives in any pieces.
#[derive(Debug, Default)]
pub(crate) struct AnswerStreamReader {
    unread: Bytes,
    header: Vec<u8>,
    /// The kind of the current message and the number of its bytes to come; `None` between messages.
    open: Option<(u8, u32)>,
    partial_message: Vec<u8>,
}

impl AnswerStreamReader {
    /// Takes the next bytes, after [`Self::next`] has returned `None`.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        debug_assert!(self.unread.is_empty(), "all messages are taken before the next push");
        self.unread = bytes;
    }

    /// The next message, if it has arrived. Raw bytes of one message may come in several parts.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            let Some((kind, left)) = self.open else {
                let missing = HEADER_BYTES - self.header.len();
                self.header.extend_from_slice(&self.unread.split_to(missing.min(self.unread.len())));
                let [kind, length @ ..] = self.header.as_slice() else { return Ok(None) };
                let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
                self.open = Some(check_header(*kind, u32::from_le_bytes(length))?);
                self.header.clear();
                continue;
            };
            let here = self.unread.len().min(usize::try_from(left)?);
            let left = left - u32::try_from(here)?;
            if kind == RAW {
                let piece = self.unread.split_to(here);
                self.open = (left > 0).then_some((kind, left));
                match (piece.is_empty(), left) {
                    (false, _) => return Ok(Some(Message::Raw(piece))),
                    (true, 0) => continue,
                    (true, _) => return Ok(None),
                }
            }
            self.partial_message.extend_from_slice(self.unread.chunk().get(..here).unwrap_or_default());
            self.unread.advance(here);
            if left > 0 {
                self.open = Some((kind, left));
                return Ok(None);
            }
            self.open = None;
            let bytes = Bytes::from(std::mem::take(&mut self.partial_message));
            return Ok(Some(match kind {
                2 => Message::Json(bytes),
                3 => Message::Stats(bytes),
                4 => Message::Error(bytes),
                _ => Message::Notice(bytes),
            }));
        }
    }
}

fn check_header(kind: u8, length: u32) -> anyhow::Result<(u8, u32)> {
    if !(RAW..=5).contains(&kind) {
        bail!("the node sent a message of the unknown kind {kind}: does it have another version?");
    }
    if kind != RAW && length > HELD_BYTES_MAX {
        bail!("the node sent a message of {length} bytes, more than {HELD_BYTES_MAX}: does it have another version?");
    }
    Ok((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [&[kind][..], &u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
    }

    /// All messages of a stream that arrives in these pieces; adjacent raw parts are joined.
    fn read(pieces: &[&[u8]]) -> anyhow::Result<Vec<Message>> {
        let (mut messages, mut read) = (AnswerStreamReader::default(), Vec::new());
        for piece in pieces {
            messages.push(Bytes::copy_from_slice(piece));
            while let Some(message) = messages.next()? {
                match (read.last_mut(), message) {
                    (Some(Message::Raw(last)), Message::Raw(more)) => *last = [&last[..], &more].concat().into(),
                    (_, message) => read.push(message),
                }
            }
        }
        Ok(read)
    }

    #[test]
    fn each_kind_of_message_is_read() {
        let stream: Vec<u8> =
            [encoded(1, b"raw\n"), encoded(2, b"{}\n"), encoded(5, b"{}"), encoded(3, b""), encoded(4, b"no")].concat();
        let want = vec![
            Message::Raw("raw\n".into()),
            Message::Json("{}\n".into()),
            Message::Notice("{}".into()),
            Message::Stats("".into()),
            Message::Error("no".into()),
        ];
        assert_eq!(read(&[&stream]).unwrap(), want);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes).unwrap(), want);
    }

    #[test]
    fn raw_bytes_are_passed_on_before_their_message_ends() {
        assert_eq!(read(&[b"\x01\xff\xff\xff\xffabc"]).unwrap(), [Message::Raw("abc".into())]);
    }

    #[test]
    fn unknown_kinds_and_long_messages_are_refused() {
        assert!(read(&[b"<html>"]).is_err());
        assert!(read(&[b"\x02\xff\xff\xff\xff"]).is_err());
        assert_eq!(read(&[b"\x02\x04\0\0\0abc"]).unwrap(), []);
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_the_pieces(
            messages in prop::collection::vec((1u8..=5, prop::collection::vec(any::<u8>(), 0..20)), 0..8),
            cuts in prop::collection::vec(0usize..200, 0..10),
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|(kind, bytes)| encoded(*kind, bytes)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces).unwrap(), read(&[&stream]).unwrap());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&[&bytes]);
        }
    }
}
