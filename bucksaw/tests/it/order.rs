//! Flag over environment over file over default.

use crate::node::{MockNode, MockResponse};
use crate::process::{bucksaw, file, run, words};

/// The parameters of the request for these arguments, variables and this file.
fn requested(arguments: &[&str], variables: &[(&str, &str)], text: &str) -> Vec<(String, String)> {
    let node = MockNode::new(MockResponse::plain(200, r#"{"count":1}"#));
    let file = file(text);
    let mut command = bucksaw(["query", "-c", "--addr", &node.url]);
    command.args(["--config", file.path().to_str().unwrap()]);
    let run = run(command.args(arguments).envs(variables.iter().copied()));
    assert_eq!((run.code, run.err.as_str(), run.text()), (Some(0), "", "1\n"));
    node.requests().remove(0).parameters
}

#[test]
fn flags_win_over_variables_over_files_over_defaults() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], text: &str, want: &str| {
        let parameters = requested(arguments, variables, text);
        assert_eq!(parameters[1], ("from".to_owned(), want.to_owned()), "{arguments:?} {variables:?} {text}");
    };
    check(&[], &[], "", "1h");
    check(&[], &[], "since = '2h'", "2h");
    check(&[], &[], "since = '2h'\n[query]\nsince = '3h'", "3h");
    check(&[], &[], "since = '2h'\n[tail]\n", "2h");
    check(&[], &[("BUCKSAW_SINCE", "4h")], "since = '2h'", "4h");
    check(&["--since", "5h"], &[("BUCKSAW_SINCE", "4h")], "since = '2h'", "5h");
    check(&["--since", "5h"], &[], "since = '2h'", "5h");
    check(&["--from", "6h"], &[("BUCKSAW_SINCE", "4h")], "since = '2h'", "6h");
    check(&["--since", "5h"], &[("BUCKSAW_FROM", "4h")], "", "5h");
    check(&[], &[("BUCKSAW_FROM", "4h")], "since = '2h'", "4h");
    check(&[], &[("BUCKSAW_SINCE", "4h")], "from = '2h'", "4h");
}

#[test]
fn switches_can_be_set_by_each_source() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], text: &str, want: &str| {
        let parameters = requested(&[arguments, &["a b"]].concat(), variables, text);
        assert_eq!(parameters[0].1, want, "{arguments:?} {variables:?} {text}");
    };
    check(&[], &[], "", "a b");
    check(&[], &[], "invert_match = true", "NOT (a b)");
    for (value, want) in [("true", "NOT (a b)"), ("1", "NOT (a b)"), ("false", "a b"), ("0", "a b")] {
        check(&[], &[("BUCKSAW_INVERT_MATCH", value)], "", want);
    }
    check(&[], &[("BUCKSAW_INVERT_MATCH", "0")], "invert_match = true", "a b");
    check(&["-v"], &[("BUCKSAW_INVERT_MATCH", "0")], "", "NOT (a b)");
    check(&["-F"], &[("BUCKSAW_EXTENDED_REGEXP", "1")], "", "\"a b\"");
    check(&["-E"], &[], "fixed-strings = true", "/a b/");
    check(&["-E"], &[("BUCKSAW_FIXED_STRINGS", "false")], "", "/a b/");
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let node = MockNode::new(MockResponse::plain(200, r#"{"count":7}"#));
    let file = file(&format!("addr = '{}'\n[query]\ncount = true", node.url));
    let run = run(bucksaw(["query"]).env("BUCKSAW_CONFIG", file.path()));
    assert_eq!((run.code, run.text()), (Some(0), "7\n"));
}

#[test]
fn settings_are_shown_with_their_origin() {
    let file = file("[query]\naddr = 'http://f:1'\nstats = true\n[serve]\njoin = ['a:1', 'b:2']\n");
    let path = file.path().to_str().unwrap();
    let show = |command: &str| run(bucksaw(["config", "show", command, "--config", path]).env("BUCKSAW_SINCE", "2h"));
    let query = show("query");
    for line in [
        "[query]",
        "addr = \"http://f:1\" # file",
        "since = \"2h\" # BUCKSAW_SINCE",
        "# from is not set",
        "output = \"raw\" # default",
        "stats = true # file",
        "count = false # default",
    ] {
        assert!(query.text().lines().any(|have| have == line), "{line}\n{}", query.text());
    }
    assert!(show("serve").text().contains("\njoin = [\"a:1\", \"b:2\"] # file\n"));
    assert_eq!(show("sevre").code, Some(2));
    // The output is a valid configuration file.
    let all = words("config show");
    let again = self::file(all.text());
    let run = run(&mut bucksaw(["config", "check", "--config", again.path().to_str().unwrap()]));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", all.text());
}

#[test]
fn secrets_are_not_shown() {
    let file = file("[serve]\nkafka-option = [\"sasl.username=me\", \"sasl.password=hunter2\"]\n");
    let shown = run(bucksaw(["config", "show", "serve", "--config", file.path().to_str().unwrap()]).env_clear());
    let want = "kafka-option = [\"sasl.username=me\", \"sasl.password=<hidden>\"] # file";
    assert!(shown.text().lines().any(|line| line == want), "{}", shown.text());
    assert!(!shown.text().contains("hunter2"));
}

#[test]
fn an_error_in_the_file_is_one_line() {
    let check = |text: &str, want: &str| {
        let file = file(text);
        let path = file.path().to_str().unwrap();
        for command in [&["config", "check"][..], &["query"], &["generate", "--count", "1"]] {
            let run = run(bucksaw(command).args(["--config", path]));
            assert_eq!((run.code, run.err.lines().count(), run.text()), (Some(2), 1, ""), "{}", run.err);
            assert!(run.err.starts_with(&format!("bucksaw: {path}")) && run.err.contains(want), "{}", run.err);
        }
    };
    check("retentoin_age = '1d'", "did you mean `retention-age`?");
    check("[serve]\ndata-dri = '1d'", "did you mean `data-dir`?");
    check("[serve]\nlisten = 'here'", "expected HOST:PORT");
    check("a = ", "this is not TOML");
    let large = file(&" ".repeat((1 << 20) + 1));
    let refused = run(bucksaw(["config", "check", "--config"]).arg(large.path()));
    assert!(refused.code == Some(2) && refused.err.contains("1048577 bytes"), "{}", refused.err);
    let missing = words("query --config /nowhere/x.toml");
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.err.starts_with("bucksaw: cannot read the configuration file /nowhere/x.toml: "),
        "{}",
        missing.err
    );
}
