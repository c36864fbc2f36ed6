//! `Idempotency-Key`: a retried body is stored once.

use std::io::Write as _;

use bucksaw_generate::{Config, SampleFormat};

use crate::client::{Response, StreamingResponse, gzip};
use crate::corpus::lines;
use crate::node::TestServer;
use crate::wait::wait_until;

/// Bytes of a line with its LF.
const LINE_BYTES: usize = 201;

const KEY: (&str, &str) = ("Idempotency-Key", "shipment 17");

/// Bodies, each with its own key and stream.
struct KeyedBatches {
    text: Vec<u8>,
    /// Name, durability, number of lines.
    list: Vec<(String, &'static str, u64)>,
}

impl KeyedBatches {
    /// Sends all bodies.
    fn send(&self, node: &TestServer, when: &str) {
        for (name, durability, lines) in &self.list {
            let target = format!("/api/v1/ingest?durability={durability}&label=sent={name}");
            let answer = node.post(&target, &[("Idempotency-Key", name)], self.text(*lines)).expect(200);
            assert_eq!(answer.json()["accepted"].as_u64(), Some(*lines), "{name}, {when}");
            assert_eq!(node.count(format!("sent={name}")), *lines, "{name}, {when}");
        }
        self.check(node, when);
    }

    /// Asserts that each is stored once.
    fn check(&self, node: &TestServer, when: &str) {
        for (name, _, lines) in &self.list {
            let back = node.cli(&["query", &format!("sent={name}")]).stdout;
            assert!(back == self.text(*lines), "{name}, {when}: {} bytes came back", back.len());
        }
        assert_eq!(node.count(""), self.list.iter().map(|(_, _, lines)| lines).sum::<u64>(), "{when}");
    }

    fn text(&self, lines: u64) -> &[u8] {
        &self.text[..lines as usize * LINE_BYTES]
    }
}

#[test]
fn a_retry_is_stored_once() {
    let text = lines(Config { format: SampleFormat::Text, size: Some(LINE_BYTES - 1), seed: 5 }, 12_000);
    // One body that is appended at once, and one in several parts.
    let list = [50, 12_000].into_iter().flat_map(|lines| {
        ["fast", "durable", "bulk"].map(|durability| (format!("{lines}-{durability}"), durability, lines))
    });
    let shipments = KeyedBatches { text, list: list.collect() };
    let mut node = TestServer::start(&["--segment-max-age", "200ms"]);
    shipments.send(&node, "first");
    shipments.send(&node, "at once");
    node.kill();
    node.restart();
    shipments.check(&node, "after a kill");
    shipments.send(&node, "after a kill");
    node.wait_stored();
    shipments.send(&node, "with the first in the store");
    node.wait_stored();
    shipments.check(&node, "in the store");
    assert!(node.terminate().success());
    node.restart();
    shipments.send(&node, "after a stop");
}

#[test]
fn a_retry_completes_a_partly_stored_body() {
    let mut node = TestServer::start(&[]);
    let text = lines(Config { format: SampleFormat::Text, size: Some(200), seed: 6 }, 12_000);
    // The connection breaks in the middle of the body; a part of it is stored.
    let head = "POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    let mut stream = node.connect("http");
    let begun = format!("{head}Content-Length: {}\r\n{}: {}\r\n\r\n", text.len(), KEY.0, KEY.1);
    stream.write_all(&[begun.as_bytes(), &text[..2_000_000]].concat()).unwrap();
    wait_until("a part of the body is stored", || node.count("") > 0);
    drop(stream);
    node.kill();
    node.restart();
    let begun = node.count("");
    assert!((1..12_000).contains(&begun), "{begun} records");
    // A body with another beginning is refused.
    let other = [b"#", &text[1..]].concat();
    node.post("/api/v1/ingest", &[KEY], &other).expect(422);
    assert_eq!(node.count(""), begun);
    assert_eq!(node.post("/api/v1/ingest", &[KEY], &text).expect(200).json()["accepted"], 12_000);
    assert_eq!(node.count(""), 12_000);
    assert!(node.cli(&["query"]).stdout == text, "other text came back");
    // Without a key, a retry is stored again.
    node.post("/api/v1/ingest", &[], &text).expect(200);
    node.post("/api/v1/ingest", &[("Idempotency-Key", "shipment 18")], &text).expect(200);
    assert_eq!(node.count(""), 36_000);
}

/// Sends the text in chunks of these lengths in turn.
fn post_in_chunks(
    node: &TestServer,
    target: &str,
    headers: &[(&str, &str)],
    text: &[u8],
    lengths: &[usize],
) -> Response {
    let mut stream = node.connect("http");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut rest = text;
    for length in lengths.iter().cycle() {
        let (chunk, more) = rest.split_at(rest.len().min(*length));
        stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
        stream.write_all(&[chunk, b"\r\n"].concat()).unwrap();
        rest = more;
        if chunk.is_empty() {
            break;
        }
    }
    StreamingResponse::read(stream).and_then(StreamingResponse::into_response).unwrap()
}

#[test]
fn the_records_of_a_body_do_not_depend_on_its_chunks() {
    let mut node = TestServer::start(&["--segment-max-age", "200ms", "--max-record-bytes", "20kB"]);
    let mut long = lines(Config { format: SampleFormat::Text, size: Some(200), seed: 8 }, 15_000);
    // Cut lines, also at the end of a part, and a last line without line end.
    long.splice(1_000_000..1_000_000, vec![b'x'; 100_000]);
    long.extend_from_slice(&[b'y'; 300]);
    let objects = |blank: &str| (0..100_000).flat_map(|at| format!("{{\"n\":{at}}}\n{blank}").into_bytes()).collect();
    let (small, objects): (Vec<u8>, Vec<u8>) = (objects("\n"), objects(""));
    let bodies = [("long", "text/plain", &long, &long), ("small", "application/x-ndjson", &small, &objects)];
    for (key, kind, text, stored) in bodies {
        let (all, target) = (node.count(""), format!("/api/v1/ingest?label=sent={key}"));
        let headers = [("Idempotency-Key", key), ("Content-Type", kind)];
        let accepted = node.post(&target, &headers, text).expect(200).json()["accepted"].as_u64().unwrap();
        let check = |node: &TestServer, how: &str, answer: &Response| {
            assert_eq!(answer.status, 200, "{key}, {how}: {}", answer.text());
            assert_eq!(answer.json()["accepted"], accepted, "{key}, {how}");
            assert_eq!(node.count(""), all + accepted, "{key}, {how}");
        };
        for (encoding, packed) in [("gzip", gzip(text)), ("zstd", zstd::encode_all(&text[..], 1).unwrap())] {
            let headers = [&headers[..], &[("Content-Encoding", encoding)]].concat();
            check(&node, encoding, &node.post(&target, &headers, &packed));
        }
        check(&node, "in small chunks", &post_in_chunks(&node, &target, &headers, text, &[1, 7, 1_000, 4_095]));
        node.kill();
        node.restart();
        check(
            &node,
            "in large chunks, after a kill",
            &post_in_chunks(&node, &target, &headers, text, &[1 << 20, 123_457]),
        );
        node.wait_stored();
        check(&node, "with the first in the store", &post_in_chunks(&node, &target, &headers, text, &[77_777]));
        // Cut lines are joined; blank lines are no JSON objects.
        let back = node.cli(&["query", &format!("sent={key}")]).stdout;
        assert!(back == *stored, "{key}: {} bytes came back", back.len());
    }
}

/// A key stands for one body.
#[test]
fn another_body_with_the_same_key_is_refused_and_the_first_stays() {
    let mut node = TestServer::start(&["--segment-max-age", "200ms"]);
    let target = |durability: &str| format!("/api/v1/ingest?durability={durability}&label=app={durability}");
    let first = "first 0\nfirst 1\n";
    let (json, timed) = ("{\"a\":1}\n", "01");
    let all = ["fast", "durable", "bulk"];
    for durability in all {
        let headers = [("Idempotency-Key", durability)];
        node.post(&target(durability), &headers, first.as_bytes()).expect(200);
    }
    let check = |node: &TestServer, when: &str| {
        for durability in all {
            let headers = [("Idempotency-Key", durability)];
            for other in ["other 0\nother 1\nother 2\n", "first 0\n", "first 0\nfirst 1\nfirst 2\n", "first 0\nfirst 1"]
            {
                let answer = node.post(&target(durability), &headers, other.as_bytes()).expect(422).json();
                assert_eq!(answer["accepted"], 0, "{durability}, {when}");
                assert!(
                    answer["error"].as_str().unwrap().starts_with("this Idempotency-Key was used with another body")
                );
            }
            // With other labels it is another body.
            let elsewhere = format!("{}&label=x=y", target(durability));
            node.post(&elsewhere, &headers, first.as_bytes()).expect(422);
            // The first may be retried with any durability.
            for promise in all {
                let target = format!("/api/v1/ingest?durability={promise}&label=app={durability}");
                node.post(&target, &headers, first.as_bytes()).expect(200);
            }
        }
        assert_eq!(node.count(""), 6, "{when}");
        assert_eq!(String::from_utf8(node.cli(&["query"]).stdout).unwrap(), first.repeat(3), "{when}");
    };
    check(&node, "in the queue");
    node.kill();
    node.restart();
    check(&node, "after a kill");
    node.wait_stored();
    check(&node, "in the store");
    assert!(node.terminate().success());
    node.restart();
    check(&node, "after a stop");
    // The format of the body counts, too.
    let key = [("Idempotency-Key", timed)];
    node.post("/api/v1/ingest", &key, json.as_bytes()).expect(200);
    node.post("/api/v1/ingest", &[key[0], ("Content-Type", "application/x-ndjson")], json.as_bytes()).expect(422);
}

#[test]
fn equal_parts_of_a_long_body_are_stored_once() {
    let mut node = TestServer::start(&[]);
    let text = lines(Config { format: SampleFormat::Text, size: Some(LINE_BYTES - 1), seed: 9 }, 20_000);
    node.post("/api/v1/ingest", &[KEY], &text).expect(200);
    let changed = |at: usize| {
        let mut other = text.clone();
        other[at] = b'#';
        other
    };
    let shorter = &text[..text.len() - LINE_BYTES];
    let longer = [&text[..], &text[..LINE_BYTES]].concat();
    let others = [changed(10), changed(2_500_000), changed(text.len() - 10), shorter.to_vec(), longer];
    for restarts in [false, true] {
        if restarts {
            node.kill();
            node.restart();
        }
        for (number, other) in (0..).zip(&others) {
            let answer = node.post("/api/v1/ingest", &[KEY], other).expect(422).json();
            let sections = [0, 2, 3, 3, 3][number];
            let accepted = answer["accepted"].as_u64().unwrap() * LINE_BYTES as u64;
            assert_eq!(accepted.div_ceil(1 << 20), sections, "body {number}: {answer}");
        }
        assert_eq!(node.count(""), 20_000);
        assert!(node.cli(&["query"]).stdout == text, "other text came back");
    }
}

#[test]
fn of_concurrent_different_bodies_one_is_accepted() {
    let node = TestServer::start(&[]);
    let bodies: Vec<String> = (0..8).map(|body| (0..100).map(|line| format!("{body} {line}\n")).collect()).collect();
    for round in 0..10 {
        let key = format!("round {round}");
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let send = |body: &String| {
                node.post("/api/v1/ingest?durability=durable", &[("Idempotency-Key", &key)], body.as_bytes())
            };
            let threads: Vec<_> = bodies.iter().map(|body| scope.spawn(move || send(body).status)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 7, "{statuses:?}");
        assert_eq!(node.count(""), (round + 1) * 100);
    }
}
