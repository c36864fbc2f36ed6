//! `query` and `tail` against a node.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use bucksaw_fixtures::wait_until;
use bucksaw_record::{Id, Millis, Producer};

use crate::node::{MockNode, MockResponse, ReceivedRequest, ResponseStep, message};
use crate::process::{CommandOutput, bucksaw, run, words};

const STATS: &str = r#"{"stats":{"matched":2,"partial":false,"segments_read":3,"segments_skipped":4,
    "bytes_scanned":2048,"seconds":0.5,"nodes_asked":2,"nodes_answered":2}}"#;
const NOTHING: &str = r#"{"stats":{"matched":0,"partial":false}}"#;
const TWO: &str = concat!(
    r#"{"id":"01M810FZ9S14ZNRYQCQM000000","time":"2026-11-20T23:10:00.000000Z","labels":{"app":"web","host":"a1"},"line":"one\t\u001b"}"#,
    "\n",
    r#"{"id":"01M810FZE9E8VPRF1NQW000000","time":"2026-11-20T23:10:01.000000Z","labels":{},"line_base64":"/3R3bw==","unterminated":true}"#,
    "\n",
);

/// Queries a mock node with this response; returns the output and the request.
fn ask(words: &str, steps: impl IntoIterator<Item = ResponseStep>) -> (CommandOutput, ReceivedRequest) {
    let node = MockNode::new(MockResponse::stream(steps));
    let run = run(bucksaw(words.split_whitespace()).args(["--addr", &node.url]));
    (run, node.requests().remove(0))
}

#[test]
fn records_are_printed() {
    let check = |words: &str, answer: ResponseStep, want: &[u8], format: &str| {
        let (run, seen) = ask(words, [answer, message(3, STATS)]);
        assert_eq!(run.out.escape_ascii().to_string(), want.escape_ascii().to_string(), "{words}");
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{words}");
        assert_eq!(seen.get("format"), Some(format), "{words}");
        assert_eq!(seen.accept, "application/x-bucksaw-stream");
    };
    let text = b"2026-11-20T23:10:00.000000Z {app=web,host=a1} one\t\x1b\n2026-11-20T23:10:01.000000Z {} \xfftwo\n";
    check("query", message(1, b"a\x1b\xff\r\n\n"), b"a\x1b\xff\r\n\n", "raw");
    check("query -o text", message(2, TWO), text, "json");
    check("query --output json", message(2, TWO), TWO.as_bytes(), "json");
    check("query -n", message(2, TWO), b"1:one\t\x1b\n2:\xfftwo\n", "json");
    check("query -o {label:host}", message(2, TWO), b"a1\n-\n", "json");
    check("query --color always one", message(2, TWO), b"\x1b[1;31mone\x1b[0m\t\x1b\n\xfftwo\n", "json");
    check("query --color always app=x", message(1, "x\n"), b"x\n", "raw");
    check("query -l -m 9", message(2, TWO), b"app=web,host=a1\n{}\n", "json");
    check("query -q", message(2, TWO), b"", "json");
    // A tail needs the ids of records, so that it shows none twice.
    check("tail -m 2", message(2, TWO), b"one\t\x1b\n\xfftwo\n", "json");
    check("tail -m 1", message(2, TWO), b"one\t\x1b\n", "json");
    check("tail -m 2 -o text", message(2, TWO), text, "json");
    check("tail -m 2 -o json", message(2, format!("{TWO}{TWO}")), TWO.as_bytes(), "json");
}

#[test]
fn requests_have_the_typed_parameters() {
    let check = |words: &str, want: &[(&str, &str)]| {
        let (run, seen) = ask(words, [message(3, NOTHING)]);
        assert_eq!((run.code, run.err.as_str(), run.text()), (Some(1), "", ""), "{words}");
        let want: Vec<_> = want.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(seen.parameters, want, "{words}");
    };
    let asc = ("order", "asc");
    check("query", &[("q", ""), ("from", "1h"), asc, ("format", "raw")]);
    check(
        "query -e a -e b -w --since 90m",
        &[
            ("q", "/\\b{start-half}(?:a)\\b{end-half}/ OR /\\b{start-half}(?:b)\\b{end-half}/"),
            ("from", "90m"),
            asc,
            ("format", "raw"),
        ],
    );
    check(
        "query --tz +02:00 --from 2026-11-20T10:00 --to now",
        &[("q", ""), ("from", "2026-11-20T08:00:00.000000Z"), ("to", "now"), asc, ("format", "raw")],
    );
    check("query -q", &[("q", ""), ("from", "1h"), asc, ("format", "json"), ("limit", "1")]);
    check("query -iv x --since 2d", &[("q", "NOT \"x\"i"), ("from", "2d"), asc, ("format", "raw")]);
    check(
        "query --from 2026-11-20 --to 1795216200 -m 5 --newest-first -o json",
        &[
            ("q", ""),
            ("from", "2026-11-20"),
            ("to", "1795216200"),
            ("order", "desc"),
            ("format", "json"),
            ("limit", "5"),
        ],
    );
    check("query -F a&b=%41", &[("q", "\"a&b=%41\""), ("from", "1h"), asc, ("format", "raw")]);
    check("query -E ^/a+$", &[("q", "/^\\/a+$/"), ("from", "1h"), asc, ("format", "raw")]);
}

#[test]
fn a_tail_requests_its_history() {
    let check = |words: &str, want: &[(&str, &str)], out: &str| {
        let node = MockNode::new(MockResponse::stream([message(2, TWO), message(3, STATS)]));
        let run = run(bucksaw(words.split_whitespace()).args(["--addr", &node.url]));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{words}");
        assert_eq!(run.out.escape_ascii().to_string(), out, "{words}");
        let seen = node.requests();
        let paths: Vec<&str> = seen.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, ["/api/v1/tail", "/api/v1/check", "/api/v1/query"], "{words}");
        let want: Vec<_> = want.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(seen[2].parameters, want, "{words}");
    };
    let expr = [("q", "x"), ("format", "json")];
    // The newest records are requested newest first and shown oldest first.
    let newest = [&[("from", "1h"), ("limit", "2"), ("order", "desc")][..], &expr].concat();
    check("tail -n 2 -m 1 x", &newest, "\\xfftwo\\n");
    check("tail -n 2 -m 2 x", &newest, "\\xfftwo\\none\\t\\x1b\\n");
    let since = [&[("from", "2d"), ("limit", "9"), ("order", "desc")][..], &expr].concat();
    check("tail -n 9 --since 2d -m 1 x", &since, "\\xfftwo\\n");
    check("tail --since 2d -m 1 x", &[&[("from", "2d")][..], &expr].concat(), "one\\t\\x1b\\n");
}

#[test]
fn expressions_need_not_be_utf8() {
    let node = MockNode::new(MockResponse::stream([message(3, NOTHING)]));
    let check = |letters: &str, want: &str| {
        let mut command = bucksaw(["query", letters, "--addr", &node.url]);
        assert_eq!(run(command.arg(OsStr::from_bytes(b"caf\xe9"))).code, Some(1));
        assert_eq!(node.requests().last().unwrap().get("q"), Some(want));
    };
    check("-F", "\"caf\\xE9\"");
    check("--stats", "\"caf\\xE9\"");
}

#[test]
fn counts() {
    let check = |words: &str, count: &str, code: i32, out: &str, err: &str| {
        let node = MockNode::new(MockResponse::plain(200, count));
        let run = run(bucksaw(words.split_whitespace()).args(["--addr", &node.url]));
        assert_eq!((run.code, run.text(), run.err.as_str()), (Some(code), out, err), "{words} {count}");
        assert_eq!(node.requests()[0].path, "/api/v1/count");
    };
    check("query -c", r#"{"count":12,"stats":{}}"#, 0, "12\n", "");
    check("query --count", r#"{"count":0}"#, 1, "0\n", "");
    check("query -c -m 5", r#"{"count":12}"#, 0, "5\n", "");
    check("query -c -m 0", r#"{"count":12}"#, 1, "0\n", "");
    let partial = r#"{"count":1,"stats":{"partial":true,"partial_reasons":["node n2 did not answer"]}}"#;
    let said = "bucksaw: the answer is partial: node n2 did not answer\n";
    check("query -c", partial, 2, "1\n", said);
    check("query -c --allow-partial", partial, 0, "1\n", said);
    let hints = r#"{"count":0,"stats":{"hints":["`a = b` searches for three words; write `a=b`"]}}"#;
    let said = "bucksaw: hint: `a = b` searches for three words; write `a=b`\n";
    check("query -c", hints, 1, "0\n", said);
    check("query -c", "{}", 2, "", "bucksaw: the node's answer has no count\n");
}

#[test]
fn partial_answers_and_statistics_are_reported() {
    let partial = r#"{"stats":{"matched":0,"partial":true,"partial_reasons":["n2\nis slow\u001b"]}}"#;
    let said = "bucksaw: the answer is partial: n2 is slow\\x1b\n";
    for (words, record, code) in [
        ("query", "", 2),
        ("query", "x\n", 2),
        ("query --allow-partial", "", 1),
        ("query --allow-partial", "x\n", 0),
        ("query -q", "", 2),
        ("query -l -m 9", "", 2),
        ("query -C1", "", 2),
    ] {
        let (run, _) = ask(words, [message(1, record), message(3, partial)]);
        let said = if code == 0 && words.ends_with("-q") { "" } else { said };
        assert_eq!((run.code, run.err.as_str(), run.text()), (Some(code), said, record), "{words}");
    }
    let (run, _) = ask("query --stats", [message(1, "x\n"), message(3, STATS)]);
    let want = "bucksaw: matched 2 records in 500 ms\nbucksaw: read 2.0 KB in 3 segments, skipped 4 segments\n\
                bucksaw: asked 2 nodes, 2 answered\n";
    assert_eq!((run.code, run.err.as_str(), run.text()), (Some(0), want, "x\n"));
    let (run, _) = ask("tail -m 1", [message(5, r#"{"skipped_bytes":9}"#), message(5, "{\"new\":1}"), message(2, TWO)]);
    let want = "bucksaw: 9 bytes arrived faster than they could be printed and were skipped: narrow the expression\n\
                bucksaw: the node reports: {\"new\":1}\n";
    assert_eq!((run.code, run.err.as_str()), (Some(0), want));
}

#[test]
fn a_truncated_answer_is_an_error() {
    let check = |words: &str, steps: Vec<ResponseStep>, out: &str, err: &str| {
        let (run, _) = ask(words, steps);
        assert_eq!((run.code, run.text()), (Some(2), out), "{words}: {}", run.err);
        assert!(run.err.contains(err) && run.err.lines().count() == 1, "{words}: {}", run.err);
    };
    let ended = "ended early, so records may be missing";
    check("query", vec![], "", ended);
    check("query", vec![message(1, "x\n")], "x\n", ended);
    check("query", vec![ResponseStep::Send(b"\x01\xff\0\0\0x\n".into())], "x\n", ended);
    check("query", vec![message(1, "x\n"), ResponseStep::Break], "x\n", "ended early");
    check("query -o json", vec![message(2, "{}\n{\"tor"), ResponseStep::Break], "{}\n", "ended early");
    check("query", vec![message(1, "x\n"), message(4, "disk\nfull")], "x\n", "the node stopped: disk full");
    check("query", vec![message(9, "")], "", "unknown kind 9");
    check("query -o json", vec![ResponseStep::Send(b"\x02\xff\xff\xff\xff".into())], "", "4294967295 bytes");
    check("query -o text", vec![message(2, "nonsense\n"), message(3, STATS)], "", "cannot be read");
    check("query", vec![message(3, "nonsense")], "", "statistics cannot be read");
    check("query -o json", vec![message(2, "{}\n{\"tor"), message(3, STATS)], "{}\n", "an incomplete record");
    check("tail", vec![message(9, "")], "", "unknown kind 9");
    check("tail", vec![message(2, "{\"line\":\"x\"}\n")], "", "a record without a valid id");
}

#[test]
fn refusals_are_reported() {
    let check = |answer: MockResponse, want: &str| {
        let node = MockNode::new(answer);
        for words in [
            &["query"][..],
            &["query", "-c"],
            &["tail"],
            &["status"],
            &["fields"],
            &["labels"],
            &["histogram"],
            &["context", "01M810FZ9S14ZNRYQCQM000000"],
        ] {
            let run = run(bucksaw(words).args(["--addr", &node.url]));
            assert_eq!(run.code, Some(if *words == ["status"] { 1 } else { 2 }));
            assert_eq!(run.err, format!("bucksaw: {} refused: {want}\n", node.url), "{words:?}");
        }
    };
    check(
        MockResponse::plain(400, r#"{"error":"the regex is too large"}"#),
        "the regex is too large (400 Bad Request)",
    );
    check(MockResponse::plain(503, "<h1>\nno\x1b</h1>"), "<h1> no\\x1b</h1> (503 Service Unavailable)");
    let node = MockNode::new(MockResponse::plain(200, "{}"));
    let run = run(&mut bucksaw(["query", "--addr", &node.url]));
    assert!(run.code == Some(2) && run.err.contains("is it a node, and of this version?"), "{}", run.err);
}

#[test]
fn usage_errors_are_reported_before_a_request_is_sent() {
    let check = |words: &[&str], want: &str| {
        // Port 1 is closed, so a request would fail with another message.
        let run = run(bucksaw(words).env("BUCKSAW_ADDR", "http://127.0.0.1:1"));
        assert_eq!((run.code, run.text()), (Some(2), ""));
        assert_eq!(run.err, want);
    };
    check(
        &["query", "level= x"],
        "bucksaw: column 7: expected a value after `level=`, found a space\n  level= x\n        ^\n",
    );
    check(
        &["tail", "(a"],
        "bucksaw: column 3: expected `)` to close the `(` in column 1, found the end of the expression\n  (a\n    ^\n",
    );
    check(&["query", "-e", "a", "b"], "bucksaw: both EXPR and -e are given: put -e before each expression\n");
    check(&["query", "--utc", "--tz", "+01:00"], "bucksaw: both --utc and --tz are given: omit one of them\n");
    check(&["query", "-F", "-E", "a"], "bucksaw: both -F and -E are given: omit one of them\n");
    check(
        &["query", "--since", "1h", "--from", "2h"],
        "bucksaw: both --since and --from are given: omit one of them\n",
    );
    check(
        &["query", "--from", "2026-11-20", "--to", "2026-11-19"],
        "bucksaw: the range ends (2026-11-19T00:00:00.000000Z) before it begins (2026-11-20T00:00:00.000000Z): \
         change --from, --since or --to\n",
    );
}

#[test]
fn an_unreachable_node_is_reported() {
    let run = words("query --addr http://127.0.0.1:1");
    let want = "bucksaw: cannot reach http://127.0.0.1:1: connection refused: is a node running? \
                start one with 'bucksaw serve'\n";
    assert_eq!((run.code, run.err.as_str()), (Some(2), want));
    assert_eq!(words("status --addr http://127.0.0.1:1").code, Some(1));
    assert_eq!(words("query -m 0").code, Some(1));
    assert_eq!(words("tail -m 0").code, Some(1));
}

#[test]
fn the_records_around_several_matches_are_requested_at_once() {
    // The answer to every call has no end, so none of the calls for a context is answered.
    let match_object =
        |number: u64| format!("{{\"id\":\"01M810FZ9S14ZNRYQCQM{number:06}\",\"labels\":{{}},\"line\":\"x\"}}\n");
    let matches: String = (0..20).map(match_object).collect();
    let node = MockNode::new(MockResponse::stream([message(2, matches), ResponseStep::Wait]));
    let mut child = bucksaw(["query", "-C", "2", "--addr", &node.url]).spawn().unwrap();
    let contexts = || node.requests().iter().filter(|request| request.path == "/api/v1/context").count();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(wait_until("eight calls for contexts", || contexts() >= 8));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(contexts(), 8);
    let first = node.requests().into_iter().find(|request| request.path == "/api/v1/context").unwrap();
    assert_eq!((first.get("before"), first.get("after")), (Some("3"), Some("2")));
}

#[test]
fn a_tail_says_from_when_on_it_looked_for_missed_records() {
    const HOUR_MS: u64 = 3_600_000;
    let newest = Millis(1_795_216_200_000);
    let object = |time: Millis| {
        format!("{{\"id\":\"{}\",\"labels\":{{}},\"line\":\"x\"}}\n", Id::new(time, Producer::new(1), 7))
    };
    // Each connection ends behind the records.
    let check = |last: Millis, after: Millis, want: &str| {
        let records = object(newest) + &object(last);
        let node = MockNode::new(MockResponse::stream([message(2, records), message(3, NOTHING)]));
        let mut command = bucksaw(["tail", "--addr", &node.url]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.into_iter().find(|line| line.contains("reconnected")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.ends_with(&format!("showed 0 records accepted meanwhile; {want}")), "{said}");
        let query = node.requests().into_iter().find(|request| request.path == "/api/v1/query").unwrap();
        assert_eq!(query.get("after"), Some(Id::first_at(after).to_string().as_str()));
    };
    let before = |ms: u64| newest.saturating_sub(ms);
    let much_earlier = "those that state a much earlier time may be missing";
    check(before(1_000), before(60_000), much_earlier);
    check(before(HOUR_MS / 2), before(HOUR_MS / 2), much_earlier);
    let limited = "those that state a time before 2026-11-20T22:10:00.000000Z are missing";
    check(before(HOUR_MS * 2), before(HOUR_MS), limited);
}
