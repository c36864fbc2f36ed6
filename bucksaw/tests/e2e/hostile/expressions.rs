//! Excessive expressions, parameters and labels.

use std::time::{Duration, Instant};

use super::assert_healthy;
use crate::client::{Response, encode};
use crate::node::TestServer;

/// Limit of a quick reply on a busy machine.
const QUICK: Duration = Duration::from_secs(20);

fn ask(node: &TestServer, expression: &str) -> Response {
    let started = Instant::now();
    let form = format!("from=1h&q={}", encode(expression));
    let kind = [("Content-Type", "application/x-www-form-urlencoded")];
    let answer = node.post("/api/v1/count", &kind, form.as_bytes());
    let shown: String = expression.chars().take(60).collect();
    assert!(started.elapsed() < QUICK, "{shown} took {:?}", started.elapsed());
    answer
}

fn refuses(node: &TestServer, expression: &str, reason: &str) {
    let answer = ask(node, expression).expect(400);
    let text = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(text.contains(reason), "{text}");
    assert!(text.len() < 500 && !text.contains('\n'), "a readable line: {text}");
}

#[test]
fn exploding_regexes_are_answered_or_refused() {
    let mut node = TestServer::start(&[]);
    // Four lines of maximum length, and many short ones.
    let mut text: Vec<u8> = (0..4).flat_map(|_| [vec![b'a'; (1 << 20) - 1], vec![b'\n']].concat()).collect();
    text.extend(b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(20_000));
    node.post("/api/v1/ingest", &[], &text).expect(200);

    refuses(&node, "/(a{1000}){1000}/", "too large: it takes more than");
    refuses(&node, "/((a{100}){100}){100}/", "too large: it takes more than");
    refuses(&node, r"/(?u)\pL{5000}/", "too large: it takes more than");
    let cases = [
        ("/(a*)*b/", 0),
        ("/(a|aa)+$b/", 0),
        ("/(.*)*(.*)*(.*)*x/", 0),
        ("/^(a+)+$/", 20_004),
        ("/(?:a?){500}a{500}/", 4),
        ("/a.{0,200}b.{0,200}c/", 0),
        ("/(a*?)*?(b|$)/", 20_004),
    ];
    for (expression, count) in cases {
        let answer = ask(&node, expression);
        // A refusal must have a reason.
        if answer.status == 400 {
            assert!(answer.text().contains("too large"), "{expression}: {}", answer.text());
        } else {
            assert_eq!(answer.expect(200).json()["count"], count, "{expression}");
        }
    }
    assert_healthy(&mut node);
}

#[test]
fn deep_and_long_expressions_are_refused() {
    let mut node = TestServer::start(&[]);
    let deep = |open: &str, close: &str, times: usize| format!("{}a{}", open.repeat(times), close.repeat(times));
    refuses(&node, &"(".repeat(10_000), "inside each other");
    refuses(&node, &deep("(", ")", 10_000), "inside each other");
    refuses(&node, &deep("NOT ", "", 10_000), "inside each other");
    refuses(&node, &deep("-", "", 10_000), "");
    refuses(&node, &deep("NOT (", ")", 1_000), "inside each other");
    refuses(&node, &format!("/{}/", deep("(", ")", 5_000)), "nest");
    refuses(&node, &format!("/{}/", deep("(", ")*", 1_000)), "nest");
    refuses(&node, &"a OR ".repeat(5_000), "at most 1000 texts");
    refuses(&node, &"x".repeat(1 << 20), "at most 65536 bytes");
    refuses(&node, &format!("/{}/", "x|".repeat(20_000)), "too large: its source may have");
    // The command line prints the reason on standard error.
    let output = node.cli(&["query", "/(a{1000}){1000}/"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    // The error, the expression and a caret.
    assert!(said.contains("too large") && said.lines().count() == 3, "{said}");
    assert_healthy(&mut node);
}

#[test]
fn long_heads_are_refused() {
    let mut node = TestServer::start(&[]);
    for call in ["query", "count", "tail", "histogram", "fields", "context"] {
        let answer = node.get(&format!("/api/v1/{call}?q={}", "x".repeat(1 << 20)));
        assert!([400, 414, 431].contains(&answer.status), "{call}: {}", answer.status);
    }
    let long = "x".repeat(1 << 20);
    let answer = node.call("GET", "/api/v1/count", &[("X-Long", &long)], b"");
    assert!([400, 431].contains(&answer.status), "a long header: {}", answer.status);
    assert_healthy(&mut node);
}

#[test]
fn too_many_and_too_long_labels_are_refused() {
    let mut node = TestServer::start(&[]);
    let post = |labels: &str| node.post(&format!("/api/v1/ingest?{labels}"), &[], b"a line\n");
    let many = |count: usize| (0..count).map(|number| format!("label=k{number}=v")).collect::<Vec<_>>().join("&");
    post(&many(64)).expect(200);
    post(&many(65)).expect(400);
    post(&many(2_000)).expect(400);
    // These do not fit into the request head.
    post(&many(10_000)).expect(414);
    post(&format!("label=k={}", "v".repeat(1_024))).expect(200);
    post(&format!("label=k={}", "v".repeat(1_025))).expect(400);
    post(&format!("label={}=v", "k".repeat(128))).expect(200);
    post(&format!("label={}=v", "k".repeat(129))).expect(400);
    post("label=k").expect(400);
    post("label==v").expect(400);
    post("label=k=%ff").expect(400);
    let answer = post(&format!("label=k={}", "v".repeat(1 << 20)));
    assert!([400, 414, 431].contains(&answer.status), "{}", answer.status);
    assert_eq!(node.count(""), 3);
    assert_healthy(&mut node);
}
