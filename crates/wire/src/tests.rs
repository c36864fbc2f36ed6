use bucksaw_record::{Flags, Id, Labels, Millis, Producer};
use bucksaw_segment::{FrameHeader, FrameKind, RowMeta};
use proptest::prelude::*;

use super::*;

mod golden;

/// Decodes every start of `bytes`: each must ask for more without going beyond the message, and the whole must give `want`.
fn check_prefixes<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    want: T,
    decode: impl Fn(&[u8]) -> Result<DecodeProgress<T>, WireError>,
) {
    for end in 0..bytes.len() {
        match decode(&bytes[..end]) {
            Ok(DecodeProgress::Incomplete(missing)) => {
                assert!(missing > 0 && end + missing <= bytes.len(), "{end} + {missing}");
            }
            other => panic!("{other:?} after {end} bytes"),
        }
    }
    let mut more = bytes.to_vec();
    more.extend_from_slice(b"next");
    assert_eq!(decode(&more), Ok(DecodeProgress::Complete(want, bytes.len())));
}

fn batch(text: &[u8], count: u32) -> Vec<u8> {
    let first_id = Id::new(Millis(5), Producer::new(1), 0);
    Batch { first_id, count, accepted: Millis(6), layout_bits: 0, row_meta: &[], text }.encode()
}

/// Sets a byte and seals the frame again where that is wanted: what a careless or hostile client could send.
fn forged(change: impl FnOnce(&mut FrameHeader), body: &[u8]) -> Vec<u8> {
    let mut header = FrameHeader {
        body_len: body.len() as u32,
        row_meta_len: 0,
        first_id: Id::new(Millis(5), Producer::new(1), 0),
        count: 1,
        stream: 0,
        accepted: Millis(5),
        kind: FrameKind::Records,
        layout_bits: 0,
    };
    change(&mut header);
    let mut bytes = header.encode(0, &[body]).to_vec();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn the_magic_starts_no_text() {
    assert!(str::from_utf8(&MAGIC).is_err() && str::from_utf8(&MAGIC[..1]).is_err());
}

#[test]
fn lengths_match_the_documentation() {
    let hello = Hello { version: WireVersion::NEWEST, labels: Labels::default() };
    assert_eq!(hello.encode().len(), 16);
    assert_eq!(HelloReply::Welcome { version: WireVersion::NEWEST, frame_bytes_max: 1 }.encode().len(), 20);
    assert_eq!(ServerMessage::Acked(1).encode().len(), 16);
    let redirect = Redirect::new(RedirectReason::CLOSE, ["10.0.0.1:7651".to_owned(), "b:1".to_owned()]).unwrap();
    let bytes = ServerMessage::Redirect(redirect).encode();
    assert_eq!(
        (&bytes[..4], &bytes[4..16], &bytes[16..]),
        (&[3, 2, 17, 0][..], &[0; 12][..], &b"10.0.0.1:7651,b:1"[..])
    );
    assert_eq!((FLUSH.len(), &FLUSH[..4]), (56, &b"BSWL"[..]));
}

#[test]
fn the_lower_version_is_spoken_and_a_newer_major_refused() {
    let check = |major, minor, want: Option<&str>| {
        let got = WireVersion::negotiate(WireVersion { major, minor });
        assert_eq!(got.map(|version| version.to_string()).as_deref(), want);
    };
    check(1, 0, Some("1.0"));
    check(1, 1, Some("1.1"));
    check(1, 2, Some("1.2"));
    check(1, 3, Some("1.3"));
    check(1, 9, Some("1.4"));
    check(2, 0, None);
    check(0, 7, None);
    let error = WireError::Version(WireVersion { major: 2, minor: 0 });
    let want = "unsupported protocol version 2.0, newest supported is 1.4: upgrade this side first";
    assert_eq!(error.to_string(), want);
}

#[test]
fn a_newer_client_is_refused_before_its_labels_are_read() {
    let hello = Hello { version: WireVersion { major: 2, minor: 0 }, labels: Labels::parse("a=b").unwrap() };
    let error = Hello::decode(&hello.encode()[..16]).unwrap_err();
    assert_eq!((error.code(), error), (RefusalCode::VERSION, WireError::Version(WireVersion { major: 2, minor: 0 })));
}

#[test]
fn a_node_may_not_choose_a_version_that_was_not_offered() {
    let answer = HelloReply::Welcome { version: WireVersion { major: 1, minor: 5 }, frame_bytes_max: 9 };
    assert!(matches!(HelloReply::decode(&answer.encode()), Err(WireError::Version(_))));
}

#[test]
fn long_labels_are_refused_before_they_come() {
    let mut bytes = Hello { version: WireVersion::NEWEST, labels: Labels::default() }.encode();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Hello::decode(&bytes), Err(WireError::LabelsTooLong(u32::MAX)));
}

#[test]
fn batches_and_flushes_are_distinguished() {
    let mut bytes = batch(b"a\nb\n", 2);
    let batch_len = bytes.len();
    bytes.extend_from_slice(&FLUSH);
    let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), used)) = ClientMessage::decode(&bytes, 1_000) else {
        panic!("no batch")
    };
    assert_eq!((used, frame.text(), frame.rows().unwrap().count), (batch_len, &b"a\nb\n"[..], 2));
    assert!(matches!(
        ClientMessage::decode(&bytes[used..], 1_000),
        Ok(DecodeProgress::Complete(ClientMessage::Flush, 56))
    ));
    for end in 0..batch_len {
        let Ok(DecodeProgress::Incomplete(missing)) = ClientMessage::decode(&bytes[..end], 1_000) else {
            panic!("{end}")
        };
        assert_eq!(missing, if end < 56 { 56 - end } else { batch_len - end });
    }
}

#[test]
fn labels_change_between_batches() {
    let labels = Labels::parse("app=web,host.name=a1").unwrap();
    let bytes = [encode_labels(&labels), batch(b"a\n", 1)].concat();
    let Ok(DecodeProgress::Complete(ClientMessage::Labels(found), used)) = ClientMessage::decode(&bytes, 1_000) else {
        panic!("no labels")
    };
    assert_eq!(found, labels);
    assert!(matches!(
        ClientMessage::decode(&bytes[used..], 1_000),
        Ok(DecodeProgress::Complete(ClientMessage::Batch(_), _))
    ));
    for end in 0..used {
        let step = ClientMessage::decode(&bytes[..end], 1_000);
        assert!(matches!(step, Ok(DecodeProgress::Incomplete(1..))), "{end}");
    }
    let forged = forged(|header| (header.kind, header.count) = (FrameKind::Stream, 0), b"no labels");
    assert!(matches!(ClientMessage::decode(&forged, 1_000), Err(WireError::Labels(_))));
}

#[test]
fn frames_that_are_no_batch_are_refused_by_their_header() {
    let check = |bytes: &[u8], want: &str| {
        let error = ClientMessage::missing_bytes(&bytes[..56], 100).unwrap_err().to_string();
        assert_eq!(error, want);
    };
    check(&batch(&[b'\n'; 45], 45), "a frame of 101 bytes exceeds the limit of 100");
    check(
        &forged(|header| header.stream = 1, b"\n"),
        "a batch is not a frame of records of the connection's one stream",
    );
    check(&[b'x'; 56], "a batch is damaged: no frame starts here");
    let mut changed = batch(b"a\n", 1);
    changed[56] ^= 1;
    assert!(matches!(ClientMessage::decode(&changed, 100), Err(WireError::Frame(_))));
    let mut flush = FLUSH;
    flush[55] = 1;
    assert!(ClientMessage::decode(&flush, 100).is_err());
}

#[test]
fn texts_are_short_and_printable() {
    let text = format!("\x1b[2Jé{}", "é".repeat(TEXT_BYTES_MAX));
    let bytes = ServerMessage::Failed { acked: 3, text }.encode();
    let Ok(DecodeProgress::Complete(ServerMessage::Failed { acked: 3, text }, used)) = ServerMessage::decode(&bytes)
    else {
        panic!("no progress")
    };
    assert!(used == bytes.len() && used <= 16 + TEXT_BYTES_MAX);
    assert!(text.starts_with("\u{fffd}[2Jé") && text.ends_with('é'));
}

#[test]
fn only_valid_addresses_are_accepted() {
    let check = |address: &str, want: bool| {
        let made = Redirect::new(RedirectReason::SUGGESTION, [address.to_owned()]);
        assert_eq!(made.is_some(), want, "{address}");
        let mut bytes = vec![3, 0];
        bytes.extend_from_slice(&u16::try_from(address.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(address.as_bytes());
        let read = ServerMessage::decode(&bytes);
        assert_eq!(read.is_ok(), want, "{address}: {read:?}");
        assert!(want || read == Err(WireError::InvalidRedirect));
    };
    check("10.0.0.1:7651", true);
    check("[::1]:1", true);
    check("logs.example.com:65535", true);
    for address in ["", "a", ":1", "a:", "a:0", "a:65536", "a:+1", "a b:1", "a\x1b:1", "é:1", ",", "a:1,", ",a:1"] {
        check(address, false);
    }
    check(&format!("{}:1", "h".repeat(118)), true);
    check(&format!("{}:1", "h".repeat(119)), false);
    let decode = |count: usize| {
        let text = vec!["h:1"; count].join(",");
        let head = [&[3, 0][..], &u16::try_from(text.len()).unwrap().to_le_bytes(), &[0; 12]].concat();
        ServerMessage::decode(&[head, text.into_bytes()].concat())
    };
    assert_eq!((decode(8).map(|step| step.missing_bytes()), decode(9)), (Ok(0), Err(WireError::InvalidRedirect)));
    let many =
        Redirect::new(RedirectReason::REFUSAL, (0..20).map(|port| format!("{}:{port}", "h".repeat(115)))).unwrap();
    assert_eq!(many.addresses().len(), Redirect::COUNT_MAX);
    assert_eq!(ServerMessage::decode(&ServerMessage::Redirect(many.clone()).encode()).unwrap().missing_bytes(), 0);
    assert!(!many.addresses()[0].ends_with(":0"));
}

proptest! {
    #[test]
    fn messages_round_trip(
        pairs in prop::collection::btree_map("[a-z]{1,8}", "\\PC{1,12}", 0..6),
        minor in 0_u16..4,
        max: u32,
        acked: u64,
        text in "[ -~]{0,60}",
        code in 1_u16..9,
        why: u8,
        addresses in prop::collection::vec("[a-z0-9.\\[\\]-]{1,60}:[1-9][0-9]{0,3}", 1..9),
    ) {
        let hello = Hello { version: WireVersion { major: 1, minor }, labels: Labels::new(pairs).unwrap() };
        check_prefixes(&hello.encode(), hello, Hello::decode);
        let welcome = HelloReply::Welcome { version: WireVersion::NEWEST, frame_bytes_max: max };
        check_prefixes(&welcome.encode(), welcome, HelloReply::decode);
        let refused = HelloReply::Refused { code: RefusalCode(code), text: text.clone() };
        check_prefixes(&refused.encode(), refused, HelloReply::decode);
        check_prefixes(&ServerMessage::Acked(acked).encode(), ServerMessage::Acked(acked), ServerMessage::decode);
        let failed = ServerMessage::Failed { acked, text };
        check_prefixes(&failed.encode(), failed, ServerMessage::decode);
        let redirect = Redirect::new(RedirectReason(why), addresses.clone()).unwrap();
        prop_assert_eq!((redirect.reason(), redirect.addresses()), (RedirectReason(why), &addresses[..]));
        check_prefixes(&ServerMessage::Redirect(redirect.clone()).encode(), ServerMessage::Redirect(redirect), ServerMessage::decode);
    }

    #[test]
    fn batches_round_trip(lines in prop::collection::vec("[ -~]{0,9}", 1..9), marked in 0_u32..9, ms in 0..=Millis::MAX.0) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let first_id = Id::new(Millis(ms), Producer::new(77), 5);
        let mut flags = Flags::empty();
        flags.push(marked.min(lines.len() as u32 - 1), Flags::CUT);
        let mut row_meta = Vec::new();
        let layout_bits = RowMeta { flags: flags.clone(), ..RowMeta::default() }.encode(first_id.time(), &mut row_meta);
        let count = lines.len() as u32;
        let bytes = Batch { first_id, count, accepted: Millis(ms), layout_bits, row_meta: &row_meta, text: text.as_bytes() }.encode();
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), used)) = ClientMessage::decode(&bytes, u32::MAX) else { panic!("no batch") };
        let rows = frame.rows().unwrap();
        prop_assert_eq!((used, frame.text(), frame.header.first_id), (bytes.len(), text.as_bytes(), first_id));
        prop_assert_eq!((rows.count, rows.flags), (count, flags));
    }

    #[test]
    fn any_bytes_decode_or_fail(start in 0_usize..4, bytes in prop::collection::vec(any::<u8>(), 0..200), max: u32) {
        let starts: [&[u8]; 4] = [b"", &MAGIC, b"BSWF", &FLUSH[..8]];
        let bytes = [starts[start], &bytes].concat();
        let _ = (Hello::decode(&bytes), HelloReply::decode(&bytes), ServerMessage::decode(&bytes));
        let _ = ClientMessage::decode(&bytes, max).map(|step| matches!(step, DecodeProgress::Complete(ClientMessage::Batch(frame), _) if frame.rows().is_ok()));
    }
}
