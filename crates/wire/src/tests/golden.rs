//! Messages of each version, and additions of the next.

use bucksaw_fixtures::GoldenFiles;
use bucksaw_record::{AttributeNames, Flags, Id, Labels, Millis, Producer, RecordView, RowAttributes};
use bucksaw_segment::RowMeta;
use proptest::prelude::*;

use crate::*;

fn golden() -> GoldenFiles {
    GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), WireVersion::NEWEST)
}

fn hello(version: WireVersion) -> Hello {
    Hello { version, labels: Labels::parse("app=web,host=a1").unwrap() }
}

fn hello_replies() -> [(&'static str, HelloReply); 2] {
    [
        ("welcome", HelloReply::Welcome { version: WireVersion::NEWEST, frame_bytes_max: 1 << 20 }),
        ("refused", HelloReply::Refused { code: RefusalCode::BUSY, text: "too much to do".to_owned() }),
    ]
}

fn server_messages() -> [(&'static str, ServerMessage); 3] {
    let addresses = ["10.0.0.1:7651", "[::1]:7651"].map(str::to_owned);
    [
        ("acked", ServerMessage::Acked(7)),
        ("failed", ServerMessage::Failed { acked: 7, text: "the disk is full".to_owned() }),
        ("redirect", ServerMessage::Redirect(Redirect::new(RedirectReason::CLOSE, addresses).unwrap())),
    ]
}

fn batch() -> Vec<u8> {
    let first = Id::new(Millis(1_763_680_200_000), Producer::new(7), 5);
    let mut flags = Flags::empty();
    flags.push(1, Flags::CUT);
    let mut row_meta = Vec::new();
    let layout_bits = RowMeta { flags, ..RowMeta::default() }.encode(first.time(), &mut row_meta);
    Batch { first_id: first, count: 2, accepted: Millis(9), layout_bits, row_meta: &row_meta, text: b"one\ntwo\n" }
        .encode()
}

fn report() -> AgentReport {
    AgentReport {
        id: *b"0123456789abcdef",
        host: "web-1".to_owned(),
        version: "0.1.0".to_owned(),
        files: 1,
        unreadable_files: 2,
        lag_bytes: 3,
        lag_ms: 4,
        buffer_bytes: 5,
        gaps: 6,
        dropped_records: 7,
        acked_records: 8,
    }
}

/// A batch of one record of two lines with an attribute, and one record of one line.
fn multi_line_batch() -> Vec<u8> {
    let first = Id::new(Millis(1_763_680_200_000), Producer::new(7), 5);
    let mut attributes = RowAttributes::empty();
    attributes.push(0, 1, &AttributeNames::new(["trace_id"]).unwrap());
    let mut row_meta = Vec::new();
    let meta = RowMeta { lines: Some(vec![3, 1]), attributes, ..RowMeta::default() };
    let layout_bits = meta.encode(first.time(), &mut row_meta);
    let text = b"one\ntwo\n4bf9\nthree\n";
    Batch { first_id: first, count: 2, accepted: Millis(9), layout_bits, row_meta: &row_meta, text }.encode()
}

fn complete<T>(step: Result<DecodeProgress<T>, WireError>) -> T {
    match step.unwrap() {
        DecodeProgress::Complete(found, _) => found,
        DecodeProgress::Incomplete(missing) => panic!("{missing} bytes are missing"),
    }
}

#[test]
fn client_bytes_are_stable() {
    golden().check("hello", &hello(WireVersion::NEWEST).encode());
    for (bytes, minor) in golden().read_all("hello").iter().zip(0..) {
        assert_eq!(complete(Hello::decode(bytes)), hello(WireVersion { major: 1, minor }));
    }
    golden().check("flush", &FLUSH);
    golden().check("labels", &encode_labels(&hello(WireVersion::NEWEST).labels));
    for bytes in golden().read_all("labels") {
        let ClientMessage::Labels(found) = complete(ClientMessage::decode(&bytes, 1 << 20)) else {
            panic!("no labels")
        };
        assert_eq!(found, hello(WireVersion::NEWEST).labels);
    }
    golden().check("report", &report().encode());
    for bytes in golden().read_all("report") {
        let ClientMessage::Report(found) = complete(ClientMessage::decode(&bytes, 1 << 20)) else {
            panic!("no report")
        };
        assert_eq!(found, report());
    }
    golden().check("token", &ClientToken("bks_example".to_owned()).encode());
    for bytes in golden().read_all("token") {
        let ClientMessage::Token(ClientToken(found)) = complete(ClientMessage::decode(&bytes, 1 << 20)) else {
            panic!("no token")
        };
        assert_eq!(found, "bks_example");
    }
    golden().check("batch", &batch());
    for bytes in golden().read_all("batch") {
        let ClientMessage::Batch(frame) = complete(ClientMessage::decode(&bytes, 1 << 20)) else { panic!("no batch") };
        let rows = frame.rows().unwrap();
        assert_eq!((frame.text(), rows.count, rows.flags.get(1)), (&b"one\ntwo\n"[..], 2, Flags::CUT));
    }
    golden().check("multi-line-batch", &multi_line_batch());
    for bytes in golden().read_all("multi-line-batch") {
        let ClientMessage::Batch(frame) = complete(ClientMessage::decode(&bytes, 1 << 20)) else { panic!("no batch") };
        let rows = frame.rows().unwrap();
        let record = RecordView::new(b"one\ntwo\n4bf9", rows.attributes.get(0));
        assert_eq!((record.line(), record.attribute("trace_id")), (&b"one\ntwo"[..], Some(&b"4bf9"[..])));
        assert!(rows.attributes.get(1).is_none() && rows.lines == Some(vec![3, 1]));
    }
}

#[test]
fn server_bytes_are_stable() {
    for (kind, message) in hello_replies() {
        golden().check(kind, &message.encode());
        let found = complete(HelloReply::decode(&golden().read_all(kind).pop().unwrap()));
        assert_eq!(found, message);
    }
    for (kind, message) in server_messages() {
        golden().check(kind, &message.encode());
        golden().read_all(kind).iter().for_each(|bytes| assert_eq!(complete(ServerMessage::decode(bytes)), message));
    }
}

proptest! {
    /// A later minor version sends an older side only unknown codes and bytes that are reserved now.
    #[test]
    fn additions_of_the_next_version_are_ignored(minor in 2_u16.., code in 1_u16.., why: u8, reserved: [u8; 4]) {
        let newer = WireVersion { major: 1, minor };
        prop_assert_eq!(complete(Hello::decode(&hello(newer).encode())), hello(newer));
        prop_assert_eq!(WireVersion::negotiate(newer), Some(WireVersion::NEWEST));
        let refused = HelloReply::Refused { code: RefusalCode(code), text: "why".to_owned() };
        let mut bytes = refused.encode();
        // The newest version that the other knows.
        bytes[10..12].copy_from_slice(&minor.to_le_bytes());
        prop_assert_eq!(complete(HelloReply::decode(&bytes)), refused);
        for (_, message) in server_messages() {
            let mut bytes = message.encode();
            bytes[4..8].copy_from_slice(&reserved);
            prop_assert_eq!(complete(ServerMessage::decode(&bytes)), message);
        }
        let redirect = Redirect::new(RedirectReason(why), ["a:1".to_owned()]).unwrap();
        prop_assert_eq!(complete(ServerMessage::decode(&ServerMessage::Redirect(redirect.clone()).encode())), ServerMessage::Redirect(redirect));
    }
}
