//! Lines with the time that they state: line ports, `forward`, restarts.

use std::io::Write as _;
use std::process::Stdio;

use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

const FROM_LINE: [&str; 4] = ["--time-from", "line", "--time-zone", "Europe/Berlin"];

/// Lines, and the times of those that state one or follow one that does.
const LINES: [(&str, Option<&str>); 7] = [
    ("before any time", None),
    ("2023-11-14 23:13:20,5 one", Some("2023-11-14T22:13:20.500000Z")),
    ("\tat two", Some("2023-11-14T22:13:20.500000Z")),
    ("[14/Nov/2023:22:13:21 +0000] three", Some("2023-11-14T22:13:21.000000Z")),
    ("{\"message\":\"four\",\"ts\":\"2023-11-14T22:13:22.25Z\"}", Some("2023-11-14T22:13:22.250000Z")),
    ("2099-01-01 00:00:00 five", None),
    ("2023-11-14 23:13:19 six", Some("2023-11-14T22:13:19.000000Z")),
];

fn text() -> String {
    LINES.iter().map(|(line, _)| format!("{line}\n")).collect()
}

/// Checks that the records of a stream are [`LINES`] with their times, and that the others have the time of their arrival.
fn check(node: &TestServer, labels: &str, since: &str) {
    let target = format!("/api/v1/query?from=1970-01-01&q={labels}");
    let mut records = node.get(&target).expect(200).objects();
    records.pop();
    assert_eq!(records.len(), LINES.len(), "{labels}: {records:?}");
    for (line, time) in LINES {
        let record = records.iter().find(|record| record["line"] == line).unwrap();
        let have = record["time"].as_str().unwrap();
        match time {
            Some(time) => assert_eq!(have, time, "{line}"),
            None => assert!((since..="2098").contains(&have), "{line}: {have}"),
        }
    }
}

/// The number of records of a stream, of all times.
fn count(node: &TestServer, label: &str) -> u64 {
    let target = format!("/api/v1/count?from=1970-01-01&q={}", label.replace('=', "%3D"));
    node.get(&target).expect(200).json()["count"].as_u64().unwrap()
}

fn now(node: &TestServer) -> String {
    node.post("/api/v1/ingest?label=clock=now", &[], b"now\n").expect(200);
    let records = node.get("/api/v1/query?order=desc&limit=1&q=clock%3Dnow").expect(200).objects();
    records[0]["time"].as_str().unwrap().to_owned()
}

#[test]
fn a_line_port_reads_the_times_of_lines() {
    let mut node = TestServer::start(&FROM_LINE);
    let since = now(&node);
    let text = text();
    for (listener, label) in [("fast", "by=whole"), ("durable", "by=parts")] {
        let mut connection = node.connect(listener);
        connection.write_all(format!("#labels {label}\n").as_bytes()).unwrap();
        // The second time, a part ends inside a time, and one behind the line before a continuation.
        let parts = if label == "by=whole" { vec![text.as_str()] } else { text.split_inclusive("13:2").collect() };
        let mut sent = 0;
        for part in parts {
            connection.write_all(part.as_bytes()).unwrap();
            sent += part.matches('\n').count() as u64;
            wait_until("the lines are found", || count(&node, label) == sent);
        }
    }
    // Another connection has its own line before.
    node.connect("fast").write_all(b"#labels by=other\n\tat two\n").unwrap();
    wait_until("the line is found", || count(&node, "by=other") == 1);
    let other = node.get("/api/v1/query?q=by%3Dother").expect(200).objects();
    assert!(other[0]["time"].as_str().unwrap() >= since.as_str(), "{other:?}");
    for _ in 0..2 {
        check(&node, "by%3Dwhole", &since);
        check(&node, "by%3Dparts", &since);
        node.kill();
        node.restart();
    }
}

#[test]
fn one_listener_alone_reads_the_times_of_lines() {
    let node = TestServer::start(&["--time-from", "durable=line"]);
    let since = now(&node);
    for listener in ["fast", "durable"] {
        let line = format!("#labels by={listener}\n2023-11-14 23:13:20 one\n");
        node.connect(listener).write_all(line.as_bytes()).unwrap();
        wait_until("the line is found", || count(&node, &format!("by={listener}")) == 1);
    }
    let time = |listener: &str| {
        let target = format!("/api/v1/query?from=1970-01-01&q=by%3D{listener}");
        node.get(&target).expect(200).objects()[0]["time"].as_str().unwrap().to_owned()
    };
    assert_eq!(time("durable"), "2023-11-14T23:13:20.000000Z");
    assert!(time("fast") >= since, "{}", time("fast"));
}

#[test]
fn forward_reads_the_times_of_lines() {
    let mut node = TestServer::start(&[]);
    let since = now(&node);
    let address = node.address("fast").to_owned();
    let mut arguments = vec!["forward", "--to", &address, "--label", "by=line"];
    arguments.extend(FROM_LINE);
    let mut forward = bucksaw(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = forward.stdin.take().unwrap();
    let mut sent = 0;
    // Batches end inside a time, and behind the line before a continuation.
    for part in text().split_inclusive("13:2") {
        pipe.write_all(part.as_bytes()).unwrap();
        sent += part.matches('\n').count() as u64;
        wait_until("the lines are found", || count(&node, "by=line") == sent);
    }
    drop(pipe);
    assert!(forward.wait().unwrap().success());
    for _ in 0..2 {
        check(&node, "by%3Dline", &since);
        node.terminate();
        node.restart();
    }
}

#[test]
fn lines_have_the_time_of_their_arrival_unless_asked() {
    let node = TestServer::start(&[]);
    let since = now(&node);
    node.connect("fast").write_all(b"2023-11-14 23:13:20 one\n").unwrap();
    node.forward("fast", &[], b"2023-11-14 23:13:20 two\n");
    wait_until("the lines are found", || node.count("2023") == 2);
    let mut records = node.get("/api/v1/query?q=2023").expect(200).objects();
    records.pop();
    assert!(records.iter().all(|record| record["time"].as_str().unwrap() >= since.as_str()), "{records:?}");
}
