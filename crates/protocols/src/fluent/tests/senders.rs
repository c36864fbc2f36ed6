//! What real senders write, recorded from them or written as their sources do.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use rmpv::Value;

use super::{connection, decode, hex, map, pack};

/// `fluent-logger` 0.11.1 for Python, with and without times in nanoseconds.
const PYTHON: &str = "\
     93ab73686f702e6f7264657273d7006553f100075bcccc88a76d657373616765a470616964a56c6576656ca4696e666fa56f7264657207\
     a5746f74616ccb3ff8000000000000a26f6bc3a46e6f6e65c0a47461677392a16101a47573657282a269642aa46e616d65a2c3a993a473\
     686f70ce6553f10181a16101";

/// `fluent-logger-golang` 1.10.2 with the records of Docker's log driver: without and with times in nanoseconds, and with
/// acknowledgements.
const GO: &str = "\
     94ab646f636b65722e61623132d7006553f100075bcd1584a36c6f67a9474554202f20323030ac636f6e7461696e65725f6964a4616231\
     32ae636f6e7461696e65725f6e616d65a42f776562a6736f75726365a67374646f75748094ab646f636b65722e61623132d26553f10084\
     ae636f6e7461696e65725f6e616d65a42f776562a6736f75726365a67374646f7574a36c6f67a9474554202f20323030ac636f6e746169\
     6e65725f6964a4616231328094ab646f636b65722e61623132d7006553f100075bcd1584ac636f6e7461696e65725f6964a461623132ae\
     636f6e7461696e65725f6e616d65a42f776562a6736f75726365a67374646f7574a36c6f67a9474554202f2032303081a56368756e6bb8\
     415046545a5141414141414a7930677273646a4358673d3d";

/// `@fluent-org/logger` for JavaScript in its four modes. The last one is compressed and wants an acknowledgement.
const JAVASCRIPT: &str = "\
     94ab73686f702e6f7264657273d7006553f100075bcd1582a76d657373616765a470616964a56f72646572078093ab73686f702e6f7264\
     6572739292d7006553f100075bcd1582a76d657373616765a470616964a56f726465720792d7006553f1010000000583a76d6573736167\
     65a473656e74a56f7264657208a46465657081a1619201c081a473697a650293ab73686f702e6f7264657273c44b92d7006553f100075b\
     cd1582a76d657373616765a470616964a56f726465720792d7006553f1010000000583a76d657373616765a473656e74a56f7264657208\
     a46465657081a1619201c081a473697a650293ab73686f702e6f7264657273c4521f8b08000000000000039b749d2135f823037bf459d1\
     a6e5b9a9c5c589e9a94b0a12335396e617a5a416b14f02cb33323030b036c3e58b53f34a20f21c4b5252530b1a17264e623c00000b46a7\
     214b00000083a473697a6502a56368756e6bb8775139322f41716168347a544d56503943326f5368513d3daa636f6d70726573736564a4\
     677a6970";

/// `fluent-logger` for JavaScript: a time in milliseconds, one in nanoseconds with an acknowledgement, and two events in a
/// compressed message.
const NODE: &str = "\
     93ab73686f702e6f7264657273cb4278bcfe5687b00081a76d657373616765a16194ab73686f702e6f7264657273d7006553f100075bcd\
     1582a76d657373616765a470616964a56f726465720781a56368756e6bb871414f6e3771414446724162724a71344330762b62773d3d93\
     ab73686f702e6f7264657273c42c1f8b08000000000000039b742e35f82343e3f2dcd4e2e2c4f4d485899340028c08812400d417049622\
     00000084a56368756e6bb850397430664748504e68716a634b5a6b6679487a4f773d3da473697a652caa636f6d70726573736564a4677a\
     6970b26576656e74456e7472794461746153697a6522";

const GZIP_LEVEL: Compression = Compression::new(6);

#[test]
fn python_is_understood() {
    let (events, acks) = connection(&hex(PYTHON));
    let want = [
        "tag=shop.orders|1700000000123.456716|paid|level=info;order=7;total=1.5;ok=true;tags=[\"a\",1];user.id=42;user.name=é",
        "tag=shop|1700000001000.000000|{\"a\":1}|",
    ];
    assert_eq!(events, want);
    assert_eq!(acks, [b""; 0]);
}

#[test]
fn docker_is_understood() {
    let (events, acks) = connection(&hex(GO));
    let precise = "container.name=web,tag=docker.ab12|1700000000123.456789|GET / 200|container_id=ab12;source=stdout";
    let seconds = "container.name=web,tag=docker.ab12|1700000000000.000000|GET / 200|source=stdout;container_id=ab12";
    assert_eq!(events, [precise, seconds, precise]);
    assert_eq!(acks, [b"\x81\xa3ack\xb8APFTZQAAAAAJy0grsdjCXg==".to_vec()]);
}

#[test]
fn all_modes_of_javascript_are_understood() {
    let (events, acks) = connection(&hex(JAVASCRIPT));
    let paid = "tag=shop.orders|1700000000123.456789|paid|order=7";
    let sent = "tag=shop.orders|1700000001000.000005|sent|order=8;deep.a=[1,null]";
    assert_eq!(events, [paid, paid, sent, paid, sent, paid, sent]);
    assert_eq!(acks, [b"\x81\xa3ack\xb8wQ92/Aqah4zTMVP9C2oShQ==".to_vec()]);
}

#[test]
fn the_older_library_of_javascript_is_understood() {
    let (events, acks) = connection(&hex(NODE));
    let want = [
        "tag=shop.orders|1700000000123.000000|a|",
        "tag=shop.orders|1700000000123.456789|paid|order=7",
        "tag=shop.orders|1700000000000.000000|a|",
        "tag=shop.orders|1700000001000.000000|b|",
    ];
    assert_eq!(events, want);
    assert_eq!(acks.len(), 2);
}

/// An `EventTime` of Fluentd.
fn event_time(seconds: u32, nanos: u32) -> Value {
    Value::Ext(0, [seconds.to_be_bytes(), nanos.to_be_bytes()].concat())
}

fn entry(seconds: u32, record: Value) -> Value {
    Value::Array(vec![event_time(seconds, 7), record])
}

/// The record of Fluent Bit's filter for Kubernetes.
fn kubernetes() -> Value {
    map(&[
        ("log", Value::from("paid\n")),
        ("stream", Value::from("stdout")),
        (
            "kubernetes",
            map(&[
                ("pod_name", Value::from("shop-1")),
                ("container_name", Value::from("shop")),
                ("labels", map(&[("app.kubernetes.io/name", Value::from("shop"))])),
                ("annotations", map(&[])),
            ]),
        ),
    ])
}

const KUBERNETES: &str = "tag=kube|1700000000000.000007|paid|stream=stdout;kubernetes.pod_name=shop-1;\
    kubernetes.container_name=shop;kubernetes.labels.app.kubernetes.io/name=shop;kubernetes.annotations={}";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), GZIP_LEVEL);
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn all_modes_of_fluent_bit_and_fluentd_are_understood() {
    let entry = pack(&entry(1_700_000_000, kubernetes()));
    let two = entry.repeat(2);
    let zstd = |text: &[u8]| zstd::stream::encode_all(text, 3).unwrap();
    let check = |entries: Value, compressed: Option<&str>| {
        let mut options =
            vec![("size", Value::from(2)), ("chunk", Value::from("c1")), ("fluent_signal", Value::from(0))];
        options.extend(compressed.map(|name| ("compressed", Value::from(name))));
        let message = Value::Array(vec![Value::from("kube"), entries, map(&options)]);
        let (events, message) = decode(&pack(&message)).unwrap();
        assert_eq!(events, [KUBERNETES; 2], "{compressed:?}");
        assert_eq!((message.decoded.accepted, message.decoded.rejected, message.size), (2, 0, Some(2)));
        assert_eq!(message.ack.unwrap(), b"\x81\xa3ack\xa2c1");
    };
    check(Value::Array(vec![self::entry(1_700_000_000, kubernetes()); 2]), None);
    check(Value::Binary(two.clone()), None);
    check(Value::Binary(two.clone()), Some("text"));
    check(Value::Binary(gzip(&two)), Some("gzip"));
    // Fluentd appends to a chunk: a member or frame for each part.
    check(Value::Binary([gzip(&entry), gzip(&entry)].concat()), Some("gzip"));
    check(Value::Binary(zstd(&two)), Some("zstd"));
    check(Value::Binary([zstd(&entry), zstd(&entry)].concat()), Some("zstd"));
    // Older senders have strings only.
    let mut text = b"\x92\xa4kube\xda".to_vec();
    text.extend_from_slice(&u16::try_from(two.len()).unwrap().to_be_bytes());
    text.extend_from_slice(&two);
    assert_eq!(decode(&text).unwrap().0, [KUBERNETES; 2]);
}

#[test]
fn metadata_of_fluent_bit_are_attributes() {
    let metadata = map(&[("otlp", map(&[("severity_text", Value::from("INFO"))]))]);
    let record = map(&[("log", Value::from("x")), ("a", Value::from(1))]);
    let time = Value::Array(vec![event_time(1_700_000_000, 7), metadata.clone()]);
    let want = "tag=t|1700000000000.000007|x|otlp.severity_text=INFO;a=1";
    let forward = Value::Array(vec![Value::from("t"), Value::Array(vec![Value::Array(vec![time, record.clone()])])]);
    assert_eq!(decode(&pack(&forward)).unwrap().0, [want]);
    // A single event has them in the options.
    let options = map(&[("metadata", metadata)]);
    let message = Value::Array(vec![Value::from("t"), event_time(1_700_000_000, 7), record, options]);
    assert_eq!(decode(&pack(&message)).unwrap().0, [want]);
}

#[test]
fn a_group_of_fluent_bit_gives_its_attributes_to_its_records() {
    let resource = map(&[("attributes", map(&[("service.name", Value::from("shop"))]))]);
    let mark = |seconds: i32, metadata: Value, body: Value| {
        Value::Array(vec![Value::Array(vec![event_time(seconds as u32, 0), metadata]), body])
    };
    let start = mark(-1, map(&[("schema", Value::from("otlp"))]), map(&[("resource", resource)]));
    let end = mark(-2, map(&[]), map(&[]));
    let record = |line: &str| entry(1_700_000_000, map(&[("log", Value::from(line)), ("n", Value::from(1))]));
    let long = mark(-1, map(&[("schema", Value::from("x".repeat(16 << 10)))]), map(&[]));
    let entries = [record("a"), start, record("b"), record("c"), end, record("d"), long, record("e")];
    let message = Value::Array(vec![Value::from("t"), Value::Array(entries.to_vec())]);
    let (events, message) = decode(&pack(&message)).unwrap();
    let event = |line: &str, group: &str| format!("tag=t|1700000000000.000007|{line}|{group}n=1");
    let group = "schema=otlp;resource.attributes.service.name=shop;";
    assert_eq!(events, [event("a", ""), event("b", group), event("c", group), event("d", ""), event("e", "")]);
    assert_eq!(message.decoded.rejected, 1);
    assert_eq!(message.decoded.first_error.unwrap(), "the attributes of a group have more than 16384 bytes");
}

#[test]
fn metrics_and_traces_of_fluent_bit_are_rejected_and_acknowledged() {
    let options = map(&[("fluent_signal", Value::from(1)), ("chunk", Value::from("c"))]);
    let message = Value::Array(vec![Value::from("t"), Value::Binary(b"\xc1\xc1".to_vec()), options]);
    let (events, message) = decode(&pack(&message)).unwrap();
    assert!(events.is_empty() && message.ack.is_some());
    assert_eq!(message.decoded.first_error.unwrap(), "the message has no logs: its `fluent_signal` is 1");
}
