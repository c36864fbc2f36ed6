//! grep's letters, compared with grep where both can do it, and the commands around `query`.

use std::process::Command;

use serde_json::Value;

use crate::node::{TestServer, bucksaw, run};

/// The records of one stream.
const LINES: &str = "start\nerror one\nok a\nok b\nok c\nerrors two\nError three\nok d\nok e\nok f\nok g\nerror_four\n\
                     (error) five\nok h\ncafé error\nok i\nend\n";

fn node() -> TestServer {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest?label=app=web", &[], LINES.as_bytes()).expect(200);
    node
}

fn out(node: &TestServer, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = node.cli(&[&["query"], arguments].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn letters_do_what_they_do_in_grep() {
    let node = node();
    let check = |arguments: &[&str]| {
        // The expressions are plain words, or regexes with -E.
        let mut grep = Command::new("grep");
        let grep = run(grep.args(arguments).env_clear().env("LC_ALL", "C"), LINES.as_bytes());
        let want = (grep.status.code(), String::from_utf8(grep.stdout).unwrap(), String::new());
        assert_eq!(out(&node, arguments), want, "{arguments:?}");
    };
    for sides in [&["-A1"][..], &["-B1"], &["-C1"], &["-C2"], &["-C3"], &["-A2", "-B1"], &["-A", "0"], &["-C", "100"]] {
        for expr in [&["error"][..], &["-i", "error"], &["-w", "error"], &["nothing"], &["-v", "ok"], &["-m2", "error"]]
        {
            // After the last match of -m, grep prints the context; so does query.
            check(&[sides, expr].concat());
        }
    }
    check(&["-w", "error"]);
    check(&["-w", "-i", "error"]);
    check(&["-w", "-F", "(error)"]);
    check(&["-wE", "err(or)?|ok"]);
    check(&["-w", "rror"]);
    check(&["-wv", "error"]);
    check(&["-wc", "error"]);
    check(&["-e", "one", "-e", "two"]);
    check(&["-e", "one", "-e", "two", "-v"]);
    check(&["-F", "-e", "(error)", "-e", "end"]);
    check(&["-E", "-e", "^s", "-e", "d$"]);
    check(&["-q", "error"]);
    check(&["-q", "nothing"]);
    check(&["-cC2", "error"]);
    check(&["-qC2", "error"]);
}

#[test]
fn several_streams_are_never_mixed() {
    let node = TestServer::start(&[]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (app, odd) in [("a", 0), ("b", 1)] {
        let line = |round: u64| {
            let wanted = if round == 2 { " wanted" } else { "" };
            format!("{{\"ts\":{},\"m\":\"{app}{round}{wanted}\"}}\n", now - 60 + 2 * round + odd)
        };
        let body: String = (0..4).map(line).collect();
        let headers = [("content-type", "application/x-ndjson")];
        node.post(&format!("/api/v1/ingest?label=app={app}"), &headers, body.as_bytes()).expect(200);
    }
    let messages = |arguments: &[&str]| {
        let (code, text, said) = out(&node, &[arguments, &["-o", "{field:m}", "wanted"]].concat());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{arguments:?}");
        text
    };
    assert_eq!(messages(&["-C1"]), "a1\na2 wanted\na3\n--\nb1\nb2 wanted\nb3\n");
    assert_eq!(messages(&["-C1", "--newest-first"]), "b1\nb2 wanted\nb3\n--\na1\na2 wanted\na3\n");
    assert_eq!(messages(&["-n", "-C1"]), "1-a1\n1:a2 wanted\n1-a3\n--\n2-b1\n2:b2 wanted\n2-b3\n");
    assert_eq!(messages(&["-n", "-m", "1"]), "1:a2 wanted\n");
    let json = out(&node, &["-C1", "-o", "json", "wanted"]).1;
    assert_eq!(json.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["line"].is_string()).count(), 6);
    assert_eq!(out(&node, &["-l", "wanted"]), (Some(0), "app=a\napp=b\n".to_owned(), String::new()));
    assert_eq!(out(&node, &["-l", "-m9", "wanted"]), (Some(0), "app=a\napp=b\n".to_owned(), String::new()));
    assert_eq!(out(&node, &["-l", "b2 OR app=none"]).1, "app=b\n");
    assert_eq!(out(&node, &["-l", "nothing"]), (Some(1), String::new(), String::new()));
    assert_eq!(out(&node, &["-l", "--to", "30m"]), (Some(1), String::new(), String::new()));
    // A stream without labels, and one whose time is ahead of the clock of the node.
    node.post(
        "/api/v1/ingest",
        &[("content-type", "application/x-ndjson")],
        format!("{{\"ts\":{},\"m\":\"ahead\"}}\n", now + 600).as_bytes(),
    )
    .expect(200);
    assert_eq!(out(&node, &["-l", "ahead"]), (Some(0), "{}\n".to_owned(), String::new()));
}

#[test]
fn matches_are_coloured_on_demand() {
    let node = node();
    let check = |arguments: &[&str], want: &str| {
        assert_eq!(out(&node, &[&["--color", "always"], arguments].concat()).1, want, "{arguments:?}");
    };
    check(&["two"], "errors \u{1b}[1;31mtwo\u{1b}[0m\n");
    check(&["-w", "-F", "(error)"], "\u{1b}[1;31m(error)\u{1b}[0m five\n");
    check(&["-E", "caf."], "\u{1b}[1;31mcaf\u{e9}\u{1b}[0m error\n");
    check(&["-A1", "-m1", "one"], "error \u{1b}[1;31mone\u{1b}[0m\nok a\n");
    check(&["-n", "two"], "\u{1b}[32m1:\u{1b}[0merrors \u{1b}[1;31mtwo\u{1b}[0m\n");
    check(&["app=web AND -error AND -ok AND end"], "\u{1b}[1;31mend\u{1b}[0m\n");
    assert_eq!(out(&node, &["two"]).1, "errors two\n");
    assert_eq!(out(&node, &["--color", "never", "two"]).1, "errors two\n");
    // A flag takes precedence over NO_COLOR.
    let mut command = bucksaw(["query", "--addr", &node.url(), "--color", "always", "two"]);
    let output = run(command.env("NO_COLOR", "1"), b"");
    assert!(output.stdout.starts_with(b"errors \x1b["), "{}", output.stdout.escape_ascii());
}

#[test]
fn templates_are_filled_in() {
    let node = TestServer::start(&[]);
    let line = br#"{"status":503,"user":{"id":"x y"}}"#;
    node.post("/api/v1/ingest?label=app=web&label=env=test", &[], &[&line[..], b"\nplain status=7\n"].concat())
        .expect(200);
    let template = "{label:app}\\t{field:status} {field:user.id} {field:env}|{labels}|{{}}";
    let (code, text, said) = out(&node, &["-o", template]);
    let labels = "test|app=web,env=test|{}";
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(text, format!("web\t503 x y {labels}\nweb\t7 - {labels}\n"));
    let (_, ids, _) = out(&node, &["-o", "{id} {time}"]);
    let (id, time) = ids.lines().next().unwrap().split_once(' ').unwrap();
    assert!(id.len() == 26 && time.ends_with('Z') || time.contains('+') || time.contains('-'), "{ids}");
    let context = node.cli(&["context", id, "-o", "{line}"]);
    let want = format!("> {}\n  plain status=7\n", str::from_utf8(line).unwrap());
    assert_eq!((context.status.code(), String::from_utf8(context.stdout).unwrap()), (Some(0), want));
    let (code, _, said) = out(&node, &["-o", "{line} {lin}"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("column 8: {lin} is no placeholder"), "{said}");
}

#[test]
fn times_are_in_the_zone_of_the_user() {
    let node = TestServer::start(&[]);
    let body = br#"{"time":"2026-01-02T03:04:05.678901Z","m":1}"#;
    let headers = [("content-type", "application/x-ndjson")];
    node.post("/api/v1/ingest", &headers, body).expect(200);
    let query = |zone: &str, arguments: &[&str]| {
        let mut command = bucksaw(["query", "--addr", &node.url(), "-o", "{time}"]);
        let output = run(command.args(arguments).env("TZ", zone), b"");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{zone} {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let (utc, local) = ("2026-01-02T03:04:05.678901Z", "2026-01-01T22:04:05.678901-05:00");
    let all = ["--from", "2026-01-01"];
    assert_eq!(query("America/New_York", &all), local);
    assert_eq!(query("America/New_York", &[&all[..], &["--utc"]].concat()), utc);
    assert_eq!(
        query("America/New_York", &[&all[..], &["--tz", "+01:00"]].concat()),
        "2026-01-02T04:04:05.678901+01:00"
    );
    // A time without a zone is local too.
    let range = ["--from", "2026-01-01 22:04", "--to", "2026-01-01 22:05"];
    assert_eq!(query("America/New_York", &range), local);
    assert_eq!(query("UTC", &["--from", "2026-01-02 03:04", "--to", "2026-01-02 03:05"]), utc);
    let missed = bucksaw(["query", "--addr", &node.url(), "--utc"]).args(range).output().unwrap();
    assert_eq!(missed.status.code(), Some(1));
    for from in ["now-60d", "100d ago", "1000.5d", "1767323045"] {
        let found = bucksaw(["query", "-q", "--addr", &node.url(), "--from", from]).output().unwrap();
        assert!(matches!(found.status.code(), Some(0 | 1)) && found.stderr.is_empty(), "{from}");
    }
}

#[test]
fn summaries_are_tables_or_the_answer_of_the_node() {
    let node = TestServer::start(&[]);
    let lines = "level=error status=500\nlevel=info status=200\nlevel=info status=200\n";
    node.post("/api/v1/ingest?label=app=web", &[], lines.as_bytes()).expect(200);
    let run = |words: &[&str]| {
        let output = node.cli(words);
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (code, text, said) = run(&["fields"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(row("status").contains("200 (2), 500 (1)") && row("app").contains("web (3)"), "{text}");
    assert!(text.ends_with("in 3 records\n"), "{text}");
    let (code, json, _) = run(&["fields", "-o", "json", "level=error"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["records"]), (Some(0), &Value::from(1)));
    assert_eq!(run(&["fields", "nothing"]).0, Some(1));

    let (code, text, said) = run(&["histogram", "--since", "10m", "--buckets", "5"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(text.lines().count() == 6 && text.contains('█'), "{text}");
    assert_eq!(run(&["histogram", "nothing"]).0, Some(1));
    let (_, json, _) = run(&["histogram", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let (code, text, said) = run(&["labels"]);
    assert_eq!(
        (code, said.as_str(), text.as_str()),
        (Some(0), "", "LABEL  DISTINCT  VALUES\napp    1         web (1)\n")
    );
    assert_eq!(run(&["labels", "--to", "30m"]).0, Some(1));
    let (code, _, said) = run(&["labels", "some text"]);
    assert!(code == Some(2) && said.contains(" refused: "), "{said}");
    let (_, text, said) = run(&["histogram", "--by", "@level", "--buckets", "2"]);
    assert!(said.is_empty() && text.lines().next().unwrap().contains("error"), "{said}{text}");
    let (_, text, _) = run(&["histogram", "--by", "status", "--value", "500", "--buckets", "1"]);
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    // Date, time, all, those with status 500, others.
    assert_eq!(row[2..5], ["3", "1", "2"], "{text}");
    let counted: u64 = json["buckets"].as_array().unwrap().iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 3);
}
