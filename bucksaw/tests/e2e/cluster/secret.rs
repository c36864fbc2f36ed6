//! A cluster whose secret changes while it runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::members;
use crate::node::TestServer;
use crate::wait::wait_until;

const OLD: &str = "an old secret of this cluster\n";
const NEW: &str = "a new secret of this cluster\n";

fn write(path: &Path, secrets: &str) {
    fs::write(path, secrets).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_secret_of_three_nodes_changes_without_a_stop() {
    let home = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..4).map(|node| home.path().join(format!("{node}.secret"))).collect();
    let start = |file: &PathBuf, join: &str| {
        let mut arguments = vec!["--cluster-secret-file", file.to_str().unwrap()];
        arguments.extend(if join.is_empty() { vec![] } else { vec!["--join", join] });
        TestServer::start(&arguments)
    };
    files.iter().for_each(|file| write(file, OLD));
    let first = start(&files[0], "");
    let join = first.address("cluster").to_owned();
    let nodes = [first, start(&files[1], &join), start(&files[2], &join)];
    let all_are_alive = |count: usize| {
        for node in &nodes {
            wait_until("all are members", || members(node, "alive") == count);
            // An answer of all nodes is complete; `count` fails otherwise.
            assert_eq!(node.count("needle"), 0);
        }
    };
    all_are_alive(3);
    let steps = [format!("{OLD}{NEW}"), format!("{NEW}{OLD}"), NEW.to_owned()];
    for (done, secrets) in steps.iter().enumerate() {
        files.iter().for_each(|file| write(file, secrets));
        for node in &nodes {
            let in_use = || node.log().matches("the changed cluster secret is in use").count();
            wait_until("the secret is in use", || in_use() > done);
        }
        all_are_alive(3);
    }
    let late = start(&files[3], &join);
    all_are_alive(4);
    // A broken file changes nothing.
    write(&files[0], "short");
    wait_until("it is reported", || nodes[0].log().contains("the previous one stays in use"));
    all_are_alive(4);
    for node in nodes.iter().chain([&late]) {
        for refused in ["bucksaw_net_rejected_datagrams_total", "bucksaw_net_refused_connections_total"] {
            assert!(node.metric(refused) < 1.0, "{refused}");
        }
    }
}
