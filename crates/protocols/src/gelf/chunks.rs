//! Puts messages together that arrive as several datagrams.
//!
//! ```text
//!   offset  size  field      meaning
//!        0     2  magic      1e 0f
//!        2     8  id         chosen by the sender, the same in all chunks of a message
//!       10     1  number     0..count
//!       11     1  count      1..=128
//!       12        part       of the message
//! ```
//! All chunks must arrive within five seconds, in any order. Memory is bounded: beyond the limit, the oldest unfinished
//! message is dropped. Invariant: `held` is the sum of the charges of all unfinished messages.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use bucksaw_record::Millis;

/// The first bytes of a chunk.
const MAGIC: &[u8] = b"\x1e\x0f";

/// The maximum number of chunks of a message, which the format sets.
const COUNT_MAX: u8 = 128;

/// Milliseconds within which all chunks must arrive, which the format sets.
const TIMEOUT_MS: u64 = 5_000;

/// Bytes that an unfinished message is charged with beside its chunks: two keys, and the nodes of the map.
const MESSAGE_BYTES: usize = 256;

/// Bytes that each chunk of an unfinished message is charged with beside its text, arrived or not.
const CHUNK_BYTES: usize = 32;

type MessageKey = (IpAddr, [u8; 8]);

/// Why a chunk is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The datagram ends within its header.
    #[error("the GELF chunk has {0} bytes; its header has 12")]
    Short(usize),
    /// The number is not below the count, or the count not from 1 to 128.
    #[error("GELF chunk {number} of {count}: a message has 1 to 128 chunks, numbered from 0")]
    Number {
        /// The number stated.
        number: u8,
        /// The count stated.
        count: u8,
    },
    /// Two chunks of one message state different counts.
    #[error("the chunks of a GELF message state {0} and {1} chunks")]
    Counts(u8, u8),
    /// One chunk exceeds the memory of all.
    #[error("the GELF chunk does not fit into the {0} bytes for unfinished messages")]
    TooLong(usize),
}

/// What a datagram completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reassembled<'a> {
    /// The datagram is a message.
    Whole(&'a [u8]),
    /// The datagram is the last missing chunk of this message.
    Joined(Vec<u8>),
    /// Chunks are missing.
    Incomplete,
}

/// The unfinished messages of one listener.
#[derive(Debug)]
pub struct GelfChunks {
    messages: BTreeMap<MessageKey, Unfinished>,
    /// The messages in order of their first chunks. May name messages that are finished.
    order: VecDeque<(MessageKey, Millis)>,
    held: usize,
    bytes_max: usize,
    dropped: u64,
}

#[derive(Debug)]
struct Unfinished {
    since: Millis,
    parts: Vec<Option<Box<[u8]>>>,
    missing: usize,
    /// Bytes of memory, overhead included.
    charged: usize,
}

impl GelfChunks {
    /// Holds at most `bytes_max` bytes of unfinished messages, overhead included.
    pub fn new(bytes_max: usize) -> Self {
        Self { messages: BTreeMap::new(), order: VecDeque::new(), held: 0, bytes_max, dropped: 0 }
    }

    /// Bytes of unfinished messages, overhead included.
    pub fn held_bytes(&self) -> usize {
        self.held
    }

    /// The number of messages dropped so far, because chunks were missing after five seconds or memory was short.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes a datagram. `now` must not decrease by more than clocks do.
    ///
    /// # Errors
    /// [`ChunkError`] if the datagram is a chunk that cannot be used. No unfinished message is affected.
    pub fn push<'a>(&mut self, sender: IpAddr, datagram: &'a [u8], now: Millis) -> Result<Reassembled<'a>, ChunkError> {
        let Some(chunk) = datagram.strip_prefix(MAGIC) else { return Ok(Reassembled::Whole(datagram)) };
        self.expire(now);
        let short = ChunkError::Short(datagram.len());
        let (id, chunk) = chunk.split_first_chunk::<8>().ok_or_else(|| short.clone())?;
        let ([number, count], part) = chunk.split_first_chunk::<2>().ok_or(short)?;
        let (number, count) = (*number, *count);
        if number >= count || count > COUNT_MAX {
            return Err(ChunkError::Number { number, count });
        }
        if count == 1 {
            return Ok(Reassembled::Whole(part));
        }
        self.join((sender, *id), number, count, part, now)
    }

    /// Drops the messages whose chunks did not all arrive in time. [`Self::push`] does so too.
    pub fn expire(&mut self, now: Millis) {
        while let Some((_, since)) = self.order.front()
            && now.0 > since.0.saturating_add(TIMEOUT_MS)
        {
            self.drop_oldest();
        }
    }

    fn join(
        &mut self,
        key: MessageKey,
        number: u8,
        count: u8,
        part: &[u8],
        now: Millis,
    ) -> Result<Reassembled<'static>, ChunkError> {
        let overhead = MESSAGE_BYTES + usize::from(count) * CHUNK_BYTES;
        if overhead + part.len() > self.bytes_max {
            return Err(ChunkError::TooLong(self.bytes_max));
        }
        if let Some(message) = self.messages.get(&key) {
            let stated = u8::try_from(message.parts.len()).unwrap_or(u8::MAX);
            if stated != count {
                return Err(ChunkError::Counts(stated, count));
            }
            if message.parts.get(usize::from(number)).is_none_or(Option::is_some) {
                return Ok(Reassembled::Incomplete);
            }
        }
        // The message itself may be the oldest one. Then it begins anew.
        while self.held + part.len() + if self.messages.contains_key(&key) { 0 } else { overhead } > self.bytes_max {
            self.drop_oldest();
        }
        let message = self.messages.entry(key).or_insert_with(|| {
            self.order.push_back((key, now));
            self.held += overhead;
            let count = usize::from(count);
            Unfinished { since: now, parts: vec![None; count], missing: count, charged: overhead }
        });
        if let Some(place) = message.parts.get_mut(usize::from(number)) {
            *place = Some(part.into());
        }
        message.missing -= 1;
        message.charged += part.len();
        self.held += part.len();
        if message.missing > 0 {
            return Ok(Reassembled::Incomplete);
        }
        Ok(self.remove(&key).map_or(Reassembled::Incomplete, |message| Reassembled::Joined(message.joined())))
    }

    /// Removes an unfinished message and its charge. Drops entries of finished messages from the order when they are many.
    fn remove(&mut self, key: &MessageKey) -> Option<Unfinished> {
        let message = self.messages.remove(key)?;
        self.held -= message.charged;
        // Other entries of finished messages leave the order with their turn.
        if self.order.len() > 2 * self.messages.len() + 16 {
            let messages = &self.messages;
            self.order.retain(|(key, since)| messages.get(key).is_some_and(|message| message.since == *since));
        }
        Some(message)
    }

    fn drop_oldest(&mut self) {
        let Some((key, since)) = self.order.pop_front() else { return };
        // A later message may have the same key.
        if self.messages.get(&key).is_some_and(|message| message.since == since) {
            self.dropped += 1;
            self.remove(&key);
        }
    }
}

impl Unfinished {
    fn joined(self) -> Vec<u8> {
        self.parts.into_iter().flatten().collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SENDER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn chunk(id: u8, number: u8, count: u8, part: &[u8]) -> Vec<u8> {
        [MAGIC, &[id; 8], &[number, count], part].concat()
    }

    fn joined(text: &[u8]) -> Result<Reassembled<'static>, ChunkError> {
        Ok(Reassembled::Joined(text.to_vec()))
    }

    #[test]
    fn chunks_are_joined_in_their_order() {
        let mut chunks = GelfChunks::new(10_000);
        let mut push = |id, number, count, part: &[u8], at| {
            let datagram = chunk(id, number, count, part);
            match chunks.push(SENDER, &datagram, Millis(at)).unwrap() {
                Reassembled::Joined(text) => text,
                Reassembled::Whole(text) => text.to_vec(),
                Reassembled::Incomplete => b"...".to_vec(),
            }
        };
        assert_eq!(push(1, 1, 3, b"b", 0), b"...");
        assert_eq!(push(2, 0, 2, b"x", 0), b"...");
        assert_eq!(push(1, 1, 3, b"again", 0), b"...");
        assert_eq!(push(1, 2, 3, b"c", 0), b"...");
        assert_eq!(push(1, 0, 3, b"a", 0), b"abc");
        assert_eq!(push(2, 1, 2, b"y", 5_000), b"xy");
        assert_eq!(push(3, 0, 1, b"one", 0), b"one");
        assert_eq!((chunks.held_bytes(), chunks.dropped()), (0, 0));
        assert_eq!(chunks.push(SENDER, b"{}", Millis(0)), Ok(Reassembled::Whole(b"{}")));
    }

    #[test]
    fn messages_expire() {
        let mut chunks = GelfChunks::new(10_000);
        chunks.push(SENDER, &chunk(1, 0, 2, b"a"), Millis(0)).unwrap();
        assert_eq!(chunks.push(SENDER, &chunk(1, 1, 2, b"b"), Millis(5_001)), Ok(Reassembled::Incomplete));
        assert_eq!(chunks.dropped(), 1);
        assert_eq!(chunks.push(SENDER, &chunk(1, 0, 2, b"a"), Millis(5_002)), joined(b"ab"));
        assert_eq!(chunks.held_bytes(), 0);
    }

    #[test]
    fn the_oldest_message_is_dropped_when_memory_is_short() {
        let mut chunks = GelfChunks::new(2 * (MESSAGE_BYTES + 2 * CHUNK_BYTES) + 10);
        for id in 1..=3 {
            chunks.push(SENDER, &chunk(id, 0, 2, b"abc"), Millis(u64::from(id))).unwrap();
        }
        assert_eq!(chunks.dropped(), 1);
        assert_eq!(chunks.push(SENDER, &chunk(3, 1, 2, b"x"), Millis(4)), joined(b"abcx"));
        assert_eq!(chunks.push(SENDER, &chunk(2, 1, 2, b"x"), Millis(4)), joined(b"abcx"));
        assert_eq!(chunks.push(SENDER, &chunk(1, 1, 2, b"x"), Millis(4)), Ok(Reassembled::Incomplete));
        let error = chunks.push(SENDER, &chunk(9, 0, 2, &[0; 700]), Millis(4)).unwrap_err();
        assert_eq!(error.to_string(), "the GELF chunk does not fit into the 650 bytes for unfinished messages");
    }

    #[test]
    fn senders_do_not_mix() {
        let mut chunks = GelfChunks::new(10_000);
        let other: IpAddr = "::1".parse().unwrap();
        chunks.push(SENDER, &chunk(1, 0, 2, b"a"), Millis(0)).unwrap();
        assert_eq!(chunks.push(other, &chunk(1, 1, 2, b"b"), Millis(0)), Ok(Reassembled::Incomplete));
    }

    #[test]
    fn bad_chunks_are_refused() {
        let mut chunks = GelfChunks::new(100_000);
        let mut check = |datagram: &[u8], want: &str| {
            assert_eq!(chunks.push(SENDER, datagram, Millis(0)).unwrap_err().to_string(), want);
        };
        check(b"\x1e\x0fabc", "the GELF chunk has 5 bytes; its header has 12");
        check(b"\x1e\x0fabcdefgh\x00", "the GELF chunk has 11 bytes; its header has 12");
        check(&chunk(1, 2, 2, b""), "GELF chunk 2 of 2: a message has 1 to 128 chunks, numbered from 0");
        check(&chunk(1, 0, 0, b""), "GELF chunk 0 of 0: a message has 1 to 128 chunks, numbered from 0");
        check(&chunk(1, 0, 129, b""), "GELF chunk 0 of 129: a message has 1 to 128 chunks, numbered from 0");
        chunks.push(SENDER, &chunk(1, 0, 2, b"a"), Millis(0)).unwrap();
        let error = chunks.push(SENDER, &chunk(1, 1, 3, b"a"), Millis(0)).unwrap_err();
        assert_eq!(error, ChunkError::Counts(2, 3));
    }

    proptest! {
        /// Memory stays within the limit, and a message that is joined is one that was sent.
        #[test]
        fn memory_is_bounded(
            datagrams in prop::collection::vec((0_u8..6, 0_u8..5, 1_u8..5, 0_usize..200, 0_u64..3_000), 0..200),
        ) {
            let mut chunks = GelfChunks::new(2_000);
            let mut now = Millis(0);
            for (id, number, count, length, pause) in datagrams {
                now = now.saturating_add(pause);
                let datagram = chunk(id, number, count, &vec![id; length]);
                if let Ok(Reassembled::Joined(text)) = chunks.push(SENDER, &datagram, now) {
                    prop_assert!(text.iter().all(|byte| *byte == id));
                }
                let charged: usize = chunks.messages.values().map(|message| message.charged).sum();
                prop_assert_eq!(chunks.held_bytes(), charged);
                prop_assert!(charged <= 2_000);
                prop_assert!(chunks.order.len() <= 2 * chunks.messages.len() + 17);
                prop_assert!(chunks.messages.values().all(|message| message.since.0 + TIMEOUT_MS >= now.0));
            }
        }
    }
}
