//! Clients that break the framed protocol: they get a reason and are disconnected and counted; earlier whole batches are stored.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::SystemTime;

use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::{FrameHeader, FrameKind};

use super::assert_healthy;
use crate::node::TestServer;

const MAGIC: &[u8] = b"\x89BSW\r\n\x1a\n";

/// A message of the node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FramedReply {
    Welcome,
    Refused(String),
    Acked(u64),
    Failed(u64, String),
}

/// The first message of a client.
pub(super) fn hello(labels: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Labels::parse(labels).unwrap().encode(&mut bytes);
    hello_message(1, bytes.len() as u32, &bytes)
}

fn hello_message(major: u16, length: u32, labels: &[u8]) -> Vec<u8> {
    [MAGIC, &major.to_le_bytes(), &[0, 0], &length.to_le_bytes(), labels].concat()
}

/// A batch, valid if the text has `count` lines.
pub(super) fn batch(text: &[u8], count: u32) -> Vec<u8> {
    frame_bytes(&header(text, count), text)
}

fn header(body: &[u8], count: u32) -> FrameHeader {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let producer = Producer::random(u64::from(crc32c::crc32c(body)));
    FrameHeader {
        body_len: body.len() as u32,
        row_meta_len: 0,
        first_id: Id::new(Millis(now.as_millis() as u64), producer, 0),
        count,
        stream: 0,
        accepted: Millis(0),
        kind: FrameKind::Records,
        layout_bits: 0,
    }
}

fn frame_bytes(header: &FrameHeader, body: &[u8]) -> Vec<u8> {
    [&header.encode(0, &[body])[..], body].concat()
}

/// Changes bytes and corrects the checksum.
fn corrupted(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&frame[8..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// All messages of the node until it closes the connection.
pub(super) fn replies(stream: &mut TcpStream) -> Vec<FramedReply> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut replies = Vec::new();
    let mut rest = bytes.as_slice();
    let short = |at: usize, rest: &[u8]| u16::from_le_bytes([rest[at], rest[at + 1]]);
    let text = |from: usize, length: u16, rest: &[u8]| {
        String::from_utf8(rest[from..from + usize::from(length)].to_vec()).unwrap()
    };
    if let Some(answer) = rest.strip_prefix(MAGIC) {
        let (code, length) = (short(8, answer), short(10, answer));
        replies.push(if code == 0 { FramedReply::Welcome } else { FramedReply::Refused(text(12, length, answer)) });
        rest = &answer[12 + usize::from(length)..];
    }
    while !rest.is_empty() {
        let (kind, length) = (rest[0], short(2, rest));
        let acked = u64::from_le_bytes(rest[8..16].try_into().unwrap());
        replies.push(match kind {
            1 => FramedReply::Acked(acked),
            _ => FramedReply::Failed(acked, text(16, length, rest)),
        });
        rest = &rest[16 + usize::from(length)..];
    }
    replies
}

/// Sends bytes; returns the last message of the node.
fn final_reply(node: &TestServer, bytes: &[u8]) -> FramedReply {
    let mut stream = node.connect("fast");
    // The node may close before it has read everything.
    let _ = stream.write_all(bytes);
    replies(&mut stream).pop().unwrap()
}

#[test]
fn a_batch_that_breaks_the_protocol_is_refused_with_a_reason() {
    let mut node = TestServer::start(&[]);
    let good = batch(b"one\ntwo\n", 2);
    let mut torn = good.clone();
    *torn.last_mut().unwrap() ^= 1;
    let with = |change: fn(&mut FrameHeader)| {
        let mut header = header(b"one\ntwo\n", 2);
        change(&mut header);
        frame_bytes(&header, b"one\ntwo\n")
    };
    let cases = [
        ("a wrong checksum", torn, "checksum"),
        ("a length beyond all bounds", corrupted(good.clone(), 8, &[0xff; 4]), "out of bounds"),
        ("a length beyond this node's", corrupted(good.clone(), 8, &(30_u32 << 20).to_le_bytes()), "bytes"),
        ("row metadata longer than the body", corrupted(good.clone(), 12, &9_u32.to_le_bytes()), "out of bounds"),
        ("no records", corrupted(good.clone(), 32, &[0; 4]), "out of bounds"),
        ("more records than bytes", corrupted(good.clone(), 32, &[0xff; 4]), "out of bounds"),
        ("more records than lines", with(|header| header.count = 3), "does not match its header"),
        ("fewer records than lines", with(|header| header.count = 1), "does not match its header"),
        ("a last record without its LF", batch(b"one\ntwo", 2), "does not match its header"),
        (
            "times that are none",
            with(|header| (header.layout_bits, header.row_meta_len) = (1, 4)),
            "does not match its header",
        ),
        (
            "lengths that do not fit",
            with(|header| (header.layout_bits, header.row_meta_len) = (2, 2)),
            "does not match its header",
        ),
        (
            "marks that do not fit",
            with(|header| (header.layout_bits, header.row_meta_len) = (4, 3)),
            "does not match its header",
        ),
        ("an unknown flag", with(|header| header.layout_bits = 0x80), "does not match its header"),
        ("a stream of its own", with(|header| header.stream = 1), "records"),
        ("an unknown kind", corrupted(good.clone(), 48, &[9]), "out of bounds"),
        ("reserved bytes", corrupted(good.clone(), 50, &[1]), "out of bounds"),
        ("numbers that overflow", corrupted(good.clone(), 16, &[0xff; 4]), "out of bounds"),
        ("no frame", b"GET / HTTP/1.1\r\nHost: unknown\r\nAccept: nothing at all\r\n\r\n".to_vec(), "no frame"),
    ];
    for (number, (name, bytes, reason)) in (1..).zip(&cases) {
        // A valid batch first: it is stored and acknowledged.
        let first = batch(format!("before {name}\n").as_bytes(), 1);
        match final_reply(&node, &[&hello("case=bad")[..], &first, bytes].concat()) {
            FramedReply::Failed(1, text) => assert!(text.contains(reason), "{name}: {text}"),
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(node.count("case=bad"), number, "{name}");
        assert_eq!(node.metric("bucksaw_sources_protocol_errors_total"), number as f64, "{name}");
    }
    assert_healthy(&mut node);
}

#[test]
fn an_invalid_hello_is_refused_with_a_reason() {
    let mut node = TestServer::start(&[]);
    let cases = [
        ("a version to come", hello_message(9, 0, b""), "9.0"),
        ("version 0", hello_message(0, 0, b""), "0.0"),
        ("labels beyond all bounds", hello_message(1, u32::MAX, b""), "labels"),
        ("labels that are none", hello_message(1, 4, b"\xff\xff\xff\xff"), "label"),
        ("a magic that breaks off", [&MAGIC[..6], b"xxxxxxxxxxxxxxxx"].concat(), ""),
    ];
    for (name, bytes, reason) in cases {
        let mut stream = node.connect("fast");
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        match replies(&mut stream).pop() {
            Some(FramedReply::Refused(text)) => assert!(text.contains(reason), "{name}: {text}"),
            // Bytes without the magic are lines.
            None => assert_eq!(reason, "", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    // The magic contains a line end.
    assert_eq!(node.count(""), 2, "what was lines");
    assert_healthy(&mut node);
}
