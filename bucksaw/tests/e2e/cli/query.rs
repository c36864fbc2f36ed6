//! `query`: grep's flags and exit codes, and formats.

use crate::node::{TestServer, bucksaw};

/// The records of the node.
const LINES: &str = "ERROR one (a.b)\ninfo two a+b\nError three\n\ninfo four \"quoted\" 100%\nERROR five axb\n";

fn node() -> TestServer {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest?label=app=web&label=env=test", &[], LINES.as_bytes()).expect(200);
    node
}

#[test]
fn flags_are_those_of_grep() {
    let node = node();
    let lines: Vec<&str> = LINES.split_inclusive('\n').collect();
    let pick = |numbers: &[usize]| numbers.iter().map(|number| lines[number - 1]).collect::<String>();
    let check = |arguments: &[&str], want: &str| {
        let output = node.cli(&[&["query"], arguments].concat());
        let have = (output.status.code(), str::from_utf8(&output.stdout).unwrap());
        assert_eq!(have, (Some(i32::from(want.is_empty())), want), "{arguments:?}");
        assert_eq!(str::from_utf8(&output.stderr).unwrap(), "", "{arguments:?}");
    };
    check(&[], LINES);
    check(&["ERROR"], &pick(&[1, 6]));
    check(&["ERROR one"], &pick(&[1]));
    check(&["error"], "");
    check(&["-i", "error"], &pick(&[1, 3, 6]));
    check(&["-v", "o"], &pick(&[4, 6]));
    check(&["-iv", "ERROR OR info"], &pick(&[4]));
    check(&["-F", "a.b"], &pick(&[1]));
    check(&["-F", "(a.b)"], &pick(&[1]));
    check(&["-F", "ERROR OR info"], "");
    check(&["-F", "\"quoted\" 100%"], &pick(&[5]));
    check(&["-E", "a.b"], &pick(&[1, 2, 6]));
    check(&["-E", "^(info|Error) t"], &pick(&[2, 3]));
    check(&["-E", "^$"], &pick(&[4]));
    check(&["-Ei", "^error .*E$"], &pick(&[3]));
    check(&["-Eiv", "error|info"], &pick(&[4]));
    check(&["app=web -info -ERROR"], &pick(&[3, 4]));
    check(&["app=api"], "");
    check(&["-m", "2"], &pick(&[1, 2]));
    check(&["-m", "1", "ERROR"], &pick(&[1]));
    check(&["-m", "2", "--newest-first"], &pick(&[6, 5]));
    check(&["-m", "0"], "");
    check(&["--to", "10m"], "");
    check(&["--since", "1h", "ERROR"], &pick(&[1, 6]));
    check(&["--from", "1970-01-01", "ERROR"], &pick(&[1, 6]));
}

#[test]
fn counts_are_those_of_grep() {
    let node = node();
    let check = |arguments: &[&str], want: u64| {
        let output = node.cli(&[&["query", "-c"], arguments].concat());
        let have = (output.status.code(), str::from_utf8(&output.stdout).unwrap());
        assert_eq!(have, (Some(i32::from(want == 0)), format!("{want}\n").as_str()), "{arguments:?}");
    };
    check(&[], 6);
    check(&["ERROR"], 2);
    check(&["-i", "error"], 3);
    check(&["-v", "-F", ""], 0);
    check(&["-v", "ERROR"], 4);
    check(&["-E", "a.b"], 3);
    check(&["nothing"], 0);
    check(&["-m", "2"], 2);
}

#[test]
fn formats_of_records() {
    let node = node();
    let out = |arguments: &[&str]| {
        let output = node.cli(&[&["query"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (json, _) = out(&["-o", "json"]);
    let objects: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<&str> = objects.iter().map(|object| object["line"].as_str().unwrap()).collect();
    assert_eq!(lines, LINES.lines().collect::<Vec<_>>());
    assert!(objects.iter().all(|object| object["labels"] == serde_json::json!({ "app": "web", "env": "test" })));
    let (text, _) = out(&["-o", "text"]);
    for ((shown, line), object) in text.lines().zip(LINES.lines()).zip(&objects) {
        let (time, rest) = shown.split_once(' ').unwrap();
        assert_eq!(time, object["time"].as_str().unwrap(), "{shown}");
        assert!(rest.contains("app=web") && rest.contains("env=test") && rest.ends_with(line), "{shown}");
    }
    assert_eq!(text.lines().count(), 6);
    assert_eq!(out(&["-o", "raw"]).0, LINES);
    let (raw, stats) = out(&["--stats"]);
    assert_eq!(raw, LINES);
    assert!(stats.contains("segment") && stats.contains('6'), "{stats}");
}

#[test]
fn an_error_is_exit_code_two() {
    let mut node = node();
    let check = |node: &TestServer, arguments: &[&str], want: &str| {
        let output = node.cli(&[&["query"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{arguments:?}: {said}");
        assert!(said.starts_with("bucksaw: ") && said.contains(want), "{arguments:?}: {said}");
    };
    check(&node, &["a AND"], "column 6: expected something to match after `AND`");
    check(&node, &["-E", "("], "the regex /(/ is wrong in its column 1: unclosed group");
    check(&node, &["--since", "soon"], "expected a ");
    check(&node, &["-m", "many"], "--max-count 'many': expected a whole number");
    check(&node, &["--from", "5m", "--to", "10m"], "the range ends (");
    node.kill();
    check(&node, &[], "cannot reach");
    check(&node, &["-c"], "cannot reach");
    // A closed pipe is no error.
    node.restart();
    let mut child = bucksaw(["query", "--addr", &node.url()]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn hints_are_about_the_text_as_typed() {
    let node = node();
    for (expr, hint) in [
        ("status >= 500", "write `status>=500`"),
        ("level = error", "write `level=error`"),
        ("level:error", "write `level=error`"),
        ("{app=\"x\"}", "write `app=x`"),
        ("error | stats", "`|`"),
    ] {
        let output = node.cli(&["query", "-c", expr]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("bucksaw: hint: ") && said.contains(hint), "{expr}: {said}");
    }
    // A literal is meant as it is.
    let output = node.cli(&["query", "-c", "-F", "level:error"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
