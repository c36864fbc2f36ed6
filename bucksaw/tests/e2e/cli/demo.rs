//! `demo.sh`, which `make run` starts: it uses the node that it started, and no other.

use std::path::Path;
use std::process::{Command, Output};

use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

/// The script with the program under test, a directory and free ports.
fn demo(dir: &Path) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../demo.sh"));
    command.env("BUCKSAW_BIN", env!("CARGO_BIN_EXE_bucksaw")).env("BUCKSAW_DATA_DIR", dir);
    for listener in ["LISTEN", "LISTEN_FAST", "LISTEN_DURABLE", "LISTEN_BULK", "LISTEN_CLUSTER"] {
        command.env(format!("BUCKSAW_{listener}"), "127.0.0.1:0");
    }
    command
}

/// Runs the script, which must end by itself.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let (status, out, said) = ChildProcess::start(command).wait_with_output();
    (status.code(), out, said)
}

/// A line of a shell, with `bucksaw` as the program under test.
fn shell(line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_bucksaw"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    run(command.args(["-c", line]).env_clear().env("PATH", path), b"")
}

#[test]
fn a_taken_port_ends_it_with_the_error_of_the_node() {
    let home = tempfile::tempdir().unwrap();
    let node = TestServer::start(&[]);
    let taken = node.address("http").to_owned();
    let (code, out, said) = ended(demo(&home.path().join("data")).env("BUCKSAW_LISTEN", &taken));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains(&taken) && said.contains("The node did not start"), "{said}");
    // No sample line went to the node that was there.
    assert_eq!(node.count(""), 0);
}

#[test]
fn a_taken_directory_ends_it_with_the_error_of_the_node() {
    let node = TestServer::start(&[]);
    let addresses = std::fs::read(node.dir().join("addresses.json")).unwrap();
    let (code, out, said) = ended(&mut demo(node.dir()));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("The node did not start"), "{said}");
    assert_eq!(node.count(""), 0);
    assert_eq!(std::fs::read(node.dir().join("addresses.json")).unwrap(), addresses);
}

#[test]
fn a_missing_program_is_named() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, said) = ended(demo(home.path()).env("BUCKSAW_BIN", "/nowhere/bucksaw"));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(said, "/nowhere/bucksaw is missing: build it with 'make build'\n");
}

#[test]
fn its_output_names_the_node_that_it_started_and_its_commands_work() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut script = ChildProcess::start(&mut demo(&dir));
    let (mut lines, mut commands) = (Vec::new(), Vec::new());
    loop {
        let line = script.line();
        if line.starts_with("  ") && line.contains(env!("CARGO_BIN_EXE_bucksaw")) {
            commands.push(line.trim().to_owned());
        }
        if line.starts_with("Ctrl-C") {
            break;
        }
        lines.push(line);
    }
    let addresses: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("addresses.json")).unwrap()).unwrap();
    let text = lines.join("\n");
    for name in ["http", "fast", "durable"] {
        let address = addresses[name].as_str().unwrap();
        assert!(!address.ends_with(":0") && text.contains(address), "{name} {address}: {text}");
    }
    assert!(text.contains(&format!("its data is in {}", dir.display())), "{text}");
    assert_eq!(commands.len(), 5, "{commands:?}");
    let http = addresses["http"].as_str().unwrap();
    wait_until("the sample arrives", || {
        bucksaw(["query", "-q", "--addr", http, "app=sample"]).output().unwrap().status.code() == Some(0)
    });
    for command in &commands {
        let line = if command.contains(" tail ") { format!("{command} -m 0") } else { command.clone() };
        let output = shell(&line);
        let said = String::from_utf8_lossy(&output.stderr);
        // The sample need not have sent an error yet.
        assert!(matches!(output.status.code(), Some(0 | 1)) && said.is_empty(), "{line}: {said}");
    }
    // The last one finds what the one before it sent.
    assert!(String::from_utf8(shell(&commands[4]).stdout).unwrap().starts_with("hello from "));

    // The first commands of the README print exactly what is shown there, whatever the sample sends.
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let (_, block) = readme.split_once("In another terminal:\n\n```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let fast = addresses["fast"].as_str().unwrap();
    let mut shown: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => shown.push((command.to_owned(), String::new())),
            None => shown.last_mut().unwrap().1.push_str(&format!("{line}\n")),
        }
    }
    assert!(shown.len() >= 4, "{shown:?}");
    for (command, want) in shown.iter().filter(|(command, _)| command.contains("bucksaw ")) {
        let here = command
            .replace("bucksaw query", &format!("bucksaw query --addr {http}"))
            .replace("bucksaw forward", &format!("bucksaw forward --to {fast}"));
        let output = shell(&here);
        assert_eq!(&String::from_utf8(output.stdout).unwrap(), want, "{command}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{command}");
    }

    script.send_sigterm();
    let (status, _, said) = script.wait_with_output();
    assert_eq!(status.code(), Some(143), "{said}");
    wait_until("the node has ended", || std::net::TcpStream::connect(http).is_err());
}
