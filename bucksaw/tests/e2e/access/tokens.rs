//! `bucksaw token`, and files that are not valid.

use std::fs;

use super::auth_node::AuthNode;
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

#[test]
fn tokens_are_listed_without_the_tokens() {
    let tokens: [(&str, &[&str]); 2] = [
        (
            "agents",
            &[
                "--scope",
                "ingest",
                "--label",
                "tenant=a",
                "--expires",
                "2030-01-01T00:00:00Z",
                "--bytes-per-second",
                "1M",
            ],
        ),
        ("old", &["--scope", "read", "--expires", "2020-01-01T00:00:00Z", "--queries-max", "2"]),
    ];
    let node = AuthNode::start(&[], &tokens);
    let file = node.auth_file();
    let run = bucksaw(["token", "list", "--auth-file"]).arg(&file).output().unwrap();
    let listed = String::from_utf8(run.stdout).unwrap();
    for part in ["agents", "tenant=a", "2030-01-01T00:00:00.000000Z", "1048576 bytes/s", "(expired)", "2 queries"] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    assert!(!listed.contains("bks_") && !fs::read_to_string(&file).unwrap().contains("bks_"));
    let refused = |arguments: &[&str]| {
        let run = bucksaw(arguments).arg("--auth-file").arg(&file).output().unwrap();
        assert!(!run.status.success() && run.stdout.is_empty(), "{run:?}");
        String::from_utf8(run.stderr).unwrap()
    };
    assert!(refused(&["token", "add", "old", "--scope", "read"]).contains("another entry has the name old"));
    assert!(refused(&["token", "revoke", "other"]).contains("has no token other"));
    assert!(refused(&["token", "add", "x", "--scope", "write"]).contains("--scope"));
}

#[test]
fn a_node_needs_a_valid_file_to_start_and_keeps_the_last_valid_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.toml");
    fs::write(&file, "[[token]]\nname = \"a\"\nlabel = 1\n").unwrap();
    let Err((status, log)) =
        TestServer::try_start_in(&dir.path().join("data"), &["--auth-file", file.to_str().unwrap()])
    else {
        panic!("it starts with a wrong file")
    };
    assert!(!status.success() && log.contains("auth.toml: line 3: unknown field `label`"), "{log}");
    let node = AuthNode::start(&[], &[("admin", &["--scope", "admin"])]);
    let valid = fs::read_to_string(node.auth_file()).unwrap();
    fs::write(node.auth_file(), format!("{valid}\n[[token]]\n")).unwrap();
    let token = node.token("admin");
    wait_until("the node reports the wrong file", || {
        node.call("http", "GET", "/metrics", Some(&token), &[], "").1.contains("\nbucksaw_auth_file_invalid 1")
    });
    let status = node.call("http", "GET", "/api/v1/cluster", Some(&token), &[], "").1;
    assert!(status.contains("missing field"), "{status}");
    fs::write(node.auth_file(), valid).unwrap();
    wait_until("the node uses the file again", || {
        node.call("http", "GET", "/metrics", Some(&token), &[], "").1.contains("\nbucksaw_auth_file_invalid 0")
    });
}

#[test]
fn settings_show_the_file_and_not_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "bks_secret\n").unwrap();
    let run = bucksaw(["config", "show", "query"])
        .env("BUCKSAW_TOKEN_FILE", &file)
        .env("BUCKSAW_TOKEN", "bks_secret")
        .output()
        .unwrap();
    let shown = String::from_utf8(run.stdout).unwrap();
    assert!(shown.contains("token-file") && !shown.contains("bks_secret"), "{shown}");
}
