//! Slow queries, and their effect on others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::assert_healthy;
use crate::client::encode;
use crate::node::TestServer;
use crate::wait::wait_until;

/// Lines of 5,000 letters: 10 MB of them.
const LINES: usize = 2_000;

/// Regexes with large automata, or one state per letter, on text that nearly matches everywhere.
fn large_automata() -> [String; 3] {
    let classes = "[a-z]{100}".repeat(20);
    [format!("/(?i){classes}/"), format!("/(?i){classes}Q/"), r"/[^\x00]{0,1000}z{0,1000}q/".to_owned()]
}

/// A node with long lines of the letters a to y.
fn with_long_lines(arguments: &[&str]) -> TestServer {
    let node = TestServer::start(arguments);
    let mut letters = (0_u32..).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 13) as u8 % 25);
    let text: Vec<u8> =
        (0..LINES).flat_map(|_| letters.by_ref().take(5_000).chain([b'\n']).collect::<Vec<u8>>()).collect();
    node.post("/api/v1/ingest", &[], &text).expect(200);
    node
}

fn target(filter: &str) -> String {
    format!("/api/v1/count?q={}", encode(filter))
}

#[test]
fn regexes_with_large_automata_stop_no_other_query() {
    let mut node = with_long_lines(&[]);
    let regexes = large_automata();
    let counts: Vec<u64> = regexes.iter().map(|regex| node.count(regex)).collect();
    assert_eq!(counts[0], LINES as u64, "every line has two thousand letters in a row");
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (place, regex) in regexes.iter().cycle().take(6).enumerate() {
            let (node, stop, answered, expected) = (&node, &stop, &answered, counts[place % regexes.len()]);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = node.get(&target(regex)).expect(200).json();
                    assert_eq!((&answer["count"], &answer["stats"]["partial"]), (&expected.into(), &false.into()));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Six of them run all the time meanwhile.
        for _ in 0..20 {
            assert_eq!(node.count("app=none"), 0);
            assert_eq!(node.count(""), LINES as u64);
        }
        wait_until("the slow queries are answered, too", || answered.load(Ordering::Relaxed) >= 6);
        stop.store(true, Ordering::Relaxed);
    });
    assert_healthy(&mut node);
}

#[test]
fn a_query_beyond_its_time_limit_ends_with_an_error() {
    let mut node = with_long_lines(&["--query-timeout", "1ms"]);
    let regex = &large_automata()[1];
    let answer = node.get(&target(regex)).expect(200).json();
    assert_eq!((&answer["stats"]["timed_out"], &answer["stats"]["partial"]), (&true.into(), &true.into()), "{answer}");
    assert!(answer["stats"]["partial_reasons"].to_string().contains("time limit of 0.001 s"), "{answer}");
    let output = node.cli(&["query", "--from", "1h", "-c", regex]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("time limit of 0.001 s"), "{said}");
    // Without a limit the same query is answered.
    node.restart_with(&["--query-timeout", "none"]);
    let answer = node.get(&target(regex)).expect(200).json();
    assert_eq!(
        (&answer["stats"]["timed_out"], &answer["stats"]["partial"]),
        (&false.into(), &false.into()),
        "{answer}"
    );
    node.restart_with(&[]);
    assert_healthy(&mut node);
}
