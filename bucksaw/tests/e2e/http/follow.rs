//! `GET /api/v1/tail`: records as they are accepted.

use std::io::Write as _;

use serde_json::Value;

use crate::client::{StreamingResponse, encode, open};
use crate::node::TestServer;
use crate::wait::wait_until;

fn follow(node: &TestServer, filter: &str, accept: &str) -> StreamingResponse {
    let target = format!("/api/v1/tail?q={}", encode(filter));
    let tail = open(node.address("http"), "GET", &target, &[("Accept", accept)]).unwrap();
    assert_eq!(tail.status, 200);
    let kind = tail.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
    assert_eq!(kind, Some(if accept == "text/plain" { "text/plain; charset=utf-8" } else { accept }));
    tail
}

#[test]
fn a_tail_shows_records_as_they_are_accepted() {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"before, wanted\n").expect(200);
    let mut ndjson = follow(&node, "wanted", "application/x-ndjson");
    let mut events = follow(&node, "wanted app=web", "text/event-stream");
    let mut text = follow(&node, "", "text/plain");
    for round in 0..20 {
        let body = format!("other {round}\nwanted {round}\n");
        // By HTTP and TCP alternately.
        if round % 2 == 0 {
            node.post("/api/v1/ingest?label=app=web&durability=durable", &[], body.as_bytes()).expect(200);
        } else {
            let mut stream = node.connect("fast");
            stream.write_all(format!("#labels app=web\n{body}").as_bytes()).unwrap();
        }
        let wanted = format!("wanted {round}");
        let object: Value = serde_json::from_slice(&ndjson.body.line().unwrap()).unwrap();
        assert_eq!((&object["line"], &object["labels"]["app"]), (&wanted.as_str().into(), &"web".into()));
        assert!(object["id"].is_string() && object["time"].is_string(), "{object}");
        let event = events.body.line().unwrap();
        let data = event.strip_prefix(b"data: ").unwrap_or_else(|| panic!("{}", event.escape_ascii()));
        assert_eq!(serde_json::from_slice::<Value>(data).unwrap(), object);
        assert_eq!(events.body.line().unwrap(), b"\n");
        let seen = [text.body.line().unwrap(), text.body.line().unwrap()].concat();
        assert_eq!(String::from_utf8(seen).unwrap(), body);
    }
}

#[test]
fn closed_tails_are_removed() {
    let node = TestServer::start(&[]);
    let tails = |want: &str| {
        wait_until(&format!("{want} clients follow"), || {
            node.get("/metrics").text().contains(&format!("bucksaw_query_tails {want}\n"))
        });
    };
    let followers: Vec<StreamingResponse> = (0..5).map(|_| follow(&node, "", "application/x-ndjson")).collect();
    tails("5");
    drop(followers);
    tails("0");
}

#[test]
fn a_sampled_tail_reports_the_number_of_skipped_records() {
    let node = TestServer::start(&[]);
    let target = "/api/v1/tail?q=wanted&rate=10";
    let mut tail = open(node.address("http"), "GET", target, &[]).unwrap();
    assert_eq!(tail.status, 200);
    let (sent, mut shown, mut skipped) = (5_000_u64, 0_u64, 0_u64);
    let text: String = (0..sent).map(|number| format!("wanted {number}\nother {number}\n")).collect();
    node.post("/api/v1/ingest", &[], text.as_bytes()).expect(200);
    // Every matching record is shown or counted as skipped, and hardly more than requested is shown.
    while shown + skipped < sent {
        let object: Value = serde_json::from_slice(&tail.body.line().unwrap()).unwrap();
        match object["skipped_records"].as_u64() {
            Some(records) => skipped += records,
            None => {
                assert!(object["line"].as_str().unwrap().starts_with("wanted"), "{object}");
                shown += 1;
            }
        }
    }
    assert_eq!(shown + skipped, sent);
    assert!((10..100).contains(&shown), "{shown}");
}
