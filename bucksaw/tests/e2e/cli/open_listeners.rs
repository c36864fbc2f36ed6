//! Listeners that other machines can reach: refused, or named as a risk.

use crate::node::{TestServer, bucksaw, run, serve};

const REMEDY: &str = "listen on 127.0.0.1, behind a proxy or tunnel that authenticates, or accept this on a network that you \
                      trust with --insecure-listen";

#[test]
fn a_node_does_not_start_with_an_open_listener() {
    let dir = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = run(&mut serve(dir.path(), arguments), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let error = said.lines().find(|line| line.starts_with("bucksaw: ")).unwrap_or_default().to_owned();
        assert!(error.ends_with(REMEDY), "{said}");
        error
    };
    let http = said(&["--listen", "0.0.0.0:0"]);
    assert!(http.contains("--listen 0.0.0.0:") && http.contains("read and write all records"), "{http}");
    let lines = said(&["--listen-fast", "0.0.0.0:0"]);
    assert!(lines.contains("--listen-fast 0.0.0.0:") && !lines.contains("read and write"), "{lines}");
    let cluster = said(&["--listen-cluster", "0.0.0.0:0", "--advertise-cluster", "127.0.0.1:0"]);
    assert!(cluster.contains("act as a node, unless there is a --cluster-secret-file"), "{cluster}");
}

#[test]
fn a_node_that_accepts_the_risk_says_so() {
    let node = TestServer::start(&["--listen-fast", "0.0.0.0:0", "--insecure-listen"]);
    let status = String::from_utf8(node.cli(&["status"]).stdout).unwrap();
    assert!(status.contains("lets other machines connect without authentication or encryption: fast"), "{status}");
    assert!(node.log().contains("can reach this listener without authentication"), "{}", node.log());
    assert!((node.metric("bucksaw_insecure_listeners") - 1.0).abs() < f64::EPSILON);
}

#[test]
fn an_agent_does_not_start_with_an_open_listener() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().to_str().unwrap();
    for flag in ["--listen-syslog", "--listen"] {
        let arguments = ["forward", flag, "0.0.0.0:0", "--state-dir", state, "/nowhere/*.log"];
        let output = run(&mut bucksaw(arguments), b"");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.trim_end().ends_with(REMEDY) && said.contains(flag), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}
