//! Streams of one node as messages: `[{"labels":{…},"queued":[records,bytes],"stored":[records,bytes]}, …]`.

use std::collections::BTreeMap;

use bucksaw_record::Labels;
use bucksaw_rpc::{MalformedMessage, stream_message};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::MessageKind;
use crate::streams::{Amount, StreamTally};

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
