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
    check("querry", "unrecognized subcommand 'querry': a similar subcommand exists: 'query'");
    check(
        "query --newest-fist",
        "unexpected argument '--newest-fist' found: a similar argument exists: '--newest-first'",
    );
    check("verify", "the following required arguments were not provided: <DIR>: see 'bucksaw verify --help'");
    check(
        "query -o xml",
        "invalid value 'xml' for '--output <FORMAT>' [possible values: raw, text, json]: see 'bucksaw query --help'",
    );
    check(
        "query --addr https://a",
        "invalid value 'https://a' for '--addr <URL>': https is not supported: use http://, through a TLS proxy or \
         tunnel if need be: see 'bucksaw query --help'",
    );
    check(
        "query --since soon",
        "invalid value 'soon' for '--since <AGE>': expected a duration such as `15m`, `1h30m`, `1.5h` or \
         `7d` (units ns, us, ms, s, m, h, d, w), found `soon`: see 'bucksaw query --help'",
    );
    check(
        "serve --segment-max-bytes 1.5G",
        "invalid value '1.5G' for '--segment-max-bytes <SIZE>': expected a size such as 65536, 64KB or 16MB \
         (K, M, G and T are powers of 1024): see 'bucksaw serve --help'",
    );
    check("query a b", "unexpected argument 'b' found: see 'bucksaw query --help'");
    let nothing = words("");
    assert!(nothing.code == Some(2) && nothing.out.is_empty() && nothing.err.contains("Usage: bucksaw"));
}

#[test]
fn invalid_variables_are_named() {
    let run = run(bucksaw(["query"]).env("BUCKSAW_OUTPUT", "xml"));
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("(from the environment variable BUCKSAW_OUTPUT)"), "{}", run.err);
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
    check("json", &format!("{cluster}\n"));
    check("raw", &format!("{cluster}\n"));
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
    for wrong in ["--rate -1", "--rate NaN", "--rate inf", "--size 0", "--size 1T", "--count -1"] {
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
