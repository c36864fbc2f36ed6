//! `POST /api/v1/ingest`: formats, compression, times, labels, durabilities.

use std::io::Write as _;
use std::time::SystemTime;

use bucksaw_generate::{Config, SampleFormat};
use bucksaw_record::Millis;
use bucksaw_record::time::format_rfc3339;
use serde_json::{Value, json};

use crate::client::{Response, encode, gzip};
use crate::corpus::lines;
use crate::node::TestServer;

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");

/// The content type of `curl --data-binary`.
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

#[test]
fn compressed_bodies_are_decompressed() {
    let node = TestServer::start(&[]);
    let text = lines(Config { format: SampleFormat::Json, size: None, seed: 3 }, 10_000);
    let packings: [(&str, &str, Vec<u8>); 8] = [
        ("plain", "identity", text.clone()),
        ("gzip", "gzip", gzip(&text)),
        ("two-gzips", "gzip", [gzip(&text[..1_000]), gzip(&text[1_000..])].concat()),
        ("zstd", "zstd", zstd::encode_all(&text[..], 3).unwrap()),
        ("two-zstds", "zstd", [&text[..1_000], &text[1_000..]].map(|half| zstd::encode_all(half, 1).unwrap()).concat()),
        ("snappy-block", "snappy", snap::raw::Encoder::new().compress_vec(&text).unwrap()),
        ("snappy-frames", "snappy", snappy_frames(&text)),
        ("snappy-framed", "x-snappy-framed", snappy_frames(&text)),
    ];
    for (name, encoding, body) in packings {
        let headers = [("Content-Type", "text/plain"), ("Content-Encoding", encoding)];
        let answer = node.post(&format!("/api/v1/ingest?label=packing={name}"), &headers, &body).expect(200);
        assert_eq!(answer.json(), json!({ "accepted": 10_000, "rejected": 0 }), "{name}");
        assert!(raw(&node, &format!("packing={name}")).body == text, "{name}: other text came back");
        // A truncated body is refused, and nothing of a small one is stored.
        if encoding != "identity" {
            let half = &body[..body.len() / 2];
            let answer = node.post(&format!("/api/v1/ingest?label=half={name}"), &headers, half).expect(400).json();
            assert!(
                answer["error"].as_str().unwrap().starts_with("the body cannot be decompressed"),
                "{name}: {answer}"
            );
            assert_eq!(answer["accepted"].as_u64(), Some(node.count(format!("half={name}"))), "{name}");
        }
    }
}

#[test]
fn formats_of_bodies_are_detected() {
    let node = TestServer::start(&[]);
    let check = |kind: Option<&str>, body: &[u8], want: u64| {
        let headers: Vec<(&str, &str)> = kind.map(|kind| ("Content-Type", kind)).into_iter().collect();
        let answer = node.post("/api/v1/ingest", &headers, body).expect(200).json();
        assert_eq!(answer, json!({ "accepted": want, "rejected": 0 }), "{kind:?}");
    };
    check(None, b"a\nb", 2);
    check(Some("text/plain; charset=utf-8"), b"a\n\nb\n", 3);
    check(Some(FORM.1), b"a=1&b=2\n", 1);
    check(Some("application/octet-stream"), b"\0\xff\n", 1);
    check(Some("application/x-ndjson"), b"{}\n\n \r\n{\"a\":1}", 2);
    check(Some("application/json"), b"{\"a\":1}\n", 1);
    check(Some("text/plain"), b"", 0);
    check(Some("application/x-ndjson"), b"\n\n", 0);
    assert_eq!(node.count(""), 10);
}

#[test]
fn event_times_are_read() {
    let node = TestServer::start(&[]);
    let now = now_ms();
    let past = now - 600_000;
    let shown = |ms: u64| format_rfc3339(Millis(ms), 0);
    let seconds = past / 1_000;
    let cases: Vec<(String, Option<String>)> = vec![
        (format!(r#"{{"time":"{}"}}"#, shown(past)), Some(shown(past))),
        (format!(r#"{{"timestamp":{seconds}}}"#), Some(shown(seconds * 1_000))),
        (format!(r#"{{"@timestamp":{past}}}"#), Some(shown(past))),
        (format!(r#"{{"ts":{seconds}.25}}"#), Some(shown(seconds * 1_000 + 250))),
        (format!(r#"{{"ts":"{past}456"}}"#), Some(shown(past).replace("000Z", "456Z"))),
        (r#"{"time":"2001-02-03T04:05:06.789012+02:00"}"#.to_owned(), Some("2001-02-03T02:05:06.789012Z".to_owned())),
        // Times slightly ahead are kept; those far ahead are clamped.
        (format!(r#"{{"time":{}}}"#, now + 60_000), Some(shown(now + 60_000))),
        (format!(r#"{{"time":{}}}"#, now + 2 * Millis::AHEAD_MS_MAX), None),
        (r#"{"time":"yesterday"}"#.to_owned(), None),
        (r#"{"message":"no time"}"#.to_owned(), None),
    ];
    let body: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let answer = node.post("/api/v1/ingest", &[NDJSON], body.as_bytes()).expect(200);
    let arrived = shown(now)..=shown(now_ms());
    assert_eq!(answer.json(), json!({ "accepted": cases.len(), "rejected": 0 }));
    let mut records = node.get("/api/v1/query?from=1970-01-01").expect(200).objects();
    records.pop();
    assert_eq!(records.len(), cases.len());
    assert!(records.is_sorted_by_key(|record| record["time"].as_str().unwrap().to_owned()), "{records:?}");
    for (line, time) in cases {
        let record = records.iter().find(|record| record["line"] == line.as_str()).unwrap();
        let have = record["time"].as_str().unwrap();
        match time {
            Some(time) => assert_eq!(have, time, "{line}"),
            None => assert!(arrived.contains(&have.to_owned()), "{line}: {have} is not in {arrived:?}"),
        }
    }
    let metrics = node.get("/metrics").expect(200).text();
    assert!(metrics.contains("bucksaw_ingest_times_replaced_total{source=\"http\"} 1\n"), "{metrics}");
}

#[test]
fn the_times_of_lines_are_read() {
    let node = TestServer::start(&[]);
    let body = b"2023-11-14 23:13:20.25 one\n\tat two\n[14/Nov/2023:22:13:21 +0000] three\n";
    let path = "/api/v1/ingest?time_from=line&time_zone=Europe/Berlin";
    let key = ("idempotency-key", "a key");
    for _ in 0..2 {
        assert_eq!(node.post(path, &[key], body).expect(200).json(), json!({ "accepted": 3, "rejected": 0 }));
    }
    let mut records = node.get("/api/v1/query?from=1970-01-01").expect(200).objects();
    records.pop();
    let times: Vec<&str> = records.iter().map(|record| record["time"].as_str().unwrap()).collect();
    assert_eq!(times, ["2023-11-14T22:13:20.250000Z", "2023-11-14T22:13:20.250000Z", "2023-11-14T22:13:21.000000Z"]);
    node.post("/api/v1/ingest", &[key], body).expect(422);
    node.post("/api/v1/ingest?time_from=mars", &[], body).expect(400);
    node.post("/api/v1/ingest?time_zone=UTC", &[], body).expect(400);
    node.post("/api/v1/ingest?time_from=line&time_zone=Mars", &[], body).expect(400);
}

#[test]
fn invalid_lines_are_reported() {
    let node = TestServer::start(&[]);
    let body = b"{\"a\":1}\nnonsense\n\n[1]\n{\"b\":2}\n{\"c\":\"\xff\"}\n{\"d\":4";
    let answer = node.post("/api/v1/ingest", &[NDJSON], body).expect(200).json();
    assert_eq!((&answer["accepted"], &answer["rejected"]), (&json!(2), &json!(4)));
    let lines: Vec<&Value> = answer["errors"].as_array().unwrap().iter().map(|error| &error["line"]).collect();
    assert_eq!(lines, [2, 4, 6, 7]);
    let errors = answer["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["error"].as_str().unwrap().starts_with("not a JSON object: ")), "{answer}");
    let answer = node.post("/api/v1/ingest", &[NDJSON], b"nonsense\n").expect(400).json();
    assert!(answer["error"].as_str().unwrap().starts_with("no record was accepted: line 1: "), "{answer}");
    // Of many, the first few are reported.
    let answer =
        node.post("/api/v1/ingest", &[NDJSON], &[&b"{}\n"[..], &b"x\n".repeat(1_000)].concat()).expect(200).json();
    assert_eq!((&answer["rejected"], answer["errors"].as_array().unwrap().len()), (&json!(1_000), 10));
    assert_eq!(node.count(""), 3);
    let metrics = node.get("/metrics").expect(200).text();
    assert!(metrics.contains("bucksaw_ingest_rejected_records_total{source=\"http\"} 1005\n"), "{metrics}");
}

#[test]
fn labels_apply_to_every_record() {
    let node = TestServer::start(&[]);
    let labels = format!("label=app=web&label={}&label=none=", encode("where=a, \"b\" = ü"));
    let answer = node.post(&format!("/api/v1/ingest?{labels}"), &[], b"one\ntwo\n").expect(200);
    assert_eq!(answer.json()["accepted"], 2);
    node.post("/api/v1/ingest", &[], b"without\n").expect(200);
    let records = node.get("/api/v1/query").expect(200).objects();
    let with = json!({ "app": "web", "where": "a, \"b\" = ü" });
    let have: Vec<(&Value, &Value)> = records[..3].iter().map(|record| (&record["line"], &record["labels"])).collect();
    for want in [(&json!("one"), &with), (&json!("two"), &with), (&json!("without"), &json!({}))] {
        assert!(have.contains(&want), "{want:?} is not among {have:?}");
    }
    assert_eq!((node.count("app=web"), node.count("app!=web")), (2, 1));
    assert_eq!(node.count("where=\"a, \\\"b\\\" = ü\""), 2);
}

#[test]
fn acknowledged_records_survive_a_kill() {
    let mut node = TestServer::start(&[]);
    let text = lines(Config { format: SampleFormat::Text, size: None, seed: 4 }, 3_000);
    for durability in ["fast", "durable", "bulk"] {
        let target = format!("/api/v1/ingest?durability={durability}&label=durability={durability}");
        assert_eq!(node.post(&target, &[], &text).expect(200).json()["accepted"], 3_000, "{durability}");
        if durability == "bulk" {
            // `bulk` is acknowledged when stored.
            assert_eq!(raw(&node, "durability=bulk").body, text);
            assert!(node.status()["store"]["records"].as_u64().unwrap() >= 3_000);
        }
    }
    node.kill();
    node.restart();
    for durability in ["fast", "durable", "bulk"] {
        assert!(raw(&node, &format!("durability={durability}")).body == text, "{durability}");
    }
    assert_eq!(node.count(""), 9_000);
}

/// The matching records, raw.
fn raw(node: &TestServer, filter: &str) -> Response {
    node.call("GET", &format!("/api/v1/query?q={}", encode(filter)), &[("Accept", "text/plain")], b"").expect(200)
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn snappy_frames(text: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(text).unwrap();
    encoder.into_inner().unwrap()
}
