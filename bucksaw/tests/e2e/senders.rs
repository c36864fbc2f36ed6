//! Unmodified clients of other log systems, from `senders/clients`, while their node is killed and started again.

use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

mod built;
mod grpc;
mod page;
mod recorder;
mod replay;
mod running;
mod syslog;

use crate::client::encode;
use crate::node::{TestServer, run};
use crate::ports::free_address;
use crate::wait::wait_until;

/// Records that each client sends.
pub(crate) const RECORDS: usize = 200;

/// What a client says of its records, and what a node stores of them.
#[derive(Clone, Debug)]
pub(crate) struct SenderRecord(pub(crate) Value);

impl SenderRecord {
    pub(crate) fn line(&self) -> &str {
        self.0["line"].as_str().unwrap_or_default()
    }

    /// Whether all that `stated` says is stored of this record.
    pub(crate) fn has_all_of(&self, stated: &Self) -> bool {
        let has = |part: &str| {
            let stated = stated.0[part].as_object().into_iter().flatten();
            stated.into_iter().all(|(name, value)| self.0[part].get(name) == Some(value))
        };
        let has_time = stated.0["time"].is_null() || self.0["time"] == stated.0["time"];
        self.line() == stated.line() && has_time && has("labels") && has("attributes")
    }
}

/// Python with the clients, which `make clients` installs.
pub(crate) fn python() -> PathBuf {
    client_file("bin/python")
}

/// A script of `senders/clients`.
pub(crate) fn client_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../senders/clients").join(name)
}

/// A file that `make clients` installs.
fn client_file(path: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients").join(path);
    assert!(file.exists(), "the clients are missing: run `make clients`");
    file
}

/// A program of Debian, with its libraries.
pub(crate) fn debian_program(path: &str) -> Command {
    let root = client_file("debian");
    let directories = std::fs::read_dir(root.join("usr/lib")).unwrap().map(|entry| entry.unwrap().file_name());
    let arch = directories.map(|name| name.into_string().unwrap()).find(|name| name.ends_with("-linux-gnu")).unwrap();
    let libraries = [format!("usr/lib/{arch}"), format!("lib/{arch}"), "usr/lib/syslog-ng".to_owned()];
    let libraries = libraries.map(|directory| root.join(directory).display().to_string());
    // Debian has moved all programs below `usr`.
    let program = [root.join(path), root.join("usr").join(path)].into_iter().find(|program| program.exists());
    let mut command = Command::new(program.unwrap_or_else(|| panic!("no {path}: run `make clients`")));
    command.env("LD_LIBRARY_PATH", libraries.join(":"));
    command
}

pub(crate) fn stored(node: &TestServer) -> Vec<SenderRecord> {
    let body = node.get(&format!("/api/v1/query?from={}", encode("2026-01-01T00:00:00Z"))).expect(200).text();
    let objects = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (records, ends): (Vec<Value>, Vec<Value>) = objects.partition(|object| object.get("line").is_some());
    assert_eq!(ends.iter().map(|end| &end["stats"]["partial"]).collect::<Vec<_>>(), [&Value::Bool(false)]);
    records.into_iter().map(SenderRecord).collect()
}

/// Runs a client against the HTTP port of a node, which is killed midway if `is_killed`.
fn every_record_is_stored(script: &str, arguments: &[&str], is_killed: bool) {
    every_record_is_stored_by("--listen", script, arguments, is_killed);
}

/// The same with the listener of this flag.
fn every_record_is_stored_by(flag: &str, script: &str, arguments: &[&str], is_killed: bool) {
    let mut command = Command::new(python());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    every_record_of(command, script, arguments, flag, &[], is_killed);
}

/// Runs a script of `senders/clients` with a command. The node has the listener of `flag`, and more arguments. Returns the node.
fn every_record_of(
    mut command: Command,
    script: &str,
    arguments: &[&str],
    flag: &str,
    of_node: &[&str],
    is_killed: bool,
) -> TestServer {
    // The port must be the same after the restart.
    let address = free_address();
    let mut node = TestServer::start(&[&[flag, &address], of_node].concat());
    command.arg(client_script(script)).args([address.as_str(), &RECORDS.to_string()]).args(arguments);
    let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stated: Vec<SenderRecord> = Vec::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        // Libraries print their troubles among what the client states.
        let Ok(record) = serde_json::from_str(&line.unwrap()) else { continue };
        stated.push(SenderRecord(record));
        if is_killed && stated.len() == RECORDS / 2 {
            node.restart();
        }
    }
    assert!(client.wait().unwrap().success());
    assert_eq!(stated.len(), RECORDS);
    all_are_stored(&node, &stated);
    // Without a restart no client has a reason to repeat.
    assert!(is_killed || stored(&node).len() == RECORDS);
    node
}

/// Checks that a node has these records and no others, in its queue and then in its store.
pub(crate) fn all_are_stored(node: &TestServer, stated: &[SenderRecord]) {
    all_are_stored_as(node, stated, |record| record);
}

/// The same for a view of the stored records.
fn all_are_stored_as(node: &TestServer, stated: &[SenderRecord], view: fn(SenderRecord) -> SenderRecord) {
    let stored = |node| stored(node).into_iter().map(view).collect::<Vec<_>>();
    // Some senders do not wait for an answer, or get none.
    wait_until("all records", || {
        let found = stored(node);
        // Records that are repeated do not count twice.
        found.len() >= stated.len()
            && stated.iter().all(|record| found.iter().any(|found| found.line() == record.line()))
    });
    let check = |found: &[SenderRecord]| {
        for record in stated {
            assert!(found.iter().any(|found| found.has_all_of(record)), "not stored: {record:?}\n{:?}", found.first());
        }
        let strange = found.iter().find(|found| !stated.iter().any(|record| found.has_all_of(record)));
        assert!(strange.is_none(), "never sent: {strange:?}");
    };
    let in_queue = stored(node);
    check(&in_queue);
    wait_until("the store has all", || {
        let status = node.get("/api/v1/cluster").expect(200).json();
        status["nodes"][0]["queue"]["segments"] == 0
    });
    let in_store = stored(node);
    check(&in_store);
    assert_eq!(in_store.len(), in_queue.len());
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

/// A journal with [`RECORDS`] entries.
fn write_journal(directory: &Path) {
    write_journal_file(&directory.join("a.journal"), 0..RECORDS);
}

/// A file of a journal with these entries.
pub(crate) fn write_journal_file(file: &Path, numbers: Range<usize>) {
    let mut entries = Vec::new();
    for number in numbers {
        let time = 1_795_000_000_000_000_u64 + number as u64;
        let head = format!("__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID={:032x}\n", 1);
        let fields =
            format!("_HOSTNAME=web1\nSYSLOG_IDENTIFIER=shop\nPRIORITY=4\nORDER={number}\nMESSAGE=paid {number}\n\n");
        entries.extend([head, fields].concat().into_bytes());
    }
    let mut writer = debian_program("lib/systemd/systemd-journal-remote");
    let written = run(writer.arg("-o").arg(file).arg("-"), &entries);
    assert!(written.status.success(), "{written:?}");
}

/// Uploads what it has not uploaded yet. Returns whether that succeeded.
fn upload_journal(directory: &Path, address: &str) -> bool {
    let mut upload = debian_program("lib/systemd/systemd-journal-upload");
    upload.args([&format!("--url=http://{address}"), "--follow=no"]).arg("-D").arg(directory);
    let state = format!("--save-state={}", directory.join("state").display());
    upload.arg(state).stderr(Stdio::null()).status().unwrap().success()
}

/// It goes on where it was when a node took entries last, and is started again by its service when it fails.
#[test]
fn journal_upload() {
    let directory = tempfile::tempdir().unwrap();
    write_journal(directory.path());
    let address = free_address();
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
            "labels": { "host.name": "web1", "service.name": "shop" },
            "attributes": { "severity_text": "warning", "ORDER": number.to_string() },
        });
        assert!(found.iter().any(|record| record.has_all_of(&SenderRecord(want.clone()))), "{want}: {:?}", found[0]);
    }
}

/// This client repeats nothing, so its node stays.
#[test]
fn gelf_over_http() {
    every_record_is_stored("gelf.py", &["http"], false);
}

/// Neither this client nor GELF over TCP knows what arrived, so the node stays.
#[test]
fn gelf_over_tcp() {
    every_record_is_stored_by("--listen-gelf", "gelf.py", &["tcp"], false);
}

#[test]
fn gelf_over_udp_in_chunks() {
    every_record_is_stored_by("--listen-gelf", "gelf.py", &["udp"], false);
}

/// This client has no acknowledgements, so its node stays.
#[test]
fn fluent_logger_for_python() {
    every_record_is_stored_by("--listen-fluent", "fluentd.py", &[], false);
}

/// Node.js with the clients.
pub(crate) fn node_js() -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", client_file("node/node_modules"));
    command
}

/// This SDK drops a batch whose connection breaks, over HTTP and gRPC, so its node stays.
#[test]
fn otlp_over_http_by_node_js() {
    every_record_of(node_js(), "otlp.js", &["http"], "--listen", &[], false);
}

#[test]
fn otlp_over_grpc_by_node_js() {
    every_record_of(node_js(), "otlp.js", &["grpc"], "--listen-otlp", &[], false);
}

/// Its helper gives up when a connection is refused, so its node stays.
#[test]
fn elasticsearch_by_node_js() {
    every_record_of(node_js(), "elastic.js", &[], "--listen", &[], false);
}

/// Messages of Node.js in each form, with acknowledgements and a shared key.
fn fluent_logger_for_node(mode: &str, durability: &str) {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, "a shared key\n").unwrap();
    let of_node = ["--fluent-shared-key-file", key.path().to_str().unwrap(), "--sender-durability", durability];
    every_record_of(node_js(), "fluent.js", &[mode, "a shared key"], "--listen-fluent", &of_node, true);
}

#[test]
fn fluent_messages() {
    fluent_logger_for_node("Message", "fast");
}

#[test]
fn fluent_arrays() {
    fluent_logger_for_node("Forward", "durable");
}

#[test]
fn fluent_compressed_chunks() {
    fluent_logger_for_node("CompressedPackedForward", "durable");
}
