//! Clusters: `make cluster`, and what `status` reports.

mod damaged;
mod duplicate_id;
mod erase;
mod retry;
mod secret;
mod watch;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::child_process::ChildProcess;
use crate::client::call;
use crate::node::{TestServer, bucksaw};
use crate::wait::{wait_for, wait_until};

/// The flags of all nodes of this test: replication factor 2, and a secret that no other test has. Nodes that look for a member
/// that has ended would otherwise join a node of another test that got its port.
fn flags() -> Vec<String> {
    let test = thread::current().name().unwrap_or_default().replace("::", "-");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.secret"));
    fs::write(&file, format!("the secret of the cluster of {test}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    ["--replication-factor", "2", "--cluster-secret-file", file.to_str().unwrap()].map(str::to_owned).to_vec()
}

/// The flags of a test, and further ones.
fn flags_and<'a>(flags: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    flags.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// A cluster with replication factor 2.
fn start(size: usize) -> Vec<TestServer> {
    start_with(size, &[])
}

/// A cluster with replication factor 2 and further flags.
fn start_with(size: usize, more: &[&str]) -> Vec<TestServer> {
    let flags = flags();
    let first = TestServer::start(&flags_and(&flags, more));
    let join = ["--join", first.address("cluster")].map(str::to_owned);
    let joining = [&flags[..], &join].concat();
    let mut nodes = vec![first];
    nodes.extend((1..size).map(|_| TestServer::start(&flags_and(&joining, more))));
    for node in &nodes {
        wait_until("all are members", || members(node, "alive") == size);
    }
    nodes
}

fn members(node: &TestServer, state: &str) -> usize {
    let cluster = node.get("/api/v1/cluster").expect(200).json();
    cluster["nodes"].as_array().unwrap().iter().filter(|node| node["membership"] == state).count()
}

fn id(node: &TestServer) -> String {
    let cluster = node.get("/api/v1/cluster").expect(200).json();
    cluster["queried_node"].as_str().unwrap().to_owned()
}

/// The lines that `bucksaw status` prints.
fn status(node: &TestServer) -> Vec<String> {
    let output = node.cli(&["status"]);
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn status_reports_what_needs_attention() {
    let mut nodes = start(3);
    let [first, second, third] = &mut nodes[..] else { unreachable!() };
    let lines = wait_for("all is well", || Some(status(first)).filter(|lines| lines.len() == 5));
    assert_eq!(lines[0], "3 nodes, all well: replication factor 2, 3 stores alive", "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 120), "{lines:#?}");
    let lost = format!("- {} ({}) is down since", id(third), third.address("http"));
    third.kill();
    let lines = wait_for("the loss is reported", || Some(status(first)).filter(|lines| lines[1].starts_with(&lost)));
    assert_eq!(lines[0], "3 nodes, 1 problem:");
    // The node that is down comes first.
    assert!(lines[3].contains(&id_of(&lost)) && lines[3].contains("down"), "{lines:#?}");
    second.kill();
    let missing = "- 1 of 2 stores is alive: until 1 more joins, nothing is gathered";
    wait_until("missing replicas are reported", || status(first)[1].starts_with(missing));
    let counted = || first.metric("bucksaw_cluster_members");
    assert!((counted() - 3.0).abs() < f64::EPSILON, "{}", counted());
}

fn id_of(lost: &str) -> String {
    lost.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_lost_node_can_be_forgotten() {
    let mut nodes = start(3);
    let [first, second, third] = &mut nodes[..] else { unreachable!() };
    let lost = id(third);
    let forget = |node: &TestServer, id: &str| node.cli(&["forget", id]);
    let refused = forget(first, &lost);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("the node is alive: stop it first"), "{said}");
    third.kill();
    wait_until("it is down", || members(first, "down") == 1 && members(second, "down") == 1);
    let done = forget(first, &lost);
    assert_eq!((done.status.code(), &*done.stderr), (Some(0), &b""[..]));
    wait_until("all have forgotten it", || {
        [&*first, &*second].iter().all(|node| status(node)[0].starts_with("2 nodes, all well"))
    });
    let again = forget(second, &lost);
    assert!(String::from_utf8(again.stderr).unwrap().contains("no node has this id"));
    let wrong = first.call("POST", "/api/v1/forget?node=x", &[], b"");
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert_eq!(first.get("/api/v1/forget?node=x").status, 405);
}

#[test]
fn the_sample_cluster_works_as_its_output_says() {
    let home = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster.sh");
    let mut command = Command::new(script);
    command
        .env("BUCKSAW_BIN", env!("CARGO_BIN_EXE_bucksaw"))
        .env("BUCKSAW_CLUSTER_DIR", home.path())
        .env("BUCKSAW_CLUSTER_PORT", "0");
    let mut cluster = ChildProcess::start(&mut command);
    let mut nodes = Vec::new();
    let mut tries = Vec::new();
    loop {
        let line = cluster.line();
        if let Some(rest) = line.strip_prefix("  node ") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            nodes.push((words[1].trim_start_matches("http://").to_owned(), words[3].parse::<i32>().unwrap()));
        }
        if line.starts_with("  ") && line.contains(" --addr ") {
            tries.push(line.trim().to_owned());
        }
        if line.starts_with("Ctrl-C") {
            break;
        }
    }
    assert_eq!((nodes.len(), tries.len()), (3, 4), "{nodes:?} {tries:?}");
    // The printed commands work.
    let typed = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let output = bucksaw(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let cluster_of = |at: &str| -> Option<Value> {
        let answer = call(at, "GET", "/api/v1/cluster", &[], b"").ok()?;
        Some(answer.json())
    };
    for (at, _) in &nodes {
        wait_until("all three are members", || {
            cluster_of(at).is_some_and(|cluster| {
                cluster["nodes"].as_array().unwrap().iter().filter(|node| node["membership"] == "alive").count() == 3
            })
        });
        wait_until("the sample arrives", || {
            let counted = call(at, "GET", "/api/v1/count?q=app%3Dsample", &[], b"").unwrap().json();
            counted["count"].as_u64().unwrap() > 10
        });
    }
    assert!(typed(&tries[0]).starts_with("3 nodes, all well: replication factor 2, 3 stores alive\n"));
    wait_until("the sample has errors", || {
        bucksaw(tries[1].split_whitespace().skip(1)).output().unwrap().status.code() == Some(0)
    });
    // One node is lost; answers come from the others.
    let third = rustix::process::Pid::from_raw(nodes[2].1).unwrap();
    rustix::process::kill_process(third, rustix::process::Signal::KILL).unwrap();
    wait_until("the loss is reported", || typed(&tries[2]).contains(&format!("({}) is down since", nodes[2].0)));
    // Records that only it had are missing; the sample continues.
    wait_until("errors are found again", || {
        bucksaw(tries[3].split_whitespace().skip(1)).output().unwrap().status.code() == Some(0)
    });

    cluster.send_sigterm();
    let (_, _, said) = cluster.wait_with_output();
    wait_until("all have ended", || {
        nodes.iter().all(|(_, pid)| {
            let pid = rustix::process::Pid::from_raw(*pid).unwrap();
            rustix::process::test_kill_process(pid).is_err()
        })
    });
    assert!(!said.contains("panicked"), "{said}");
}
