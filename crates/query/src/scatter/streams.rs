//! Streams of all nodes with their numbers of records.
//!
//! Each node sends the records of its queue and of its store apart, as `[{"labels":{…},"queued":[records,bytes],
//! "stored":[records,bytes]}, …]`. The stored ones are on as many stores as the replication factor, so their sum is divided by
//! it: an estimate, as some records may have fewer replicas.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bucksaw_record::Labels;
use bucksaw_rpc::{MalformedMessage, stream_message};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use super::message::MessageKind;
use super::reply::{NodeReply, ReplyMessage, invalid_reply};
use super::request::ScatterRequest;
use super::requester::Scatter;
use super::server::STREAMS;
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};
use crate::streams::{Amount, StreamTallies, StreamTally, Streams};

/// Bytes at which a message ends.
const MESSAGE_BYTES: usize = 128 << 10;

/// A stream as sent between nodes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SentStream {
    labels: BTreeMap<String, String>,
    #[serde(default)]
    queued: (u64, u64),
    #[serde(default)]
    stored: (u64, u64),
}

/// Encodes streams as messages.
pub(crate) fn encode(streams: impl Iterator<Item = (Labels, StreamTally)>) -> impl Iterator<Item = Bytes> {
    let mut streams = streams.peekable();
    std::iter::from_fn(move || {
        streams.peek()?;
        let mut content = Vec::new();
        while content.len() < MESSAGE_BYTES
            && let Some((labels, tally)) = streams.next()
        {
            content.push(if content.is_empty() { b'[' } else { b',' });
            let labels = labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let pair = |amount: Amount| (amount.records, amount.bytes);
            let sent = SentStream { labels, queued: pair(tally.queued), stored: pair(tally.stored) };
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut content, &sent);
        }
        content.push(b']');
        Some(stream_message(MessageKind::Streams, &content))
    })
}

/// Decodes a message.
pub(crate) fn decode(content: &[u8]) -> Result<Vec<(Labels, StreamTally)>, MalformedMessage> {
    let sent: Vec<SentStream> =
        serde_json::from_slice(content).map_err(|_| MalformedMessage("streams are no valid JSON"))?;
    let amount = |(records, bytes)| Amount { records, bytes };
    let stream = |sent: SentStream| {
        let labels = Labels::new(sent.labels).map_err(|_| MalformedMessage("invalid labels of a stream"))?;
        Ok((labels, StreamTally { queued: amount(sent.queued), stored: amount(sent.stored) }))
    };
    sent.into_iter().map(stream).collect()
}

impl Scatter {
    /// As [`Answers::streams`](crate::Answers::streams), over the records of all nodes.
    pub(crate) async fn streams(self: &Arc<Self>, request: &Request) -> Result<(Streams, QueryStats), RequestError> {
        let (replies, mut coverage) = self.send_request(STREAMS, &ScatterRequest::new(request), request)?;
        let mut replies: Vec<Option<NodeReply>> = replies;
        let mut total = StreamTallies::new(self.engine());
        while replies.iter().any(Option::is_some) {
            let (number, message) = poll_fn(|context| {
                for (number, reply) in replies.iter_mut().enumerate() {
                    if let Some(reply) = reply
                        && let Poll::Ready(message) = reply.poll_next(context)
                    {
                        return Poll::Ready((number, message));
                    }
                }
                Poll::Pending
            })
            .await;
            let is_end = matches!(message, Ok(ReplyMessage::End(_)));
            let accepted = message.and_then(|message| accept_message(number, message, &mut total, &mut coverage));
            if is_end || accepted.is_err() {
                replies.get_mut(number).map(Option::take);
            }
            if let Err(reason) = accepted {
                coverage.mark_missing(number, reason);
            }
        }
        // A record may be in a queue and in a store, or on more or fewer stores than it should.
        total.is_approximate = true;
        let streams = total.finish(self.peers.replication_factor() as u64);
        let stats = QueryStats { matched: 0, ..coverage.stats() };
        self.count_missing(&stats.nodes);
        Ok((streams, stats))
    }
}

fn accept_message(
    number: usize,
    message: ReplyMessage,
    total: &mut StreamTallies,
    coverage: &mut Coverage,
) -> Result<(), MissingReason> {
    match message {
        ReplyMessage::Head(status) | ReplyMessage::Progress(status) | ReplyMessage::End(status) => {
            total.is_cut |= status.streams_cut;
            coverage.accept_status(number, status)
        }
        ReplyMessage::Streams(content) => {
            for (labels, tally) in decode(&content).map_err(invalid_reply)? {
                if let Some(sum) = total.tally(&labels) {
                    sum.queued.add(tally.queued);
                    sum.stored.add(tally.stored);
                }
            }
            Ok(())
        }
        ReplyMessage::Batch(_) | ReplyMessage::Cells(_) => {
            Err(invalid_reply(MalformedMessage("unexpected message: records or ids")))
        }
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_rpc::MessageReader;

    use super::*;

    #[test]
    fn streams_round_trip_in_messages_of_bounded_length() {
        let amount = |records| Amount { records, bytes: records * 100 };
        let streams: Vec<(Labels, StreamTally)> = (0..5_000_u64)
            .map(|number| {
                let labels = Labels::parse(&format!("app=\"a,{number}\",host=h")).unwrap();
                (labels, StreamTally { queued: amount(number % 3), stored: amount(number) })
            })
            .collect();
        let mut messages = MessageReader::default();
        let sent: Vec<Bytes> = encode(streams.clone().into_iter()).collect();
        assert!(sent.len() > 2 && sent.iter().all(|message| message.len() < MESSAGE_BYTES + 1_000));
        sent.iter().for_each(|message| messages.push(message));
        let mut decoded = Vec::new();
        while let Some((_, content)) = messages.next_message::<MessageKind>().unwrap() {
            decoded.extend(decode(&content).unwrap());
        }
        assert_eq!(decoded, streams);
        assert_eq!(encode(std::iter::empty()).count(), 0);
    }

    #[test]
    fn fields_of_later_versions_are_ignored_and_invalid_streams_rejected() {
        let known = decode(br#"[{"labels":{"a":"b"},"stored":[1,2],"new":{}}]"#).unwrap();
        assert_eq!(known[0].1.stored, Amount { records: 1, bytes: 2 });
        for bad in ["", "{}", "[{}]", r#"[{"labels":{"1":"b"}}]"#, r#"[{"labels":{"a":"b"},"stored":[-1,2]}]"#] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
