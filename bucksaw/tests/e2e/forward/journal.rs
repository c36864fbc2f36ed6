//! The journal, read by the real `journalctl` from files that the tests write.

use std::ops::Range;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::agent::AgentNode;
use crate::client::encode;
use crate::node::{bucksaw, run};
use crate::senders::{SenderRecord, all_are_stored, stored, write_journal_file};
use crate::wait::wait_until;

/// A directory of journal files. systemd-journal-remote writes a file at once, so each part is a file of its own.
struct TestJournal(TempDir);

impl TestJournal {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Adds entries.
    fn write(&self, numbers: Range<usize>) {
        let draft = tempfile::tempdir().unwrap();
        let name = format!("part-{}.journal", numbers.start);
        write_journal_file(&draft.path().join(&name), numbers);
        // Whole, so that journalctl reads no half of it.
        let next = self.0.path().join("next");
        std::fs::copy(draft.path().join(&name), &next).unwrap();
        std::fs::rename(next, self.0.path().join(&name)).unwrap();
    }
}

fn lines(numbers: Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("paid {number}")).collect()
}

fn count(agent: &AgentNode) -> usize {
    stored(&agent.node).len()
}

/// Checks that these entries are stored, each once.
fn expect(agent: &AgentNode, numbers: Range<usize>) {
    let mut want = lines(numbers);
    wait_until("the entries are stored", || count(agent) >= want.len());
    let mut found: Vec<String> = stored(&agent.node).iter().map(|record| record.line().to_owned()).collect();
    found.sort();
    want.sort();
    assert_eq!(found, want);
}

#[test]
fn entries_are_shipped_as_the_upload_does_and_once_over_kills() {
    let journal = TestJournal::new();
    journal.write(0..200);
    let mut agent = AgentNode::start(&["--journal-dir", journal.path(), "--label", "site=s1"]);
    wait_until("the first entries are stored", || count(&agent) > 0);
    agent.restart();
    journal.write(200..500);
    wait_until("the second file is read", || count(&agent) > 200);
    agent.restart();
    agent.node.kill();
    journal.write(500..1_000);
    agent.restart();
    agent.node.restart();
    expect(&agent, 0..1_000);
    agent.kill();
    journal.write(1_000..1_100);
    agent.restart();
    expect(&agent, 0..1_100);
    let stated: Vec<SenderRecord> = (0..1_100)
        .map(|number| {
            SenderRecord(json!({
                "line": format!("paid {number}"),
                "labels": {"host.name": "web1", "service.name": "shop", "site": "s1"},
                "attributes": {"severity_text": "warning", "ORDER": number.to_string()},
            }))
        })
        .collect();
    all_are_stored(&agent.node, &stated);
}

#[test]
fn the_first_start_may_pass_over_old_entries_and_later_ones_do_not() {
    let journal = TestJournal::new();
    journal.write(0..100);
    let mut agent = AgentNode::start(&["--journal-dir", journal.path(), "--read-from", "end"]);
    while !agent.log_line().contains("following the journal") {}
    // Before the first entry is shipped.
    agent.kill();
    journal.write(100..150);
    agent.restart();
    expect(&agent, 100..150);
}

#[test]
fn units_are_selected_beside_a_followed_file() {
    let (journal, dir) = (TestJournal::new(), tempfile::tempdir().unwrap());
    journal.write(0..10);
    let file = dir.path().join("a.log");
    std::fs::write(&file, "a line\n").unwrap();
    let unit = ["--journal-unit", "other.service", "--journal-dir", journal.path()];
    let mut agent = AgentNode::start(&[&unit[..], &[file.to_str().unwrap()]].concat());
    wait_until("the file is shipped", || agent.node.count("a line") == 1);
    assert_eq!(agent.node.count(encode("paid")), 0);
    let said = agent.stop();
    assert!(said.contains("following the journal") && !said.contains("ERROR"), "{said}");
}

#[test]
fn entries_are_filtered_and_counted() {
    let journal = TestJournal::new();
    journal.write(0..150);
    let rules = ["--keep", "ORDER=7 OR ORDER=149", "--redact", "s/paid/settled/", "--attribute", "team=shop"];
    let mut agent = AgentNode::start(&[&["--journal-dir", journal.path()], &rules[..]].concat());
    wait_until("the last entry is stored", || count(&agent) == 2);
    let said = agent.stop();
    assert!(said.contains("redacted=2") && said.contains("filtered=148"), "{said}");
    let records = stored(&agent.node);
    let mut lines: Vec<&str> = records.iter().map(SenderRecord::line).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["settled 149", "settled 7"]);
    assert!(records.iter().all(|record| record.0["attributes"]["team"] == "shop"), "{records:?}");
}

#[test]
fn a_missing_journalctl_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bucksaw(["forward", "--to", "127.0.0.1:1", "--journal", "--state-dir"]);
    let output = run(command.arg(dir.path().join("state")).env("PATH", Path::new("/nowhere")), b"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cannot run journalctl: No such file or directory"), "{said}");
}
