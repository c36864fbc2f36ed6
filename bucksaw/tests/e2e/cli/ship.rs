//! `generate` and `forward`.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

#[test]
fn generated_lines_arrive() {
    let node = TestServer::start(&[]);
    for (format, listener) in [("text", "fast"), ("json", "durable")] {
        let generate = ["generate", "--count", "5000", "--rate", "0", "--seed", "9", "--format", format];
        let mut generator = bucksaw(generate).stdout(Stdio::piped()).spawn().unwrap();
        let label = format!("format={format},from=generate");
        let to = ["forward", "--to", node.address(listener), "--label", &label];
        let mut forward = ChildProcess::start(&mut bucksaw(to));
        // Copies the pipe.
        let (mut from, mut to) = (generator.stdout.take().unwrap(), forward.input.take().unwrap());
        let (mut text, mut window) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let read = from.read(&mut window).unwrap();
            if read == 0 {
                break;
            }
            to.write_all(&window[..read]).unwrap();
            text.extend_from_slice(&window[..read]);
        }
        drop(to);
        assert!(generator.wait().unwrap().success() && forward.wait_with_output().0.success());
        assert_eq!(node.count(format!("format={format} from=generate")), 5_000);
        assert!(node.cli(&["query", &format!("format={format}")]).stdout == text, "{format}: other text came back");
    }
}

#[test]
fn forward_ends_when_every_line_is_acknowledged() {
    let mut node = TestServer::start(&[]);
    for (listener, durability) in [("fast", "fast"), ("durable", "durable")] {
        let arguments = ["--durability", durability, "--label", &format!("by={durability}")];
        let output = node.forward(listener, &arguments, b"one\ntwo\nthree");
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
    }
    let output = node.forward("fast", &[], b"");
    assert_eq!(output.status.code(), Some(0));
    node.kill();
    node.restart();
    assert_eq!((node.count("by=fast"), node.count("by=durable"), node.count("")), (3, 3, 6));
    assert_eq!(node.cli(&["query", "by=durable"]).stdout, b"one\ntwo\nthree");
}

#[test]
fn forward_waits_for_a_node_to_return() {
    let mut node = TestServer::start(&[]);
    let address = node.address("fast").to_owned();
    let mut forward = ChildProcess::start(&mut bucksaw(["forward", "--to", &address]));
    let mut pipe = forward.input.take().unwrap();
    pipe.write_all(b"before\n").unwrap();
    wait_until("the first record is found", || node.count("before") == 1);
    node.kill();
    pipe.write_all(b"meanwhile\n").unwrap();
    drop(pipe);
    assert!(forward.stderr_line().contains("no connection to the node"));
    // On the same port.
    node.restart_with(&["--listen-fast", &address]);
    let (status, _, said) = forward.wait_with_output();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!((node.count("before"), node.count("meanwhile"), node.count("")), (1, 1, 2));
}

#[test]
fn forward_reports_errors() {
    let check = |arguments: &[&str], code: i32, want: &str| {
        let output = run(bucksaw(["forward"]).args(arguments), b"a line\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with("bucksaw: ") && said.contains(want), "{arguments:?}: {said}");
    };
    check(&["--label", "a"], 2, "label `a` has no `=`");
    check(&["--to", "nowhere"], 2, "--to 'nowhere': expected HOST:PORT");
    check(&["--durability", "slow"], 2, "--durability 'slow': expected fast or durable");
    check(&["--label", "a=b", "--label", "a=c"], 2, "given twice");
    check(&["some[.log"], 2, "some[.log");
}

#[test]
fn a_stopped_forward_reports_what_is_not_acknowledged() {
    // No process listens there; no test uses this port.
    let address = "127.0.0.1:1";
    let mut forward = ChildProcess::start(&mut bucksaw(["forward", "--to", address]));
    let mut pipe = forward.input.take().unwrap();
    // More than a pipe holds: when all is written, some of it has been read.
    pipe.write_all(&b"a line without a receiver\n".repeat(16 << 10)).unwrap();
    // It reports the failed connection and retries until it is stopped.
    assert!(forward.stderr_line().contains("no connection to the node"));
    forward.send_sigterm();
    let (status, out, said) = forward.wait_with_output();
    assert_eq!((status.code(), &*out), (Some(1), ""), "{said}");
    assert!(said.contains(&format!("bucksaw: not everything was shipped to {address}: ")), "{said}");
}
