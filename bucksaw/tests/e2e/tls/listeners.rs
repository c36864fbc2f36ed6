//! Every TCP listener speaks TLS, and only TLS.

use std::fs;
use std::io::{Read as _, Write as _};

use super::authority::TestAuthority;
use super::connection::TlsConnection;
use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

/// A node with every listener.
fn node(authority: &TestAuthority) -> TestServer {
    let others = ["--listen-syslog", "--listen-gelf", "--listen-fluent", "--listen-otlp", "--listen-otlp-http"];
    authority.node(&others.map(|flag| [flag, "127.0.0.1:0"]).concat())
}

#[test]
fn records_arrive_at_every_listener_over_tls() {
    let authority = TestAuthority::with_node();
    let (node, ca) = (node(&authority), authority.path("ca.pem"));
    let senders: [(&str, &[u8]); 6] = [
        ("fast", b"needle of fast\n"),
        ("durable", b"#labels app=a\nneedle of durable\nneedle without an end"),
        ("bulk", b"needle of bulk\n"),
        ("syslog", b"<34>1 2026-11-20T22:14:15Z host app - - - needle of syslog\n"),
        ("gelf", b"{\"version\":\"1.1\",\"host\":\"a\",\"short_message\":\"needle of gelf\"}\0"),
        // A message of one event: tag, time, record.
        ("fluent", b"\x93\xa1a\xce\x69\x1f\x00\x00\x81\xa7message\xb0needle of fluent"),
    ];
    for (listener, bytes) in senders {
        let mut connection = TlsConnection::open(node.address(listener), &ca, &[]);
        connection.send(bytes);
        assert!(connection.finish().is_empty(), "{listener}");
    }
    let body =
        "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"body\":{\"stringValue\":\"needle of otlp\"}}]}]}]}";
    let mut connection = TlsConnection::open(node.address("otlp-http"), &ca, &[b"h2", b"http/1.1"]);
    assert_eq!(connection.protocol().as_deref(), Some(&b"http/1.1"[..]));
    let head = "POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n";
    connection.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    let answer = String::from_utf8(connection.read_to_end()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let grpc = TlsConnection::open(node.address("otlp"), &ca, &[b"h2"]);
    assert_eq!(grpc.protocol().as_deref(), Some(&b"h2"[..]));
    wait_until("all are found", || authority.count(&node, "needle") == 8);
}

#[test]
fn every_client_command_speaks_tls() {
    let authority = TestAuthority::with_node();
    let (node, ca) = (authority.node(&[]), authority.file("ca.pem"));
    let forward = ["forward", "--to", node.address("durable"), "--ca", &ca, "--durability", "durable"];
    let sent = run(bucksaw(forward).args(["--label", "app=a"]), b"one line\nlevel=info another line\n");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let file = authority.file("ca.pem");
    assert!(authority.cli(&node, &["import", &file]).status.success());
    let (https, framed) = (format!("https://{}", node.address("http")), format!("bucksaw://{}", node.address("fast")));
    for target in [&https, &framed] {
        let sent = run(&mut bucksaw(["generate", "--rate", "0", "--count", "500", "--to", target, "--ca", &ca]), b"");
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }
    let lines = fs::read_to_string(&file).unwrap().lines().count() as u64;
    assert_eq!(authority.count(&node, ""), 2 + lines + 1_000);
    for command in [&["status"][..], &["labels"], &["fields"], &["histogram"], &["export"]] {
        let output = authority.cli(&node, command);
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // An address without a scheme is called over TLS if a CA is named.
    let query = run(&mut bucksaw(["query", "--addr", node.address("http"), "--ca", &ca, "another"]), b"");
    assert_eq!(query.stdout, b"level=info another line\n");
    // The same file may be a system root.
    let query = run(bucksaw(["query", "--addr", &https, "another"]).env("SSL_CERT_FILE", &ca), b"");
    assert_eq!(query.stdout, b"level=info another line\n");
}

#[test]
fn clients_without_tls_get_the_reason_and_store_nothing() {
    let authority = TestAuthority::with_node();
    let node = node(&authority);
    let answer = |listener: &str, bytes: &[u8]| {
        let (mut stream, mut answer) = (node.connect(listener), Vec::new());
        stream.write_all(bytes).unwrap();
        // A reset ends it, too.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    for listener in ["http", "otlp-http", "otlp", "fast"] {
        let answer = answer(listener, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("use https://"), "{listener}: {answer}");
    }
    for listener in ["fast", "durable", "bulk", "syslog", "gelf", "fluent"] {
        assert_eq!(answer(listener, b"<34>a line in plain\n"), "", "{listener}");
    }
    let garbage = [&[22, 3, 1, 255, 255][..], &[7; 100_000]].concat();
    for listener in ["http", "fast"] {
        assert!(!answer(listener, &garbage).contains("HTTP"));
    }
    let forward = ["forward", "--to", node.address("fast")];
    let mut forward = crate::child_process::ChildProcess::start(&mut bucksaw(forward));
    let said = loop {
        let line = forward.stderr_line();
        if line.contains("no connection to the node") {
            break line;
        }
    };
    assert!(said.contains("this port speaks TLS: give --tls"), "{said}");
    assert_eq!(authority.count(&node, ""), 0);
    assert!(authority.metric(&node, "bucksaw_tls_handshakes_total{result=\"not_tls\"} ") >= 10.0);
    assert!(authority.metric(&node, "bucksaw_tls_handshakes_total{result=\"failed\"} ") >= 2.0);
}
