//! Unmodified clients of other log systems, from `senders/clients`, while their node is killed and started again.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::encode;
use crate::node::{TestServer, run};
use crate::wait::wait_until;

/// Records that each client sends.
const RECORDS: usize = 200;

/// What a client says of its records, and what a node stores of them.
#[derive(Debug)]
struct Record(Value);

impl Record {
    fn line(&self) -> &str {
        self.0["line"].as_str().unwrap_or_default()
    }

    /// Whether all that `stated` says is stored of this record.
    fn has_all_of(&self, stated: &Self) -> bool {
        let has = |part: &str| {
            let stated = stated.0[part].as_object().into_iter().flatten();
            stated.into_iter().all(|(name, value)| self.0[part].get(name) == Some(value))
        };
        self.line() == stated.line() && has("labels") && has("attributes")
    }
}

/// Python with the clients, which `make clients` installs.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/bin/python");
    assert!(python.exists(), "the clients are missing: run `make clients`");
    python
}

fn stored(node: &TestServer) -> Vec<Record> {
    let body = node.get(&format!("/api/v1/query?from={}", encode("2026-01-01T00:00:00Z"))).expect(200).text();
    let objects = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (records, ends): (Vec<Value>, Vec<Value>) = objects.partition(|object| object.get("line").is_some());
    assert_eq!(ends.iter().map(|end| &end["stats"]["partial"]).collect::<Vec<_>>(), [&Value::Bool(false)]);
    records.into_iter().map(Record).collect()
}

/// Runs a client against the HTTP port of a node, which is killed midway if `is_killed`.
fn every_record_is_stored(script: &str, arguments: &[&str], is_killed: bool) {
    every_record_is_stored_by("--listen", script, arguments, is_killed);
}

/// The same with the listener of this flag.
fn every_record_is_stored_by(flag: &str, script: &str, arguments: &[&str], is_killed: bool) {
    // The port must be the same after the restart.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut node = TestServer::start(&[flag, &address]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../senders/clients").join(script);
    let mut command = Command::new(python());
    command.arg(script).args([address.as_str(), &RECORDS.to_string()]).args(arguments);
    let mut client = command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::piped()).spawn().unwrap();
    let mut stated: Vec<Record> = Vec::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        // Libraries print their troubles among what the client states.
        let Ok(record) = serde_json::from_str(&line.unwrap()) else { continue };
        stated.push(Record(record));
        if is_killed && stated.len() == RECORDS / 2 {
            node.restart();
        }
    }
    assert!(client.wait().unwrap().success());
    assert_eq!(stated.len(), RECORDS);
    let check = |found: &[Record]| {
        for record in &stated {
            assert!(found.iter().any(|found| found.has_all_of(record)), "not stored: {record:?}\n{:?}", found.first());
        }
        let strange = found.iter().find(|found| !stated.iter().any(|record| found.has_all_of(record)));
        assert!(strange.is_none(), "never sent: {strange:?}");
    };
    let in_queue = stored(&node);
    check(&in_queue);
    wait_until("the store has all", || {
        let status = node.get("/api/v1/cluster").expect(200).json();
        status["nodes"][0]["queue"]["segments"] == 0
    });
    let in_store = stored(&node);
    check(&in_store);
    assert_eq!(in_store.len(), in_queue.len());
    // Without a restart no client has a reason to repeat.
    assert!(is_killed || in_store.len() == RECORDS, "{} records", in_store.len());
}

#[test]
fn loki() {
    every_record_is_stored("loki.py", &[], true);
}

#[test]
fn otlp_over_http() {
    every_record_is_stored("otlp.py", &["http"], true);
}

#[test]
fn otlp_over_http_on_its_own_port() {
    every_record_is_stored_by("--listen-otlp-http", "otlp.py", &["http"], true);
}

#[test]
fn otlp_over_grpc() {
    every_record_is_stored_by("--listen-otlp", "otlp.py", &["grpc", "fast"], true);
}

#[test]
fn otlp_over_grpc_synced() {
    every_record_is_stored_by("--listen-otlp", "otlp.py", &["grpc", "durable"], true);
}

#[test]
fn elasticsearch() {
    every_record_is_stored("elastic.py", &[], true);
}

#[test]
fn splunk() {
    every_record_is_stored("splunk.py", &[], true);
}

#[test]
fn datadog() {
    every_record_is_stored("datadog.py", &[], true);
}

/// A program of the Debian package `systemd-journal-remote`, which `make clients` installs.
fn systemd(program: &str) -> Command {
    let directories = ["/usr/lib/systemd", "/lib/systemd"];
    let found = directories.iter().map(|directory| Path::new(directory).join(program)).find(|path| path.exists());
    Command::new(found.unwrap_or_else(|| panic!("{program} is missing: run `make clients`")))
}

/// A journal with [`RECORDS`] entries.
fn write_journal(directory: &Path) {
    let mut entries = Vec::new();
    for number in 0..RECORDS {
        let time = 1_795_000_000_000_000_u64 + number as u64;
        let head = format!("__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID={:032x}\n", 1);
        let fields =
            format!("_HOSTNAME=web1\nSYSLOG_IDENTIFIER=shop\nPRIORITY=4\nORDER={number}\nMESSAGE=paid {number}\n\n");
        entries.extend([head, fields].concat().into_bytes());
    }
    let mut writer = systemd("systemd-journal-remote");
    let written = run(writer.arg("-o").arg(directory.join("a.journal")).arg("-"), &entries);
    assert!(written.status.success(), "{written:?}");
}

/// Uploads what it has not uploaded yet. Returns whether that succeeded.
fn upload_journal(directory: &Path, address: &str) -> bool {
    let mut upload = systemd("systemd-journal-upload");
    upload.args([&format!("--url=http://{address}"), "--follow=no"]).arg("-D").arg(directory);
    let state = format!("--save-state={}", directory.join("state").display());
    upload.arg(state).stderr(Stdio::null()).status().unwrap().success()
}

/// It goes on where it was when a node took entries last, and is started again by its service when it fails.
#[test]
fn journal_upload() {
    let directory = tempfile::tempdir().unwrap();
    write_journal(directory.path());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    assert!(!upload_journal(directory.path(), &address), "no node runs yet");
    let mut node = TestServer::start(&["--listen", &address]);
    assert!(upload_journal(directory.path(), &address));
    node.restart();
    assert!(upload_journal(directory.path(), &address));
    let found = stored(&node);
    // Version 252 begins with the last entry that it has sent.
    let last = format!("paid {}", RECORDS - 1);
    assert_eq!(found.iter().filter(|record| record.line() != last).count(), RECORDS - 1);
    for number in 0..RECORDS {
        let want = json!({
            "line": format!("paid {number}"),
            "labels": { "host": "web1", "app": "shop" },
            "attributes": { "severity_text": "warning", "ORDER": number.to_string() },
        });
        assert!(found.iter().any(|record| record.has_all_of(&Record(want.clone()))), "{want}: {:?}", found[0]);
    }
}

/// This client repeats nothing, so its node stays.
#[test]
fn gelf_over_http() {
    every_record_is_stored("gelf.py", &["http"], false);
}
