//! Compressed answers: by `Accept-Encoding`, without delay, and never a tail.

use std::io::Read as _;

use serde_json::Value;

use crate::client::open;
use crate::node::TestServer;

const ENCODINGS: [&str; 2] = ["gzip", "zstd"];

/// The text of a compressed body, up to where the bytes end.
fn decoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut decoder: Box<dyn std::io::Read + '_> = match encoding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(bytes)),
        _ => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
    };
    let (mut text, mut part) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = decoder.read(&mut part) {
        text.extend_from_slice(&part[..length]);
    }
    text
}

/// The text without what differs from answer to answer: the duration of the query.
fn comparable(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    text.lines().filter(|line| !line.contains("\"stats\"")).collect()
}

#[test]
fn answers_are_compressed_as_the_client_accepts() {
    let node = TestServer::start(&[]);
    let text: String = (0..2_000).map(|number| format!("record {number} of the corpus\n")).collect();
    node.post("/api/v1/ingest?label=app=web", &[], text.as_bytes()).expect(200);
    let get =
        |target: &str, accepted: &str| node.call("GET", target, &[("Accept-Encoding", accepted)], b"").expect(200);
    for target in ["/api/v1/query", "/api/v1/query?format=raw", "/api/v1/histogram?buckets=500", "/metrics"] {
        let plain = node.get(target).expect(200);
        assert_eq!(
            (plain.header("content-encoding"), plain.header("vary")),
            (None, Some("accept-encoding")),
            "{target}"
        );
        for accepted in ["identity", "br", "gzip;q=0, zstd;q=0"] {
            let answer = get(target, accepted);
            assert_eq!(answer.header("content-encoding"), None, "{target} {accepted}");
            assert_eq!(answer.body.len() / 1_000, plain.body.len() / 1_000, "{target} {accepted}");
        }
        for encoding in ENCODINGS {
            let answer = get(target, encoding);
            assert_eq!(answer.header("content-encoding"), Some(encoding), "{target}");
            assert_eq!(answer.header("content-type"), plain.header("content-type"), "{target} {encoding}");
            let decoded = decoded(encoding, &answer.body);
            assert!(answer.body.len() * 3 < decoded.len(), "{target} {encoding}: {}", answer.body.len());
            if target.starts_with("/api/v1/query") {
                assert_eq!(comparable(&decoded), comparable(&plain.body), "{target} {encoding}");
            }
        }
        assert_eq!(get(target, "gzip, deflate, br, zstd").header("content-encoding"), Some("zstd"), "{target}");
    }
    // The statistics of text are in the trailers, which stay readable.
    let raw = get("/api/v1/query?format=raw", "gzip");
    let stats: Value = serde_json::from_str(raw.header("bucksaw-stats").unwrap()).unwrap();
    assert_eq!(stats["matched"], 2_000);
    // Short answers gain nothing, and errors must be readable.
    assert_eq!(get("/api/v1/count", "gzip").header("content-encoding"), None);
    let refused = node.call("GET", "/api/v1/query?q=(", &[("Accept-Encoding", "gzip")], b"").expect(400);
    assert!(refused.json()["error"].is_string());
}

#[test]
fn the_first_record_of_a_compressed_answer_does_not_wait_for_the_last() {
    // The records after the first are searched for much longer than the first needs to be sent.
    let node = TestServer::start(&["--segment-max-bytes", "1MB"]);
    node.post("/api/v1/ingest", &[], b"wanted, the first\n").expect(200);
    let rest = format!("{} is none\n", "ab".repeat(500)).repeat(16_000);
    node.post("/api/v1/ingest", &[], rest.as_bytes()).expect(200);
    for encoding in ENCODINGS {
        let target = format!("/api/v1/query?q={}", crate::client::encode("wanted OR /(a.*){9}[xyz]$/"));
        let mut answer = open(node.address("http"), "GET", &target, &[("Accept-Encoding", encoding)]).unwrap();
        assert_eq!(answer.status, 200);
        let (mut sent, mut part) = (Vec::new(), [0; 4_096]);
        while !decoded(encoding, &sent).ends_with(b"\n") {
            let length = answer.body.read(&mut part).unwrap();
            assert!(length > 0, "{encoding}: no record came");
            sent.extend_from_slice(&part[..length]);
        }
        let first = String::from_utf8(decoded(encoding, &sent)).unwrap();
        assert!(first.contains("wanted, the first") && !first.contains("stats"), "{encoding}: {first}");
        answer.body.read_to_end(&mut sent).unwrap();
        let whole = String::from_utf8(decoded(encoding, &sent)).unwrap();
        let last: Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
        assert_eq!(last["stats"]["matched"], 1, "{encoding}");
    }
}

#[test]
fn tails_are_not_compressed() {
    let node = TestServer::start(&[]);
    for accept in ["application/x-ndjson", "text/event-stream", "text/plain"] {
        let headers = [("Accept", accept), ("Accept-Encoding", "gzip, zstd")];
        let mut tail = open(node.address("http"), "GET", "/api/v1/tail?q=wanted", &headers).unwrap();
        assert!(tail.headers.iter().all(|(name, _)| name != "content-encoding"), "{accept}: {:?}", tail.headers);
        node.post("/api/v1/ingest", &[], b"wanted\n").expect(200);
        let line = String::from_utf8(tail.body.line().unwrap()).unwrap();
        assert!(line.contains("wanted"), "{accept}: {line}");
    }
}
