//! `forward` with logs of containers: decoding, parts of lines, rotation, kills, events of several lines, filters.

mod kubernetes;
mod runtime_log;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use serde_json::Value;

use crate::client::encode;
use crate::tailing::TailedDir;
use crate::wait::{has_happened, wait_until};
use runtime_log::{RuntimeFormat, RuntimeLog, StoredLine};

/// All records that match, but the statistics.
fn records(tailed: &TailedDir, expression: &str) -> Vec<Value> {
    let answer = tailed.node.get(&format!("/api/v1/query?from=30d&q={}", encode(expression))).expect(200).objects();
    answer.into_iter().filter(|record| record["line"].is_string()).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits for the lines of these logs, and checks that each is stored once, with its time and stream, and no other.
fn expect(tailed: &TailedDir, logs: &[&RuntimeLog]) {
    let mut written: BTreeMap<StoredLine, usize> = BTreeMap::new();
    for line in logs.iter().flat_map(|log| log.lines()) {
        *written.entry(line.clone()).or_default() += 1;
    }
    let count: usize = written.values().sum();
    has_happened(|| tailed.node.count("") >= count as u64);
    let mut stored: BTreeMap<StoredLine, usize> = BTreeMap::new();
    for record in records(tailed, "") {
        let line = StoredLine {
            line: text(&record["line"]),
            stream: text(&record["attributes"]["log.iostream"]),
            time: text(&record["time"]),
        };
        *stored.entry(line).or_default() += 1;
    }
    let missing: Vec<_> = written.iter().filter(|(line, count)| stored.get(line) != Some(count)).take(3).collect();
    let wrong: Vec<_> = stored.iter().filter(|(line, count)| written.get(line) != Some(count)).take(3).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:#?}, doubled or never written {wrong:#?}");
}

#[test]
fn logs_of_containers_are_stored_once_through_kills_and_rotations() {
    let mut tailed = TailedDir::new(&[]);
    let mut docker =
        RuntimeLog::new(RuntimeFormat::Docker, &tailed.logs().join("var/lib/docker/containers/0a1b/0a1b-json.log"));
    let mut cri =
        RuntimeLog::new(RuntimeFormat::Cri, &tailed.logs().join("var/log/pods/shop_cart-7d9f_b3c1/web/0.log"));
    tailed.start_agent("var/**/*.log");
    for round in 0..4 {
        for log in [&mut docker, &mut cri] {
            log.write_lines(150);
            // An open part in each stream, when the agent is killed.
            log.write_part("stdout", &format!("begun {round}, "));
            log.write_part("stderr", &format!("warned {round}, "));
        }
        tailed.wait_count(300 * round + 20);
        tailed.kill_agent();
        for log in [&mut docker, &mut cri] {
            log.write_part("stdout", "continued, ");
            log.write_line("stderr", "and ended");
            log.write_line("stderr", "in between");
            log.write_line("stdout", "and ended");
            if round % 2 == 1 {
                log.rotate(round);
            }
        }
        tailed.start_agent("var/**/*.log");
    }
    expect(&tailed, &[&docker, &cri]);
    let of_pod = records(&tailed, "k8s.pod.name=cart-7d9f k8s.namespace.name=shop k8s.pod.uid=b3c1 service.name=web");
    assert_eq!(of_pod.len(), cri.lines().len());
    assert_eq!(records(&tailed, "container.id=0a1b").len(), docker.lines().len());
    let said = tailed.stop_agent();
    assert!(said.contains("undecoded_lines=0") && !said.contains("WARN"), "{said}");
}

#[test]
fn stack_traces_are_one_record() {
    let mut tailed = TailedDir::new(&["--multiline", "auto"]);
    let mut log = RuntimeLog::new(RuntimeFormat::Cri, &tailed.logs().join("var/log/pods/shop_cart_b3/web/0.log"));
    tailed.start_agent("var/**/*.log");
    let trace = [
        "Traceback (most recent call last):",
        "  File \"/srv/cart.py\", line 7, in pay",
        "    raise ValueError(total)",
        "ValueError: 3",
    ];
    log.write_line("stderr", "before");
    for (number, line) in trace.iter().enumerate() {
        log.write_line("stderr", line);
        log.write_line("stdout", &format!("request {number}"));
    }
    // No line follows: the event ends by waiting.
    wait_until("the trace is stored", || records(&tailed, "ValueError").len() == 1);
    let [record] = records(&tailed, "Traceback").try_into().unwrap();
    assert_eq!(
        (text(&record["line"]), text(&record["attributes"]["log.iostream"])),
        (trace.join("\n"), "stderr".into())
    );
    assert_eq!(text(&record["time"]), log.lines()[1].time);
    tailed.wait_count(6);
    assert_eq!(records(&tailed, "").len(), 6);
}

#[test]
fn a_regex_begins_events_of_plain_files_through_kills() {
    let mut tailed = TailedDir::new(&["--multiline", "^begin"]);
    let path = tailed.logs().join("app.log");
    let mut file = fs::File::create(&path).unwrap();
    let mut want = Vec::new();
    tailed.start_agent("app.log");
    for number in 0..300 {
        let lines: Vec<String> = (0..number % 5).map(|line| format!("  line {line} of {number}")).collect();
        let event = [vec![format!("begin {number}")], lines].concat().join("\n");
        file.write_all(event.as_bytes()).unwrap();
        file.write_all(b"\n").unwrap();
        want.push(event);
        if number % 100 == 99 {
            tailed.wait_count(number - 10);
            tailed.kill_agent();
            tailed.start_agent("app.log");
        }
    }
    tailed.wait_count(want.len());
    let mut found: Vec<String> = records(&tailed, "").iter().map(|record| text(&record["line"])).collect();
    found.sort();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn records_are_dropped_sampled_and_redacted() {
    let arguments = [
        ["--drop", "health"],
        ["--keep", "@level!=debug"],
        ["--sample", "0:chatty"],
        ["--redact", r"s/(token=)\w+/$1***/"],
        ["--attribute", "team=shop"],
    ];
    let mut tailed = TailedDir::new(&arguments.concat());
    let lines = ["GET /health", "DEBUG x", "chatty", "login token=abc", "plain"];
    fs::write(tailed.logs().join("app.log"), lines.join("\n") + "\n").unwrap();
    tailed.start_agent("app.log");
    tailed.wait_count(2);
    let mut found: Vec<String> = records(&tailed, "team=shop").iter().map(|record| text(&record["line"])).collect();
    found.sort();
    assert_eq!(found, ["login token=***", "plain"]);
    let said = tailed.stop_agent();
    assert!(said.contains("filtered=2 sampled_out=1 redacted=1"), "{said}");
    // The position is behind the dropped lines.
    tailed.start_agent("app.log");
    fs::File::options().append(true).open(tailed.logs().join("app.log")).unwrap().write_all(b"more\n").unwrap();
    tailed.wait_count(3);
    assert!(tailed.stop_agent().contains("filtered=0"));
}

#[test]
fn mistakes_of_filters_are_reported() {
    let check = |arguments: &[&str], want: &str| {
        let output = crate::node::bucksaw(["forward", "--to", "127.0.0.1:1"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(want), "{arguments:?}: {said}");
    };
    check(&["--drop", "a AND", "a.log"], "--drop: the expression `a AND`");
    check(&["--redact", "a[", "a.log"], "--redact: the regex `a[`");
    check(&["--sample", "7", "a.log"], "--sample: the share `7`");
    check(&["--attribute", "x", "a.log"], "--attribute: the attribute `x`");
    check(&["--format", "xml", "a.log"], "--format");
    check(&["--multiline", "auto"], "name a path");
    check(&["--kubernetes"], "name a path");
    check(
        &["--kubernetes", "a.log"],
        "--kubernetes: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name no API server",
    );
    check(&["--kubernetes-api", "http://10.0.0.1:8001", "a.log"], "http:// is for this machine only");
}
