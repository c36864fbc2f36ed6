//! Messages that no proper sender writes.

use super::super::{FluentFrame, FluentFramer};
use super::{INFLATED_BYTES_MAX, decode, frames};

const MAX: usize = 16 << 20;

/// The error of a message, from the decoder.
fn error(message: &[u8]) -> String {
    decode(message).unwrap_err().to_string()
}

/// The number of events, and the reason for which the first record is rejected.
fn rejected(message: &[u8]) -> (usize, String) {
    let (events, message) = decode(message).unwrap();
    (events.len(), message.decoded.first_error.unwrap_or_default())
}

#[test]
fn heartbeats_are_no_events() {
    let check = |message: &[u8]| {
        let (events, message) = decode(message).unwrap();
        assert_eq!((events.len(), message.decoded.accepted, message.decoded.rejected), (0, 0, 0));
    };
    check(b"\xc0");
    check(b"\x92\xa1t\x90");
    check(b"\x92\xa1t\xc4\x00");
    check(b"\x93\xa1t\xa0\xc0");
    check(b"\x93\xa1t\xc4\x00\x81\xaacompressed\xa4gzip");
    check(b"\x93\xa1t\xc4\x00\x81\xaacompressed\xa4zstd");
    // A record that is nil.
    check(b"\x93\xa1t\x01\xc0");
    check(b"\x92\xa1t\x91\x92\x01\xc0");
}

#[test]
fn other_structures_are_refused() {
    let structure = |reason: &str| format!("not a message of the forward protocol: {reason}");
    assert_eq!(error(b"\x90"), structure("the array has less than two elements"));
    assert_eq!(error(b"\x91\xa1t"), structure("the array has less than two elements"));
    assert_eq!(error(b"\x92\x01\x90"), structure("the tag is not a string"));
    assert_eq!(error(b"\x92\xa1t\x01"), structure("a message with a time has no record"));
    assert_eq!(error(b"\x93\xa1t\x90\x01"), structure("the options are not a map"));
    assert_eq!(error(b"\x93\xa1t\xa0\x81\xaacompressed\x01"), structure("the option `compressed` is not a string"));
    assert_eq!(error(b"\x07"), "not the forward protocol: the first byte is 0x07");
    assert_eq!(
        error(&[&b"\x92\xda\x04\x01"[..], &[b't'; 1_025], b"\x90"].concat()),
        "the tag has 1025 bytes; a label may have 1024"
    );
    let lzma = b"\x93\xa1t\xa1x\x81\xaacompressed\xa4lzma";
    assert_eq!(error(lzma), "the entries are compressed with `lzma`: let the sender use gzip, zstd or no compression");
    let chunk = [&b"\x93\xa1t\x90\x81\xa5chunk\xda\x04\x00"[..], &[b'c'; 1_024]].concat();
    assert_eq!(error(&chunk), structure("the option `chunk` is longer than 1024 bytes"));
    // Elements and options of later versions are passed over.
    let later = b"\x95\xa1t\x01\x81\xa3log\xa1x\x82\x01\x02\xa5later\x90\xa0";
    assert_eq!(decode(later).unwrap().0, ["tag=t|1000.000000|x|"]);
}

#[test]
fn damaged_messages_are_refused_as_a_whole() {
    let damaged = |reason: &str| format!("the message is not valid MessagePack: {reason}");
    assert_eq!(error(b""), damaged("a value is cut off"));
    assert_eq!(error(b"\x92\xa1t"), damaged("a value is cut off"));
    assert_eq!(error(b"\x92\xa1t\x91\xc1"), damaged("no value starts with the byte 0xc1"));
    assert_eq!(error(b"\xc0\xc0"), damaged("1 bytes follow the value"));
    // A good entry, then a damaged one.
    let entries = b"\x92\x01\x81\xa3log\xa1x\x92\x01\x81\xa3log\xa9x";
    assert_eq!(error(&[&b"\x92\xa1t\xc4\x12"[..], entries].concat()), damaged("a value is cut off"));
    let gzip = b"\x93\xa1t\xc4\x04\x1f\x8b\x08\x00\x81\xaacompressed\xa4gzip";
    assert!(error(gzip).starts_with("the gzip data is damaged or cut off: "), "{}", error(gzip));
}

#[test]
fn entries_of_another_form_are_rejected_and_the_others_stored() {
    let check = |entries: &[u8], count: u8, want: &str| {
        let good = b"\x92\x01\x81\xa3log\xa1x";
        let array = [&[0x92, 0xa1, b't', 0x90 | (count + 2)][..], good, entries, good].concat();
        assert_eq!(rejected(&array), (2, want.to_owned()), "{}", entries.escape_ascii());
        let packed = [good, entries, good].concat();
        let packed = [&[0x92, 0xa1, b't', 0xc4, packed.len() as u8][..], &packed].concat();
        assert_eq!(rejected(&packed), (2, want.to_owned()), "{}", entries.escape_ascii());
    };
    let entry = "an entry is not an array of a time and a record";
    check(b"\x01", 1, entry);
    check(b"\x91\x01", 1, entry);
    check(b"\x90", 1, entry);
    check(b"\x81\x01\x91\x02", 1, entry);
    check(b"\x92\x01\xa1x", 1, "a record is not a map");
    check(b"\x92\x01\x91\x80", 1, "a record is not a map");
    check(b"\x93\x90\xc0\x91\x01", 1, "");
}

#[test]
fn records_beyond_the_limits_of_attributes_are_rejected() {
    let record = |pairs: &[Vec<u8>]| {
        let count = u16::try_from(pairs.len() + 1).unwrap().to_be_bytes();
        [&b"\x93\xa1t\x01\xde"[..], &count, b"\xa3log\xa1x", &pairs.concat()].concat()
    };
    let pairs: Vec<Vec<u8>> =
        (0..300_u32).map(|n| [&b"\xa4"[..], format!("{n:04}").as_bytes(), b"\x01"].concat()).collect();
    assert_eq!(rejected(&record(&pairs[..256])), (1, String::new()));
    assert_eq!(rejected(&record(&pairs[..257])), (0, "more than 256 attributes".to_owned()));
    let name = |length: u8| vec![[&[0xd9, length][..], &vec![b'k'; usize::from(length)], b"\x01"].concat()];
    assert_eq!(rejected(&record(&name(255))), (1, String::new()));
    let inner = [&b"\xa1m\x81"[..], &name(254)[0]].concat();
    let want = format!("an attribute's name is empty or longer than 255 bytes: `m.{}`", "k".repeat(38));
    assert_eq!(rejected(&record(&[inner])), (0, want));
}

/// A long name around many pairs would be copied for each of them.
#[test]
fn a_long_name_is_not_copied_for_each_of_its_pairs() {
    let name = vec![b'k'; 1 << 20];
    let mut message = [&b"\x93\xa1t\x01\x82\xa3log\xa1x\xdb"[..], &(1_u32 << 20).to_be_bytes(), &name].concat();
    message.extend_from_slice(b"\xdf\x00\x01\x00\x00");
    message.extend_from_slice(&b"\xa1a\x01".repeat(1 << 16));
    let (events, reason) = rejected(&message);
    assert_eq!(events, 0);
    assert!(reason.starts_with("an attribute's name is empty or longer than 255 bytes: `kkk"), "{reason}");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize, open: &[u8], end: &[u8]| {
        [&b"\x92\xa1t\x91\x92\x01\x82\xa3log\xa1x\xa1n"[..], &open.repeat(depth), end].concat()
    };
    // 31 and the record itself.
    for (open, end) in [(&b"\x91"[..], &b"\x01"[..]), (b"\x81\xa1k", b"\x01"), (b"\x91", b"\x90")] {
        let deepest = if end == b"\x90" { 30 } else { 31 };
        assert_eq!(rejected(&nested(deepest, open, end)), (1, String::new()));
        let want = "the message is not valid MessagePack: arrays and maps are nested more than 35 deep";
        assert_eq!(error(&nested(deepest + 1, open, end)), want);
        assert_eq!(error(&nested(1 << 20, open, end)), want);
        let (found, error) = frames(MAX, &[&nested(1 << 20, open, end)]);
        assert!(found.is_empty());
        assert_eq!(error.unwrap().to_string(), want);
    }
    // The same record within a string.
    let packed = nested(31, b"\x91", b"\x01").split_off(4);
    let message = [&[0x92, 0xa1, b't', 0xc4, packed.len() as u8][..], &packed].concat();
    assert_eq!(rejected(&message), (1, String::new()));
    // Keys that are maps would need escapes of escapes.
    let key =
        [&b"\x93\xa1t\x01\x82\xa3log\xa1x"[..], &b"\x81".repeat(20), b"\xa1\"", &b"\x01".repeat(20), b"\x01"].concat();
    assert_eq!(rejected(&key).1, "a key of a record is an array or a map");
    let value = [&b"\x93\xa1t\x01\x82\xa3log\xa1x\xa1n\x91\x81"[..], b"\x90", b"\x01"].concat();
    assert_eq!(rejected(&value).1, "a key of a record is an array or a map");
}

#[test]
fn stated_lengths_are_not_believed() {
    let too_long = "the message is longer than 16777216 bytes: lower `chunk_limit_size` in the buffer of the sender";
    for bomb in [
        &b"\xdd\xff\xff\xff\xff"[..],
        b"\x92\xa1t\xdd\xff\xff\xff\xff",
        b"\x93\xa1t\x01\xdf\xff\xff\xff\xff",
        b"\x92\xdb\xff\xff\xff\xff",
        b"\x92\xa1t\xc6\x01\x00\x00\x00",
        b"\x93\xa1t\x01\xc9\xff\xff\xff\xff\x05",
    ] {
        let (found, error) = frames(MAX, &[bomb]);
        assert!(found.is_empty());
        assert_eq!(error.unwrap().to_string(), too_long, "{}", bomb.escape_ascii());
        assert_eq!(super::hostile::error(bomb), "the message is not valid MessagePack: a value is cut off");
    }
    // Up to the maximum it is only counted.
    let mut framer = FluentFramer::new(MAX);
    assert_eq!(framer.frame(b"\x92\xa1t\xc6\x00\xff\x00\x00").unwrap(), FluentFrame::Missing(0xff_0000));
    assert_eq!(framer.frame(b"\x92\xa1t\xc6\x00\xff\x00\x00x").unwrap(), FluentFrame::Missing(0xfe_ffff));
}

#[test]
fn a_message_may_have_the_maximum() {
    let message = [&b"\x92\xa1t\xc4\x64"[..], &[0; 100]].concat();
    let (found, error) = frames(message.len(), &[&message, &message]);
    assert!(found.len() == 2 && error.is_none());
    let (found, error) = frames(message.len() - 1, &[&message]);
    assert!(found.is_empty());
    assert!(error.unwrap().to_string().starts_with("the message is longer than 104 bytes"));
    // Whole in one part.
    assert!(frames(1, &[b"\xc0\x91\x01"]).1.unwrap().to_string().starts_with("the message is longer than 1 bytes"));
}

#[test]
fn other_protocols_get_a_hint() {
    let check = |bytes: &[u8], want: &str| {
        let (found, error) = frames(MAX, &[b"\xc0", bytes]);
        assert_eq!((found.len(), error.unwrap().to_string().as_str()), (1, want));
    };
    check(
        b"\x16\x03\x01",
        "not the forward protocol: the first byte is 0x16, as of TLS: turn TLS off at the sender, or on at the listener",
    );
    check(
        b"[\"t\",1,{}]",
        "not the forward protocol: the first byte is 0x5b, as of JSON: let the sender use MessagePack",
    );
    check(
        b"GET / HTTP/1.1",
        "not the forward protocol: the first byte is 0x47, as of HTTP: send HTTP to the HTTP port",
    );
    check(b"<13>Oct", "not the forward protocol: the first byte is 0x3c");
}

#[test]
fn decompressed_entries_are_bounded() {
    let entry = [&b"\x92\x01\x81\xa3log\xc6"[..], &u32::try_from(INFLATED_BYTES_MAX).unwrap().to_be_bytes()].concat();
    let bomb = [&entry[..], &vec![0; INFLATED_BYTES_MAX]].concat();
    let packed = zstd::stream::encode_all(&bomb[..], 1).unwrap();
    let message =
        [&[0x93, 0xa1, b't', 0xc5][..], &(packed.len() as u16).to_be_bytes(), &packed, b"\x81\xaacompressed\xa4zstd"];
    assert_eq!(error(&message.concat()), "the decompressed data exceeds 1048576 bytes: send smaller batches");
}

/// With work for each part that grows with the message this would not end.
#[test]
fn a_message_of_many_parts_is_scanned_once() {
    let count = 1_u32 << 20;
    let message = [&b"\x92\xa1t\xdd"[..], &count.to_be_bytes(), &vec![1; count as usize]].concat();
    let mut framer = FluentFramer::new(MAX);
    for end in 1..message.len() {
        let FluentFrame::Missing(missing) = framer.frame(&message[..end]).unwrap() else { panic!("{end}") };
        assert!(missing <= message.len() - end);
    }
    assert_eq!(framer.frame(&message).unwrap(), FluentFrame::Whole(message.len()));
}
