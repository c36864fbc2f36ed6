//! How commands end when they are interrupted or their reader closes the pipe.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::node::{MockNode, MockResponse, ResponseStep, message};
use crate::process::bucksaw;

fn start(words: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = bucksaw(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// The exit code and standard error of a child.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (child.wait().unwrap().code(), err)
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

#[test]
fn an_interrupt_ends_a_search_at_once() {
    let node = MockNode::new(MockResponse::stream([message(1, "one\n"), message(1, "two\n"), ResponseStep::Wait]));
    for command in ["query", "tail"] {
        let (child, mut out) = start(&[command, "--addr", &node.url]);
        // The lines are flushed although the answer has not ended.
        assert_eq!((line(&mut out).as_str(), line(&mut out).as_str()), ("one\n", "two\n"));
        interrupt(&child);
        assert_eq!(end(child), (Some(130), String::new()), "{command}");
    }
}

#[test]
fn an_interrupt_ends_a_writer_whose_reader_stalls() {
    let (child, mut out) = start(&["generate", "--rate", "0"]);
    // The reader does not read, so the pipe is full.
    assert!(!line(&mut out).is_empty());
    interrupt(&child);
    let (code, said) = end(child);
    assert!(code == Some(130) && said.contains(" written in ") && said.ends_with("/s\n"), "{code:?}: {said}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let piece = message(1, "a line of some length\n".repeat(10_000));
    let node = MockNode::new(MockResponse::stream(vec![piece; 20]));
    for words in [&["query", "--addr", &node.url][..], &["tail", "--addr", &node.url], &["generate", "--rate", "0"]] {
        let (child, mut out) = start(words);
        assert!(!line(&mut out).is_empty());
        drop(out);
        assert_eq!(end(child), (Some(0), String::new()), "{words:?}");
    }
}
