//! Requests in both encodings, as events.

use bucksaw_record::Labels;
use proptest::prelude::*;

use super::{LokiDecoder, LokiError};
use crate::Decoded;
use crate::event_lines::EventLines;

/// The messages of Loki's `push.proto`, encoded by `prost`.
#[derive(Clone, PartialEq, prost::Message)]
struct LokiPush {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<LokiStream>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LokiStream {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<LokiEntry>,
    #[prost(uint64, tag = "3")]
    hash: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LokiEntry {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<LokiTimestamp>,
    #[prost(string, tag = "2")]
    line: String,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<LokiPair>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LokiTimestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LokiPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

fn protobuf(body: &[u8]) -> Result<(Vec<String>, Decoded), LokiError> {
    let mut events = EventLines::default();
    let decoded = LokiDecoder::new(&Labels::parse("tenant=t").unwrap()).protobuf(body, &mut events)?;
    Ok((events.events, decoded))
}

fn json(body: &[u8]) -> Result<(Vec<String>, Decoded), LokiError> {
    let mut events = EventLines::default();
    let decoded = LokiDecoder::new(&Labels::parse("tenant=t").unwrap()).json(body, &mut events)?;
    Ok((events.events, decoded))
}

#[test]
fn json_of_senders_is_read() {
    // The labels follow the entries of the first stream.
    let body = br#"{"streams":[
        {"values":[["1700000000000000001","a\tb"],["1700000000000000002","c\n",{"trace_id":"0242ac12","n":7}]],"stream":{"app":"shop","a b":"c"}},
        {"stream":{},"values":[["-5","early"]]},{"stream":{"x":"y"}}]}"#;
    let (events, decoded) = json(body).unwrap();
    assert_eq!(decoded.accepted, 3);
    assert_eq!(
        events,
        [
            "a_b=c,app=shop,tenant=t|1700000000000.000001|a\tb|a b=c",
            "a_b=c,app=shop,tenant=t|1700000000000.000002|c|a b=c;trace_id=0242ac12;n=7",
            "tenant=t|-|early|",
        ]
    );
}

#[test]
fn bad_requests_are_errors() {
    let check = |body: &str, want: &str| {
        let error = json(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{body}: {error}");
    };
    check("", "EOF");
    check("{}", "missing field `streams`");
    check(r#"{"streams":1}"#, "expected an array");
    check(r#"{"streams":[{"values":[["1"]]}]}"#, "an entry is not");
    check(r#"{"streams":[{"values":[["soon","x"]]}]}"#, "`soon` is not a time in nanoseconds");
    check(r#"{"streams":[{"stream":[],"values":[]}]}"#, "expected a JSON object");
    let stream = LokiStream { labels: "{a=}".to_owned(), entries: vec![], hash: 0 };
    let body = prost::Message::encode_to_vec(&LokiPush { streams: vec![stream] });
    assert!(matches!(protobuf(&body), Err(LokiError::Labels { at: 3, .. })));
    assert!((1..body.len()).all(|end| protobuf(&body[..end]).is_err()));
}

proptest! {
    /// `prost` encodes a request; the events are those of the same request as JSON.
    #[test]
    fn both_encodings_give_the_same_events(
        streams in prop::collection::vec((
            prop::collection::btree_map("[a-z]{1,3}", "[ -&(-~ä]{0,5}", 0..3),
            prop::collection::vec((0_i64..1 << 40, 0..1_000_000_000_i32, "[ -~ä\n]{0,9}", prop::collection::vec(("[a-z]{1,3}", "[ -~]{0,5}"), 0..3)), 0..4),
        ), 0..4),
    ) {
        let mut push = LokiPush { streams: vec![] };
        let mut as_json = vec![];
        for (labels, entries) in streams {
            let quoted: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            let mut values = vec![];
            let mut encoded = vec![];
            for (seconds, nanos, line, pairs) in entries {
                let metadata: serde_json::Map<_, _> = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
                values.push(serde_json::json!([format!("{}{nanos:09}", seconds), line, metadata]));
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = metadata.iter().map(|(name, value)| LokiPair { name: name.clone(), value: text(value) }).collect();
                encoded.push(LokiEntry { timestamp: Some(LokiTimestamp { seconds, nanos }), line, metadata });
            }
            as_json.push(serde_json::json!({"stream": labels, "values": values}));
            push.streams.push(LokiStream { labels: format!("{{{}}}", quoted.join(", ")), entries: encoded, hash: 9 });
        }
        let from_json = json(serde_json::json!({"streams": as_json}).to_string().as_bytes()).unwrap();
        prop_assert_eq!(protobuf(&prost::Message::encode_to_vec(&push)).unwrap(), from_json);
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = protobuf(&bytes);
        let _ = json(&bytes);
    }
}
