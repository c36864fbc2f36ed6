//! Streams of entries, whole and in pieces.

use bucksaw_record::Labels;
use proptest::prelude::*;

use super::{JournalDecoder, JournalError};
use crate::event_lines::EventLines;

/// Decodes a stream in pieces of `size` bytes.
fn decode(stream: &[u8], size: usize, entry_bytes_max: usize) -> (Vec<String>, Result<u64, JournalError>) {
    let (mut events, mut decoder) = (EventLines::default(), JournalDecoder::new(entry_bytes_max, &Labels::default()));
    let mut run = || {
        for part in stream.chunks(size) {
            decoder.push(part, &mut events)?;
            assert!(decoder.held_bytes() <= 2 * (entry_bytes_max + 600 + size), "{}", decoder.held_bytes());
        }
        decoder.finish(&mut events)?;
        Ok(decoder.dropped_fields())
    };
    let ended = run();
    (events.events, ended)
}

fn binary(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value, b"\n"].concat()
}

/// Entries as `journalctl -o export` prints them.
fn sample() -> Vec<u8> {
    let first = b"__CURSOR=s=739ad463348b4ceca5a9e69c95a3c93f;i=4ece7\n__REALTIME_TIMESTAMP=1423944916375353\n__MONOTONIC_TIMESTAMP=5\n\
        _BOOT_ID=6c7c6013a26343b29e964691ff25d04c\nPRIORITY=6\n_UID=0\n_HOSTNAME=bupkis\nSYSLOG_IDENTIFIER=systemd\n_SYSTEMD_UNIT=a.service\n\
        _PID=1\nMESSAGE=a=b\n\n";
    let second =
        [&b"__REALTIME_TIMESTAMP=1423944916372858\n"[..], &binary("MESSAGE", b"two\n\nlines\xff\n"), b"PRIORITY=x\n"]
            .concat();
    [first.as_slice(), b"\n", &second].concat()
}

const SAMPLE_EVENTS: [&str; 2] = [
    "host.name=bupkis,service.name=systemd,unit=a.service|1423944916375.353000|a=b|_BOOT_ID=6c7c6013a26343b29e964691ff25d04c;severity_text=info;\
     process.user.id=0;process.pid=1",
    "|1423944916372.858000|two\n\nlines\u{fffd}|severity_text=x",
];

#[test]
fn entries_are_decoded_in_any_pieces() {
    for size in [1, 2, 3, 7, 50, 10_000] {
        assert_eq!(decode(&sample(), size, 1_000), (SAMPLE_EVENTS.map(str::to_owned).to_vec(), Ok(0)), "{size}");
    }
    assert_eq!(decode(b"__CURSOR=x\n\n\n", 4, 100), (vec![], Ok(0)));
}

#[test]
fn the_cursor_is_that_of_the_last_whole_entry() {
    let (mut events, mut decoder) = (EventLines::default(), JournalDecoder::new(100, &Labels::default()));
    let mut push = |text: &str, want: &str| {
        decoder.push(text.as_bytes(), &mut events).unwrap();
        assert_eq!(decoder.cursor(), want.as_bytes(), "{text:?}");
    };
    push("__CURSOR=a\nMESSAGE=1\n", "");
    push("\n__CURSOR=b\nMESSA", "a");
    push("GE=2\n\n\n", "b");
    push("MESSAGE=3\n\n", "b");
}

#[test]
fn fields_that_are_too_long_are_left_out() {
    let core = vec![b'x'; 5_000];
    let text = [b"COREDUMP=".as_slice(), &core, b"\nMESSAGE=crash\n\n"].concat();
    let bytes = [&binary("COREDUMP", &core)[..], b"MESSAGE=crash\n\n"].concat();
    for stream in [text, bytes] {
        for size in [1, 100, 10_000] {
            assert_eq!(decode(&stream, size, 1_000), (vec!["|-|crash|".to_owned()], Ok(1)), "{size}");
        }
    }
}

#[test]
fn other_streams_are_errors() {
    let check = |stream: &[u8], want: JournalError| {
        assert_eq!(decode(stream, 3, 100).1, Err(want), "{}", stream.escape_ascii());
    };
    check(b"=x\n", JournalError::InvalidName(String::new()));
    check(b"GET / HTTP/1.1\n", JournalError::InvalidName("GET / HTTP/1.1".to_owned()));
    check(b"MESSAGE\n\x01\0\0\0\0\0\0\0abc", JournalError::MissingLineEnd("MESSAGE".to_owned()));
    check(b"MESSAGE\n\x01\0\0", JournalError::Truncated);
    check(b"MESSAGE=x", JournalError::Truncated);
    check(b"A\n\xff\xff\xff\xff\xff\xff\xff\xffabc", JournalError::Truncated);
}

proptest! {
    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'A'), Just(b'='), Just(0)], 0..200), size in 1_usize..50) {
        let whole = decode(&bytes, 1_000, 100);
        let pieces = decode(&bytes, size, 100);
        prop_assert_eq!(&pieces.0, &whole.0);
    }
}
