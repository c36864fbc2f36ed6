//! Requests that other web pages make a browser send: all are refused, except opening the page.

use std::io::Write as _;

use crate::client::{Response, StreamingResponse};
use crate::node::TestServer;

/// Sends a request with exactly these headers.
fn send(node: &TestServer, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut stream = node.connect("http");
    let mut request = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    StreamingResponse::read(stream).and_then(StreamingResponse::into_response).unwrap()
}

/// The value of the metric of refusals with this reason.
fn refused(node: &TestServer, reason: &str) -> f64 {
    node.metric(&format!("bucksaw_api_requests_refused_total{{reason=\"{reason}\"}}"))
}

#[test]
fn names_that_are_not_configured_are_refused() {
    let node = TestServer::start(&["--http-allowed-host", "logs.example", "--http-allowed-host", "more.example"]);
    let own = node.address("http").to_owned();
    let port = own.rsplit_once(':').unwrap().1;
    let targets = [
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/-/healthy"),
        ("GET", "/api/v1/query?q=a"),
        ("POST", "/api/v1/forget?node=x"),
        ("GET", "/nothing"),
        ("PUT", "/api/v1/query"),
    ];
    for (method, target) in targets {
        let host = format!("evil.example:{port}");
        let answer = send(&node, method, target, &[("Host", &host)], "").expect(421);
        let text = answer.text();
        assert!(text.contains("--http-allowed-host"), "{text}");
        assert!(!text.trim_end().contains('\n') && answer.json()["error"].is_string(), "{text}");
    }
    for host in [own.clone(), format!("localhost:{port}"), "logs.example".to_owned(), "more.example:1".to_owned()] {
        send(&node, "GET", "/-/healthy", &[("Host", &host)], "").expect(200);
    }
    send(&node, "POST", "/api/v1/ingest", &[("Host", "evil.example")], "a line\n").expect(421);
    assert_eq!(node.count(""), 0);
    assert_eq!(refused(&node, "host"), 8.0);
    let mut node = node;
    node.restart_with(&["--http-allowed-host", "*"]);
    send(&node, "GET", "/api/v1/cluster", &[("Host", "evil.example")], "").expect(200);
}

#[test]
fn pages_of_other_origins_can_neither_write_nor_read() {
    let node = TestServer::start(&[]);
    let host = node.address("http").to_owned();
    let own = format!("http://{host}");
    let post = |headers: &[(&str, &str)]| {
        let headers = [&[("Host", host.as_str()), ("Content-Type", "text/plain")], headers].concat();
        send(&node, "POST", "/api/v1/ingest", &headers, "written by a page\n")
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://evil.example"] {
        post(&[("Origin", origin)]).expect(403);
        for (method, target) in
            [("POST", "/api/v1/forget?node=00000000000000000000000000"), ("OPTIONS", "/api/v1/ingest")]
        {
            send(&node, method, target, &[("Host", &host), ("Origin", origin)], "").expect(403);
        }
    }
    assert_eq!(refused(&node, "origin"), 12.0);
    for site in ["cross-site", "same-site"] {
        post(&[("Sec-Fetch-Site", site)]).expect(403);
        let link = [("Host", host.as_str()), ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate")];
        send(&node, "GET", "/api/v1/query?q=", &link, "").expect(403);
        send(&node, "GET", "/", &link, "").expect(200);
        send(&node, "GET", "/nodes?x=y", &link, "").expect(200);
    }
    assert_eq!(refused(&node, "fetch_site"), 4.0);
    assert_eq!(node.count(""), 0);
    post(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]).expect(200);
    assert_eq!(node.count(""), 1);
}

#[test]
fn every_call_is_guarded() {
    let node = TestServer::start(&[]);
    let host = node.address("http").to_owned();
    let calls = node.get("/api/v1").expect(200).text();
    let words = calls.split(|letter: char| letter.is_whitespace() || letter == ',' || letter == '?');
    let mut targets: Vec<&str> = words.filter(|word| word.starts_with('/')).collect();
    assert!(targets.len() > 10 && targets.contains(&"/api/v1/forget") && targets.contains(&"/metrics"), "{targets:?}");
    targets.extend(["/", "/nodes", "/favicon.svg", "/assets/index.js", "/api/v1", "/nothing"]);
    for target in targets {
        for method in ["GET", "POST", "OPTIONS", "DELETE"] {
            let status = |headers: &[(&str, &str)]| send(&node, method, target, headers, "").status;
            assert_eq!(status(&[("Host", "evil.example")]), 421, "{method} {target}");
            assert_eq!(status(&[("Host", &host), ("Origin", "http://evil.example")]), 403, "{method} {target}");
            assert_eq!(status(&[("Host", &host), ("Sec-Fetch-Site", "cross-site")]), 403, "{method} {target}");
            // WebSockets have an origin, too.
            let upgrade = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")];
            let upgrade = [&[("Host", host.as_str()), ("Origin", "http://evil.example")], &upgrade[..]].concat();
            assert_eq!(status(&upgrade), 403, "{method} {target}");
        }
    }
    assert_eq!(node.count(""), 0);
}
