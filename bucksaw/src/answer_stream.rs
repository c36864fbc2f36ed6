//! The stream in which a node answers the command line: messages of a kind, so that data, statistics and errors can
//! follow each other without a look at the data.
//!
//! ```text
//!   offset  size  field   meaning (little-endian)
//!        0     1  kind    1 raw bytes, 2 NDJSON, 3 statistics (the last message), 4 error (the last), 5 notice
//!        1     4  length  of what follows
//!        5     …  bytes   kinds 3 and 5 are JSON, kind 4 is text
//! ```
//! Invariant: an answer is whole only with a message of kind 3 at its end. A node that dies leaves none.

use anyhow::bail;
use bytes::{Buf, Bytes};

/// The media type of such a stream.
pub(crate) const MEDIA_TYPE: &str = "application/x-bucksaw-stream";

/// The longest message that is held in memory, in bytes. Raw bytes are passed on as they come and may be longer.
const HELD_BYTES_MAX: u32 = 64 << 20;

const HEADER_BYTES: usize = 5;

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A piece of the matching records as they were received, each followed by a line end.
    Raw(Bytes),
    /// Matching records as JSON, an object a line.
    Json(Bytes),
    /// The statistics of the whole answer; the last message.
    Stats(Bytes),
    /// Why the node could not go on; the last message.
    Error(Bytes),
    /// Something that the user should know, as JSON.
    Notice(Bytes),
}

/// Takes a stream apart, however it was cut on its way.
#[derive(Debug, Default)]
pub(crate) struct AnswerStreamReader {
    /// What has arrived and was not looked at.
    unread: Bytes,
    header: Vec<u8>,
    /// The kind of the message at hand and how many bytes of it are to come; `None` between messages.
    open: Option<(AnswerMessageKind, u32)>,
    partial_message: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerMessageKind {
    Raw,
    Json,
    Stats,
    Error,
    Notice,
}

impl AnswerStreamReader {
    /// Takes the next bytes; [`Messages::next`] is to be asked until it has no more before this is called again.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        debug_assert!(self.unread.is_empty(), "nothing is pushed before all was taken");
        self.unread = bytes;
    }

    /// The next message, if it has arrived. A long one of raw bytes comes in several.
    ///
    /// # Errors
    /// When this is not such a stream, or a message is too long to be held.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            let Some((kind, left)) = self.open else {
                let missing = HEADER_BYTES - self.header.len();
                self.header.extend_from_slice(&self.unread.split_to(missing.min(self.unread.len())));
                let [kind, length @ ..] = self.header.as_slice() else { return Ok(None) };
                let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
                self.open = Some(parse_header(*kind, u32::from_le_bytes(length))?);
                self.header.clear();
                continue;
            };
            let here = self.unread.len().min(usize::try_from(left)?);
            let left = left - u32::try_from(here)?;
            if kind == AnswerMessageKind::Raw {
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
                AnswerMessageKind::Raw => Message::Raw(bytes),
                AnswerMessageKind::Json => Message::Json(bytes),
                AnswerMessageKind::Stats => Message::Stats(bytes),
                AnswerMessageKind::Error => Message::Error(bytes),
                AnswerMessageKind::Notice => Message::Notice(bytes),
            }));
        }
    }
}

fn parse_header(kind: u8, length: u32) -> anyhow::Result<(AnswerMessageKind, u32)> {
    let kind = match kind {
        1 => AnswerMessageKind::Raw,
        2 => AnswerMessageKind::Json,
        3 => AnswerMessageKind::Stats,
        4 => AnswerMessageKind::Error,
        5 => AnswerMessageKind::Notice,
        kind => bail!("the node sent a message of the unknown kind {kind}: is it of another version?"),
    };
    if kind != AnswerMessageKind::Raw && length > HELD_BYTES_MAX {
        bail!("the node sent a message of {length} bytes, {HELD_BYTES_MAX} are allowed: is it of another version?");
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

    /// All messages of a stream that arrives in these pieces, with neighbouring raw pieces put together.
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
    fn messages_are_told_apart() {
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
    fn raw_bytes_do_not_wait_for_the_end_of_their_message() {
        assert_eq!(read(&[b"\x01\xff\xff\xff\xffabc"]).unwrap(), [Message::Raw("abc".into())]);
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        assert!(read(&[b"<html>"]).is_err());
        assert!(read(&[b"\x02\xff\xff\xff\xff"]).is_err());
        assert_eq!(read(&[b"\x02\x04\0\0\0abc"]).unwrap(), []);
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
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
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&[&bytes]);
        }
    }
}
