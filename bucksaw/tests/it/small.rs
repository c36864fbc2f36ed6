//! The small commands, and usage errors.
#![allow(clippy::disallowed_methods, reason = "reads documents of the project")]

use crate::node::{MockNode, MockResponse};
use crate::process::{bucksaw, run, words};

#[test]
fn a_usage_error_is_one_line_and_exit_code_two() {
    let check = |given: &str, want: &str| {
        let run = words(given);
        assert_eq!((run.code, run.text()), (Some(2), ""), "{given}");
        assert_eq!(run.err, format!("bucksaw: {want}\n"), "{given}");
    };
    check("querry", "bucksaw has no command querry: did you mean query?");
    check("wuery-the-logs", "bucksaw has no command wuery-the-logs: see 'bucksaw --help'");
    check("query --newest-fist", "bucksaw query has no flag --newest-fist: did you mean --newest-first?");
    // The parser's own tip is to pass it as a value.
    check(
        "query -X",
        "bucksaw query has no flag -X: see 'bucksaw query --help'; before an expression that starts with - put -e",
    );
    check("status -A", "bucksaw status has no flag -A: see 'bucksaw status --help'");
    check("verify", "bucksaw verify needs DIR: see 'bucksaw verify --help'");
    check(
        "query -o xml",
        "--output 'xml': expected raw, text, json or a template such as '{time} {label:app} {line}': see 'bucksaw query \
         --help'",
    );
    for command in ["fields", "labels", "histogram", "status"] {
        // Only records have bytes to print as received.
        let want = format!("--output 'raw': expected text or json: see 'bucksaw {command} --help'");
        check(&format!("{command} -o raw"), &want);
    }
    check(
        "query --addr ftp://a",
        "--addr 'ftp://a': expected the address of a node such as http://127.0.0.1:7650, localhost:7650 or :7650: see \
         'bucksaw query --help'",
    );
    check(
        "serve --segment-max-bytes 1.5G",
        "--segment-max-bytes '1.5G': expected a size such as 65536, 64KB or 16MB (K, M, G and T are powers of 1024): see \
         'bucksaw serve --help'",
    );
    check(
        "serve --log-level loud",
        "--log-level 'loud': expected error, warn, info, debug, trace or off: see 'bucksaw serve --help'",
    );
    check("query -m many", "--max-count 'many': expected a whole number such as 10: see 'bucksaw query --help'");
    check(
        "query -A 2000",
        "--after-context '2000': expected a whole number from 0 to 1000: see 'bucksaw query --help'",
    );
    check("query --timeout 0", "--timeout '0': expected a time such as 10s, more than 0: see 'bucksaw query --help'");
    check("query --since", "--since needs a value: see 'bucksaw query --help'");
    check("query -c -c", "--count is given twice: omit one of them");
    check("query a b", "unexpected argument 'b': quote an argument of several words, as in bucksaw query 'one two'");
    let quoted = run(&mut bucksaw(["query", "-n", "5", "one two"]));
    let want = "bucksaw: unexpected argument 'one two' after the last one that bucksaw query takes: see 'bucksaw query --help'\n";
    assert_eq!((quoted.code, quoted.err.as_str()), (Some(2), want));
    check("histogram --value x", "bucksaw histogram needs --by NAME: see 'bucksaw histogram --help'");
    let soon = words("query --since soon");
    assert!(soon.err.starts_with("bucksaw: --since 'soon': expected a "), "{}", soon.err);
    let nothing = words("");
    assert!(nothing.code == Some(2) && nothing.out.is_empty() && nothing.err.contains("Usage: bucksaw"));
}

#[test]
fn invalid_variables_are_named() {
    for (variable, value, want) in [
        ("BUCKSAW_OUTPUT", "xml", "--output 'xml' (from the environment variable BUCKSAW_OUTPUT): expected raw, text"),
        (
            "BUCKSAW_COUNT",
            "maybe",
            "--count 'maybe' (from the environment variable BUCKSAW_COUNT): expected true or false",
        ),
        (
            "BUCKSAW_MAX_COUNT",
            "-1",
            "--max-count '-1' (from the environment variable BUCKSAW_MAX_COUNT): expected a whole",
        ),
    ] {
        let run = run(bucksaw(["query"]).env(variable, value));
        assert_eq!(run.code, Some(2));
        assert!(run.err.starts_with(&format!("bucksaw: {want}")), "{}", run.err);
    }
}

#[test]
fn versions() {
    let run = words("--version");
    assert_eq!((run.code, run.text()), (Some(0), concat!("bucksaw ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn status_prints_a_table_or_the_json_of_the_node() {
    let cluster = r#"{"nodes":[{"id":"n1","state":"ready","store":{"stored_bytes":2048}}]}"#;
    let node = MockNode::new(MockResponse::plain(200, cluster));
    let check = |format: &str, want: &str| {
        let run = run(&mut bucksaw(["status", "--addr", &node.url, "-o", format]));
        assert_eq!((run.code, run.text(), run.err.as_str()), (Some(0), want, ""), "{format}");
    };
    check("text", "1 node, all well\nID  STATE  STORED\nn1  ready  2.0 KB\n");
    // The mock gives the same answer to the call for agents.
    check("json", &format!("{{\"agents\":{cluster},{}\n", &cluster[1..]));
    assert_eq!(node.requests()[0].path, "/api/v1/cluster");
    let odd = MockNode::new(MockResponse::plain(200, "<html>"));
    let run = run(&mut bucksaw(["status", "--addr", &odd.url]));
    assert!(run.code == Some(1) && run.err.contains("is it a bucksaw node?"), "{}", run.err);
}

#[test]
fn lines_are_generated() {
    let run = words("generate --count 1000 --rate 0 --size 100");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(run.out.len(), 1_000 * 101);
    let run = words("generate --count 7 --rate 100 --format json --seed 5");
    let lines: Vec<serde_json::Value> = run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rate.csv");
    let run = words(&format!("generate --count 3 --rate 0 --size 9 --rate-log {}", path.display()));
    assert_eq!((run.code, run.out.len()), (Some(0), 30));
    let log = std::fs::read_to_string(path).unwrap();
    assert!(log.starts_with("time,seconds,") && log.ends_with(",3,30,0,0,3,30,0,0\n"), "{log}");
    let run = words("generate --label a=b");
    assert!(run.code == Some(2) && run.err.contains("--label has no effect on standard output"), "{}", run.err);
    let run = words("generate --to bucksaw://127.0.0.1:1 --size 2M");
    assert!(run.code == Some(2) && run.err.contains("--size"), "{}", run.err);
    let run = words("generate --to http://127.0.0.1:1 --count 1 --rate 0");
    assert!(run.code == Some(1) && run.err.contains("connection refused"), "{}", run.err);
    for wrong in
        ["--rate -1", "--rate NaN", "--rate inf", "--size 0", "--size 1T", "--count -1", "--to a:1", "--to tcp://a:1"]
    {
        assert_eq!(words(&format!("generate {wrong}")).code, Some(2), "{wrong}");
    }
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = words(&format!("completions {shell}"));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{shell}");
        assert!(run.text().contains("newest-first"), "{shell}");
    }
    assert_eq!(words("completions").code, Some(2));
}

#[test]
fn manual_pages() {
    let page = words("man");
    assert_eq!((page.code, page.err.as_str()), (Some(0), ""));
    assert!(page.text().contains(".TH bucksaw 1") && page.text().contains("Prometheus for logs"));
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    assert_eq!(words(&format!("man --dir {}", pages.display())).code, Some(0));
    // Existing pages are replaced, and the file that an interrupted run left is removed.
    std::fs::copy(pages.join("bucksaw-man.1"), pages.join("bucksaw-query.tmp")).unwrap();
    assert_eq!(words(&format!("man --dir {}", pages.display())).code, Some(0));
    let query = std::fs::read_to_string(pages.join("bucksaw-query.1")).unwrap();
    assert!(query.contains("newest\\-first") && query.contains(".TH bucksaw-query 1"), "{query}");
    let names = ["bucksaw", "bucksaw-serve", "bucksaw-config", "bucksaw-config-show"];
    assert!(names.iter().all(|name| pages.join(format!("{name}.1")).is_file()));
    assert!(!pages.join("bucksaw-help.1").exists() && !pages.join("bucksaw.tmp").exists());
    let wrong = words("man --dir /dev/null/x");
    assert!(wrong.code == Some(1) && wrong.err.starts_with("bucksaw: cannot create the directory"), "{}", wrong.err);
}

/// A page as text, with all warnings. Fails where groff is not installed.
fn groff(page: &std::path::Path) -> std::io::Result<std::process::Output> {
    std::process::Command::new("groff").args(["-man", "-ww", "-Tutf8", "-P-cbou"]).arg(page).output()
}

/// The flags that the help text of a command describes.
fn flags(help: &str) -> Vec<&str> {
    let starts = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = starts.flat_map(|line| line.split([' ', ',', '=', '[']));
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}

#[test]
fn manual_pages_describe_each_flag_of_each_command() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(words(&format!("man --dir {}", dir.path().display())).code, Some(0));
    let (mut pages, mut described) = (0, 0);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let page = std::fs::read_to_string(&path).unwrap();
        let help = words(&format!("{} --help", name.replacen("bucksaw", "", 1).replace('-', " ")));
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{name}");
        let shown = page.replace("\\-", "-");
        for flag in flags(help.text()) {
            // The page of a command has a heading for it: `\fB--flag\fR`.
            assert!(shown.contains(&format!("\\fB{flag}\\fR")), "{name} lacks {flag}: {page}");
            described += 1;
        }
        // A line of text that begins with a dot would be taken for a request, and not be shown.
        let requests = ["ie", "el", "TH", "SH", "SS", "TP", "PP", "RS", "RE", "IP", "br", "sp", "nf", "fi"];
        if let Ok(rendered) = groff(&path) {
            assert!(rendered.status.success() && rendered.stderr.is_empty(), "{name}: {rendered:?}");
            assert!(String::from_utf8(rendered.stdout).unwrap().contains("SYNOPSIS"), "{name}");
        }
        for line in page.lines().filter_map(|line| line.strip_prefix('.')) {
            let request = line.split_whitespace().next().unwrap_or_default();
            assert!(requests.contains(&request), "{name}: .{line}");
        }
        pages += 1;
    }
    assert!(pages > 15 && described > 100, "{pages} pages, {described} flags");
}
