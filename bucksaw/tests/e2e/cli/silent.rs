//! Nodes that do not answer: a stopped process, and a port of another program.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Output;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

/// Every command that calls a node.
const COMMANDS: [&[&str]; 9] = [
    &["query"],
    &["query", "-c"],
    &["tail"],
    &["status"],
    &["forget", "01M810FZ9S14ZNRYQCQM000000"],
    &["context", "01M810FZ9S14ZNRYQCQM000000"],
    &["fields"],
    &["labels"],
    &["histogram"],
];

/// Runs every command at the same time; each must end by itself.
fn run_all(addr: &str, arguments: &[&str]) -> Vec<Output> {
    thread::scope(|scope| {
        let start = |words: &'static [&str]| {
            scope.spawn(move || bucksaw(words).args(["--addr", addr]).args(arguments).output().unwrap())
        };
        let running: Vec<_> = COMMANDS.into_iter().map(start).collect();
        running.into_iter().map(|command| command.join().unwrap()).collect()
    })
}

fn check(addr: &str, arguments: &[&str], want: &str) {
    for (words, output) in COMMANDS.iter().zip(run_all(addr, arguments)) {
        let said = String::from_utf8(output.stderr).unwrap();
        let code = if matches!(words[0], "status" | "forget") { 1 } else { 2 };
        assert_eq!((output.status.code(), &*output.stdout), (Some(code), &b""[..]), "{words:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(want), "{words:?}: {said}");
        assert!(said.contains("check --addr"), "{words:?}: {said}");
    }
}

/// Whether the state of every thread of a process is `T`: the field after the name.
fn threads_are_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).unwrap())
        .all(|stat| stat.contains(") T "))
}

#[test]
fn a_stopped_node_is_given_up() {
    let node = TestServer::start(&[]);
    let pid = Pid::from_raw(i32::try_from(node.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // Its threads stop one by one, and one that still runs would answer.
    wait_until("the node is stopped", || threads_are_stopped(node.pid()));
    check(&node.url(), &["--timeout", "300ms"], "no complete answer from");
    // Without a limit of the user, it is given up after the health check.
    check(&node.url(), &[], "accepts connections and does not answer: is it a node, and is its process stopped?");
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(node.cli(&["status"]).status.code(), Some(0));
}

#[test]
fn a_listener_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    check(&addr, &["--timeout", "200ms"], "within 200 ms (--timeout)");
}

#[test]
fn a_port_of_another_protocol_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The client may be gone.
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n");
            open.push(stream);
        }
    });
    check(&addr, &[], "does not answer in HTTP: check --addr; the HTTP API of a node has port 7650");
}

#[test]
fn a_slow_answer_is_waited_for() {
    // The limit counts from the start, and an answer within it is complete.
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"one\n").expect(200);
    let output = node.cli(&["query", "--timeout", "60s"]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"one\n"[..]));
}
