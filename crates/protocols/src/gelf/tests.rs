//! Messages of real senders, as events.

use std::io::Write as _;

use bucksaw_record::Labels;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::{GelfDecoder, GelfError};
use crate::event_lines::EventLines;

fn decode(message: &[u8]) -> Result<String, GelfError> {
    let mut events = EventLines::default();
    GelfDecoder::new(&Labels::default(), usize::MAX).message(message, &mut events).map(|()| events.events.join("\n"))
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const PLAIN: &[u8] = br#"{"host":"h","short_message":"x"}"#;

#[test]
fn messages_become_events() {
    let check = |message: &str, want: &str| assert_eq!(decode(message.as_bytes()).unwrap(), want, "{message}");
    // The example of the specification.
    check(
        r#"{"version":"1.1","host":"example.org","short_message":"A short message that helps you identify what is going on",
            "full_message":"Backtrace here\n\nmore stuff","timestamp":1385053862.3072,"level":1,"_user_id":9001,
            "_some_info":"foo","_some_env_var":"bar"}"#,
        "host.name=example.org|1385053862307.200000|A short message that helps you identify what is going on|user_id=9001;some_info=foo;\
         some_env_var=bar;severity_text=alert;full_message=Backtrace here\n\nmore stuff",
    );
    // Docker's log driver.
    check(
        r#"{"version":"1.1","host":"node1","short_message":"GET / 200","timestamp":1700000000.123,"level":6,"_command":"nginx","_container_id":"ab12","_container_name":"web","_image_id":"sha256:1","_image_name":"nginx:1","_tag":"ab12"}"#,
        "host.name=node1,service.name=web|1700000000123.000000|GET / 200|command=nginx;container.id=ab12;container.name=web;container.image.id=sha256:1;\
         container.image.name=nginx:1;tag=ab12;severity_text=info",
    );
    // A library for Java: the full message repeats the short one.
    check(
        r#"{"host":"h","short_message":"boom","full_message":"boom\n\tat a.B.c(B.java:7)\n","file":"B.java","line":7,"facility":"f","level":"3"}"#,
        "host.name=h|-|boom\n\tat a.B.c(B.java:7)|code.file.path=B.java;code.line.number=7;facility=f;severity_text=err",
    );
    check(
        r#"{"short_message":"x","level":"WARN","timestamp":"1700000000"}"#,
        "|1700000000000.000000|x|severity_text=WARN",
    );
    check(r#"{"short_message":"x","level":9,"timestamp":"soon"}"#, "|-|x|severity_text=9");
    check(r#"{"full_message":"x","host":null,"_a":null,"_b":{"c":[1]},"_":1}"#, r#"|-|x|b={"c":[1]}"#);
    check(
        r#"{"short_message":"x","_container_name":"c","_app":"a","_service":"s"}"#,
        "service.name=a|-|x|container.name=c;app=a;service=s",
    );
    check(r#"{"short_message":7}"#, "|-|7|");
}

#[test]
fn compressed_messages_equal_plain_ones() {
    let want = "host.name=h|-|x|";
    assert_eq!(decode(PLAIN).unwrap(), want);
    assert_eq!(decode(&gzip(PLAIN)).unwrap(), want);
    assert_eq!(decode(&zlib(PLAIN)).unwrap(), want);
}

#[test]
fn bad_messages_are_refused() {
    let check = |message: &[u8], want: &str| assert_eq!(decode(message).unwrap_err().to_string(), want);
    check(b"", "not a GELF message: EOF while parsing a value at line 1 column 0");
    check(b"[]", "not a GELF message: invalid type: sequence, expected a JSON object at line 1 column 0");
    check(b"{\"short_message\":\"\xff\"}", "not a GELF message: invalid UTF-8 at byte 18");
    check(br#"{"host":"h"}"#, "the GELF message has no `short_message`");
    check(br#"{"short_message":"x"} y"#, "not a GELF message: trailing characters at line 1 column 23");
    for packed in [gzip(PLAIN), zlib(PLAIN)] {
        for length in 2..packed.len() {
            assert!(decode(&packed[..length]).is_err(), "{length} of {}", packed.len());
        }
    }
    let bomb = vec![b' '; GelfDecoder::MESSAGE_BYTES_MAX + 1];
    check(&gzip(&bomb), "the GELF message is longer than 16777216 bytes");
    check(&zlib(&bomb), "the GELF message is longer than 16777216 bytes");
    check(&bomb, "the GELF message is longer than 16777216 bytes");
    let many: Vec<String> = (0..300).map(|n| format!("\"_a{n}\":1")).collect();
    check(format!("{{\"short_message\":\"x\",{}}}", many.join(",")).as_bytes(), "more than 256 attributes");
}

#[test]
fn a_body_has_one_or_several_messages() {
    let mut events = EventLines::default();
    let mut decoder = GelfDecoder::new(&Labels::parse("site=x").unwrap(), usize::MAX);
    let body = [PLAIN, b"\n", PLAIN, PLAIN, b" \r\n"].concat();
    assert_eq!(decoder.body(&body, &mut events).unwrap(), 3);
    assert!(decoder.body(&gzip(PLAIN), &mut events).is_err(), "HTTP states how a body is compressed");
    assert_eq!(events.events, ["host.name=h,site=x|-|x|"; 3]);
    let error = decoder.body(&[PLAIN, b"\n{}"].concat(), &mut events).unwrap_err();
    assert_eq!(events.events.len(), 4);
    let answer = error.answer();
    assert_eq!((answer.status, &*answer.body), (400, "the GELF message has no `short_message`\n"));
    assert_eq!(GelfError::TooLong(1).answer().status, 413);
}

proptest! {
    #[test]
    fn any_bytes_decode_without_panic(prefix in prop_oneof![Just(&b""[..]), Just(&b"\x1f\x8b"[..]), Just(&b"\x78\x9c"[..])], bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = decode(&[prefix, &bytes].concat());
    }
}
