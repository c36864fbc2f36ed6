//! `generate --to`: each line is one record over each protocol, also if the node restarts.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::child_process::ChildProcess;
use crate::client::call;
use crate::node::{TestServer, bucksaw, run};
use crate::wait::{wait_for, wait_until};

/// The columns of a rate log, by name, without those of its first line.
fn column(log: &Path, name: &str) -> Vec<u64> {
    let text = fs::read_to_string(log).unwrap();
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|other| other == name).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

/// Sends lines while the node is killed and restarted at the same address.
fn restart_during_load(listener: &str, flag: &str, scheme: &str) {
    const LINES: u64 = 60_000;
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("rate.csv");
    let mut node = TestServer::start(&[flag, "127.0.0.1:0"]);
    let address = node.address(listener).to_owned();
    let to = format!("{scheme}://{address}");
    let mut command = bucksaw(["generate", "--to", &to, "--label", "app=load", "--rate", "15000", "--size", "200"]);
    command.args(["--count", &LINES.to_string(), "--listen", "127.0.0.1:0", "--rate-log"]).arg(&log);
    let mut generate = ChildProcess::start(&mut command);
    let metrics = wait_for("it tells its address", || {
        let line = generate.stderr_line();
        line.split_once("address=").map(|(_, address)| address.trim().to_owned())
    });
    wait_until("some lines have arrived", || node.count("app=load") > 5_000);
    let scraped = call(&metrics, "GET", "/metrics", &[], b"").unwrap().expect(200).text();
    assert!(scraped.contains("bucksaw_generate_acked_records_total "), "{scraped}");
    node.kill();
    node.restart_with(&[flag, &address]);
    let (status, out, said) = generate.wait_with_output();
    assert_eq!((status.code(), out.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains(&format!("{LINES} records (11.5 MB) sent, {LINES} acknowledged in ")), "{said}");
    assert_eq!(node.count("app=load"), LINES);
    for (name, want) in [("written_records", LINES), ("acked_records", LINES), ("acked_bytes", LINES * 201)] {
        assert_eq!(column(&log, name).iter().sum::<u64>(), want, "{name}");
        assert_eq!(column(&log, &format!("{name}_total")).last(), Some(&want), "{name}");
    }
}

#[test]
fn each_line_is_one_record_over_http_while_the_node_restarts() {
    restart_during_load("http", "--listen", "http");
}

#[test]
fn each_line_is_one_record_by_the_framed_protocol_while_the_node_restarts() {
    restart_during_load("fast", "--listen-fast", "bucksaw");
}

#[test]
fn each_line_is_one_record_over_grpc_while_the_node_restarts() {
    restart_during_load("otlp", "--listen-otlp", "grpc");
}

#[test]
fn generated_records_are_those_of_standard_output() {
    let node = TestServer::start(&["--listen-otlp", "127.0.0.1:0"]);
    let flags = ["--rate", "0", "--count", "3000", "--seed", "4", "--format", "json", "--size", "150"];
    let want = run(bucksaw(["generate"]).args(flags), b"").stdout;
    // Without the times, which differ.
    let lines = |text: &[u8]| -> Vec<String> {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let mut lines: Vec<String> = text.lines().map(|line| line[34..].to_owned()).collect();
        lines.sort();
        lines
    };
    for (listener, scheme, durability) in
        [("durable", "bucksaw", "durable"), ("http", "http", "bulk"), ("otlp", "grpc", "bulk")]
    {
        let to = format!("{scheme}://{}", node.address(listener));
        let label = format!("by={scheme}");
        let sent =
            run(bucksaw(["generate", "--to", &to, "--label", &label, "--durability", durability]).args(flags), b"");
        assert_eq!(sent.status.code(), Some(0), "{}", String::from_utf8_lossy(&sent.stderr));
        assert!(lines(&node.cli(&["query", &label]).stdout) == lines(&want), "{scheme}: other lines came back");
    }
}

#[test]
fn a_missing_node_is_reported_and_an_interrupt_ends_with_a_summary() {
    // No process listens there; no test uses this port.
    let mut generate = ChildProcess::start(&mut bucksaw(["generate", "--to", "bucksaw://127.0.0.1:1", "--rate", "0"]));
    assert!(generate.stderr_line().contains("no connection to the node"));
    generate.send_sigterm();
    generate.send_sigterm();
    let (status, _, said) = generate.wait_with_output();
    // Two signals at once may be one; then the wait for acknowledgements has a limit.
    assert!(matches!(status.code(), Some(1 | 130)), "{status}");
    assert!(said.contains(" sent, 0 acknowledged in ") && said.contains("0 records/s"), "{said}");
}
