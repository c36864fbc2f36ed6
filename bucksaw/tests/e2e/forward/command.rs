//! A command whose output is shipped.

use serde_json::Value;

use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

/// The agent with a shell command.
fn agent(node: &TestServer, arguments: &[&str], script: &str) -> std::process::Command {
    let mut command = bucksaw(["forward", "--to", node.address("fast")]);
    command.args(arguments).args(["--", "/bin/sh", "-c", script]);
    command
}

fn records(node: &TestServer) -> Vec<Value> {
    let answer = node.get("/api/v1/query?from=30d&q=").expect(200).objects();
    answer.into_iter().filter(|record| record.get("line").is_some()).collect()
}

#[test]
fn both_outputs_are_shipped_and_the_exit_code_is_that_of_the_command() {
    let node = TestServer::start(&[]);
    let script = "echo out; echo err >&2; printf end; exit 7";
    let output = run(&mut agent(&node, &["--label", "app=shop"], script), b"");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b""[..]), "{output:?}");
    let mut found: Vec<(String, String)> = Vec::new();
    for record in records(&node) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let labels = &record["labels"];
        assert_eq!((&labels["app"], &labels["service.name"]), (&"shop".into(), &"sh".into()), "{record}");
        assert!(labels["host.name"].is_string(), "{record}");
        found.push((text(&record["line"]), text(&record["attributes"]["log.iostream"])));
    }
    found.sort();
    let want = [("end", "stdout"), ("err", "stderr"), ("out", "stdout")];
    assert_eq!(found, want.map(|(line, stream)| (line.to_owned(), stream.to_owned())));
}

#[test]
fn signals_are_passed_on() {
    let node = TestServer::start(&[]);
    let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let agent = ChildProcess::start(&mut agent(&node, &["--label", "service.name=mine"], script));
    wait_until("the command runs", || node.count("service.name=mine ready") == 1);
    agent.send_sigterm();
    let (status, _, said) = agent.wait_with_output();
    assert_eq!(status.code(), Some(3), "{said}");
    assert_eq!(node.count("service.name=mine bye"), 1);
}

#[test]
fn a_signal_reaches_the_children_of_the_command_and_a_second_one_kills() {
    let node = TestServer::start(&[]);
    let script = "sleep 1000 & trap 'echo stopped' TERM; echo child $!; wait; trap '' TERM; echo deaf; while :; do sleep 0.1; done";
    let agent = ChildProcess::start(&mut agent(&node, &[], script));
    wait_until("the command runs", || node.count("child") == 1);
    agent.send_sigterm();
    wait_until("the command ignores further signals", || node.count("stopped") == 1 && node.count("deaf") == 1);
    let child = records_with(&node, "child");
    let child = child.split_whitespace().nth(1).unwrap();
    let is_gone = || std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    wait_until("its child has ended", || is_gone() || !std::path::Path::new(&format!("/proc/{child}")).exists());
    agent.send_sigterm();
    let (status, _, said) = agent.wait_with_output();
    assert_eq!(status.code(), Some(128 + 9), "{said}");
    assert!(said.contains("the command has not ended: killed at the second signal"), "{said}");
}

#[test]
fn a_child_that_keeps_the_output_open_does_not_hold_the_agent() {
    let node = TestServer::start(&[]);
    let output = run(&mut agent(&node, &[], "sleep 1000 & echo $! >&2; echo done; exit 4"), b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("processes that the command started keep its output open"), "{said}");
    assert_eq!(node.count("done"), 1);
    let child = records_with(&node, "log.iostream=stderr");
    let killed = std::process::Command::new("/bin/kill").arg(child.trim()).status().unwrap();
    assert!(killed.success(), "{child}");
}

#[test]
fn flags_without_effect_on_a_command_are_refused() {
    let check = |arguments: &[&str], want: &str| {
        let output = run(bucksaw(["forward"]).args(arguments), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.trim_end()), (Some(2), want), "{arguments:?}");
    };
    check(
        &["--exclude", "a", "--", "true"],
        "bucksaw: --exclude is for files and has no effect on a command: leave it out",
    );
    check(
        &["--state-dir", "a", "--", "true"],
        "bucksaw: --state-dir is for files, listeners and the journal and has no effect on a command: leave it out",
    );
    check(&["--", ""], "bucksaw: the command after -- is empty: name a program");
    // They may be in the environment for another agent.
    let output = run(bucksaw(["forward", "--", ""]).env("BUCKSAW_STATE_DIR", "/x"), b"");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is empty"), "{output:?}");
}

#[test]
fn a_killed_and_a_missing_command_are_reported() {
    let node = TestServer::start(&[]);
    let output = run(&mut agent(&node, &[], "echo last words; kill -9 $$"), b"");
    assert_eq!(output.status.code(), Some(128 + 9), "{output:?}");
    assert_eq!(node.count("last words"), 1);
    let check = |program: &str, code: i32, want: &str| {
        let output = run(bucksaw(["forward", "--to", "127.0.0.1:1", "--", program]).env("PATH", "/bin"), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(want), "{said}");
    };
    check("no-such-command", 127, "cannot run no-such-command: No such file or directory");
    check("/etc/passwd", 126, "cannot run /etc/passwd: Permission denied");
    let both = run(&mut bucksaw(["forward", "a.log", "--", "true"]), b"");
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_node_that_is_away_blocks_the_command_in_bounded_memory() {
    let mut node = TestServer::start(&[]);
    let address = node.address("fast").to_owned();
    node.kill();
    let lines = 600_000;
    let generate = format!("{} generate --count {lines} --rate 0 --seed 3", env!("CARGO_BIN_EXE_bucksaw"));
    // The last line has the peak memory of the agent.
    let script = format!("{generate}; head -c 3000000 /dev/zero | tr '\\0' x; echo; grep VmHWM /proc/$PPID/status");
    let mut command = bucksaw(["forward", "--to", &address, "--", "/bin/sh", "-c", &script]);
    let mut agent = ChildProcess::start(&mut command);
    assert!(agent.stderr_line().contains("no connection to the node"));
    node.restart_with(&["--listen-fast", &address]);
    let (status, _, said) = agent.wait_with_output();
    assert_eq!(status.code(), Some(0), "{said}");
    // A line of 3 MB is cut at each MiB.
    assert_eq!(node.count(""), lines + 3 + 1);
    let peak = records_with(&node, "VmHWM");
    let kilobytes: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 64 << 10, "{peak}");
}

/// The one line that matches.
fn records_with(node: &TestServer, filter: &str) -> String {
    let answer = node.get(&format!("/api/v1/query?from=30d&q={filter}")).expect(200).objects();
    let lines: Vec<&str> = answer.iter().filter_map(|record| record["line"].as_str()).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0].to_owned()
}
