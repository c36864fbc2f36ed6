//! The memory limit: read from nested control groups, reported, and refused if a node cannot work with it.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::{TestServer, bucksaw, serve};
use crate::wait::wait_until;

/// Two nested memory control groups, of which the outer one has the limit. Removed when dropped.
struct NestedCgroups {
    outer: PathBuf,
    inner: PathBuf,
}

impl NestedCgroups {
    /// `None`, with a message, if control groups cannot be created.
    fn new(name: &str, bytes: u64) -> Option<Self> {
        let old = Path::new("/sys/fs/cgroup/memory");
        let (root, file) =
            if old.is_dir() { (old, "memory.limit_in_bytes") } else { (Path::new("/sys/fs/cgroup"), "memory.max") };
        let outer = root.join(format!("bucksaw-memory-{}-{name}", std::process::id()));
        let groups = Self { inner: outer.join("inner"), outer };
        let made = fs::create_dir(&groups.outer)
            .and_then(|()| fs::write(groups.outer.join(file), bytes.to_string()))
            .and_then(|()| fs::create_dir(&groups.inner));
        if let Err(error) = made {
            eprintln!("skipped: no control groups for memory ({error}): this needs root");
            return None;
        }
        Some(groups)
    }

    /// The command in the inner group.
    fn run(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.inner.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for NestedCgroups {
    fn drop(&mut self) {
        // Groups with a process stay.
        let _ = fs::remove_dir(&self.inner);
        let _ = fs::remove_dir(&self.outer);
    }
}

#[test]
fn too_little_memory_is_refused_with_the_detected_limit() {
    let dir = tempfile::tempdir().unwrap();
    let check = |command: &mut Command, words: &[&str]| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
    };
    check(&mut serve(dir.path(), ["--memory-limit", "64MB"]), &["--memory-limit is 64", "at least 128"]);
    check(&mut serve(dir.path(), ["--memory-limit", "9000TB"]), &["--memory-limit is", "lower or omit --memory-limit"]);
    let records = ["--memory-limit", "256MB", "--max-record-bytes", "3MB"];
    check(&mut serve(dir.path(), records), &["--max-record-bytes is 3", "at most 2.0 MB", "give the node 384"]);
    // In KB.
    let serve_in_little_space = serve(dir.path(), [""; 0]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 120000 && exec \"$0\" \"$@\""]);
    shell.arg(serve_in_little_space.get_program()).args(serve_in_little_space.get_args());
    check(&mut shell, &["address space (ulimit -v)", "allows 117", "at least 128"]);
    let Some(groups) = NestedCgroups::new("small", 100 << 20) else { return };
    let outer = groups.outer.display().to_string();
    check(&mut groups.run(&serve(dir.path(), [""; 0])), &[&outer, "allows 100", "at least 128"]);
}

#[test]
fn the_limit_of_an_outer_group_applies_and_is_reported() {
    let Some(groups) = NestedCgroups::new("enough", 300 << 20) else { return };
    // A shell joins the group and then starts the node.
    let dir = tempfile::tempdir().unwrap();
    let mut node = crate::child_process::ChildProcess::start(&mut groups.run(&serve(dir.path(), [""; 0])));
    let mut said = node.stderr_line();
    assert!(said.contains("300.0 MB") && said.contains(&groups.outer.display().to_string()), "{said}");
    while !said.contains("ready") {
        said = node.stderr_line();
    }
    let http = said.split("http=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let status = bucksaw(["status", "-o", "json", "--addr", &format!("http://{http}")]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["nodes"][0]["memory_limit_bytes"], 300 << 20);
    node.send_sigterm();
    let (ended, _, rest) = node.wait_with_output();
    assert!(ended.success(), "{rest}");
}

/// Records of control characters, which JSON escapes to six bytes each.
const LONG_RECORDS: usize = 9;

#[test]
fn unread_answers_of_one_document_stay_within_the_limit() {
    let node = TestServer::start(&["--memory-limit", "128MB", "--segment-max-age", "200ms"]);
    let long = "\u{1}".repeat(1 << 20) + "\n";
    node.post("/api/v1/ingest?label=app=long", &[], long.repeat(LONG_RECORDS).as_bytes()).expect(200);
    let named = |at: usize| format!("{{\"{}{at}\":\"x\",\"short{at}\":1}}\n", "n".repeat(100_000));
    for part in 0..20 {
        let body: String = (0..50).map(|at| named(part * 50 + at)).collect();
        node.post("/api/v1/ingest?label=app=named", &[], body.as_bytes()).expect(200);
    }
    let found = node.get("/api/v1/query?q=app%3Dlong&limit=5").expect(200).objects();
    let middle = found[4]["id"].as_str().unwrap().to_owned();
    let around = || {
        let answer = node.get(&format!("/api/v1/context?id={middle}")).expect(200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let answer = answer.json();
        let records = answer["records"].as_array().unwrap();
        assert!(records.iter().all(|record| record["line"] == long.trim_end_matches('\n')));
        assert_eq!((records.len(), answer["stats"]["matched"].as_u64()), (LONG_RECORDS, Some(9)));
        assert_eq!(records[4]["id"], middle.as_str());
    };
    around();
    let fields = node.get("/api/v1/fields").expect(200).json();
    let names: Vec<&str> = fields["fields"].as_array().unwrap().iter().map(|at| at["name"].as_str().unwrap()).collect();
    let longest = names.iter().map(|name| name.len()).max();
    assert!(names.len() > 100 && longest < Some(300), "{} names, of up to {longest:?} bytes", names.len());
    for (target, times) in [
        (format!("/api/v1/context?id={middle}"), 12),
        ("/api/v1/fields".to_owned(), 12),
        ("/api/v1/histogram?from=1h&buckets=10000&by=@level".to_owned(), 40),
    ] {
        let ask = |_| {
            let mut stalled = node.connect("http");
            stalled.write_all(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
            stalled
        };
        let stalled: Vec<_> = (0..times).map(ask).collect();
        let (mut peak, mut settled) = (0.0, 0);
        wait_until("all answers have begun, and the memory no longer grows", || {
            let used = node.metric("bucksaw_memory_used_bytes");
            settled = if used > peak { 0 } else { settled + 1 };
            peak = used.max(peak);
            let has_begun = |stream: &TcpStream| stream.peek(&mut [0; 1]).is_ok_and(|bytes| bytes > 0);
            stalled.iter().all(has_begun) && settled >= 20
        });
        assert!(peak < f64::from(96 << 20), "{target}: {peak}");
        drop(stalled);
        wait_until("new queries are answered", || node.get(&target).status == 200);
    }
    around();
}

/// A batch of its own stream, whose labels use 60 KB of memory while it is stored.
fn put_labels(node: &TestServer, stream: usize) -> crate::client::Response {
    let labels: Vec<String> = (0..60).map(|at| format!("label=l{at}={stream}{}", "x".repeat(1_000))).collect();
    node.post(&format!("/api/v1/ingest?{}", labels.join("&")), &[], b"a line with labels\n")
}

#[test]
fn a_node_without_index_memory_accepts_nothing_and_loses_nothing() {
    let arguments = |limit: &'static str| ["--memory-limit", limit, "--segment-max-age", "100ms"];
    let mut node = TestServer::start(&arguments("128MB"));
    let (mut lines, mut ready) = (0, String::new());
    wait_until("the memory is used up", || {
        let answer = put_labels(&node, lines);
        lines += usize::from(answer.status == 200);
        // The queue may be full until the store has fetched it.
        ready = node.get("/-/ready").text();
        ready.contains("the index of stored segments takes all of the 4.0 MB")
    });
    assert!((50..120).contains(&lines), "{lines}");
    assert!(ready.contains("raise --memory-limit, or lower --retention-bytes or --retention-age"), "{ready}");
    let refused = put_labels(&node, lines).expect(503);
    assert!(refused.text().contains("the index of stored segments") && refused.header("retry-after").is_some());
    assert_eq!(node.metric("bucksaw_ingest_halted{reason=\"store_index\"}"), 1.0);
    let taken = node.metric("bucksaw_store_index_bytes");
    assert!((f64::from(4 << 20)..f64::from(6 << 20)).contains(&taken), "{taken}");
    let status = node.status();
    assert!(status["state"] == "halted" && status["halted"].as_str().unwrap().contains("--memory-limit"), "{status}");
    assert!(node.log().contains("three quarters"), "{}", node.log());
    assert_eq!(node.count("labels"), lines as u64);
    // With more memory it accepts again.
    node.terminate();
    node.restart_with(&arguments("512MB"));
    wait_until("the index is too large for less memory", || {
        lines += usize::from(put_labels(&node, lines).status == 200);
        node.metric("bucksaw_store_index_bytes") > f64::from(12 << 20)
    });
    node.terminate();
    let (status, log) = TestServer::try_start_in(node.dir(), &arguments("128MB")).err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("a memory limit of 128.0 MB (--memory-limit) leaves it 6.0 MB"), "{log}");
    let least = log.split("at least ").nth(1).and_then(|rest| rest.split(" MB").next()).unwrap().to_owned() + "MB";
    node.restart_with(&["--memory-limit", &least]);
    assert_eq!(node.count("labels"), lines as u64);
}

#[test]
fn a_queue_with_too_many_segments_refuses_appends_and_loses_nothing() {
    let arguments = ["--memory-limit", "128MB", "--segment-max-bytes", "4kB"];
    let mut node = TestServer::start(&[&arguments[..], &["--roles", "ingest"]].concat());
    let batch = "a line of a queue that no store takes\n".repeat(120);
    let mut batches = 0;
    let refused = loop {
        let answer = node.post("/api/v1/ingest", &[], batch.as_bytes());
        if answer.status != 200 {
            break answer.expect(503);
        }
        batches += 1;
        assert!(batches < 5_000, "{} bytes", node.metric("bucksaw_ingest_index_bytes"));
    };
    assert!(batches > 500 && refused.text().contains("too many segments wait in the queue"), "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    let ready = node.get("/-/ready").expect(503).text();
    assert!(ready.starts_with("halted: the queue has too many pending segments"), "{ready}");
    assert_eq!(node.status()["state"], "halted");
    assert_eq!(node.count("queue"), batches * 120);
    // A store fetches them, and the queue accepts again.
    node.restart_with(&arguments);
    wait_until("it accepts", || node.post("/api/v1/ingest", &[], batch.as_bytes()).status == 200);
    assert_eq!(node.count("queue"), (batches + 1) * 120);
}
