//! `export`: both formats, pages, interruptions, errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

/// A node with records that have labels, attributes, several lines, and bytes that are not UTF-8.
fn node_with_records(lines: usize) -> TestServer {
    let node = TestServer::start(&[]);
    let text: String = (0..lines).map(|number| format!("line {number} of many\n")).collect();
    let plain = node.post("/api/v1/ingest?label=app%3Dplain", &[], text.as_bytes());
    plain.expect(200);
    node.post("/api/v1/ingest?label=app%3Dbytes", &[], b"\xff\x00a\n\n").expect(200);
    let objects = r#"[{"m":"two\nlines","trace_id":"4bf9","n":7},{"m":"é","x":"ÿ"}]"#;
    let json = [("Content-Type", "application/json")];
    node.post("/api/v1/ingest?message_field=m&label=app%3Djson", &json, objects.as_bytes()).expect(200);
    node
}

fn export(node: &TestServer, path: &Path, more: &[&str]) -> Output {
    run(bucksaw(["export", "--addr", &node.url(), "-o"]).arg(path).args(more), b"")
}

fn export_whole(node: &TestServer, path: &Path, more: &[&str]) {
    let output = export(node, path, more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout, &*said), (Some(0), &b""[..], ""), "{}", path.display());
}

/// All records, as `query` prints them.
fn queried(node: &TestServer, more: &[&str]) -> String {
    let output = node.cli(&[&["query", "-o", "json"], more].concat());
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// The rows of a Parquet file, as pyarrow reads them, in the JSON of records.
fn parquet_rows(path: &Path) -> Vec<Value> {
    const SCRIPT: &str = r#"
import base64, json, sys
import pyarrow.parquet
table = pyarrow.parquet.read_table(sys.argv[1])
table = table.set_column(1, "time", table["time"].cast("int64"))
encode = lambda value: base64.b64encode(value).decode()
for row in table.to_pylist():
    row["attributes_bytes"] = {name: encode(value) for name, value in row["attributes_bytes"]}
    row["labels"], row["attributes"] = dict(row["labels"]), dict(row["attributes"])
    row["line_bytes"] = None if row["line_bytes"] is None else encode(row["line_bytes"])
    print(json.dumps(row))
"#;
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/bin/python");
    let output = Command::new(&python).args(["-c", SCRIPT]).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}: run 'make clients'", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn exported_records_are_those_of_a_query_however_they_are_divided_into_pages() {
    let dir = TempDir::new().unwrap();
    let node = node_with_records(100);
    let all = queried(&node, &[]);
    assert_eq!(all.lines().count(), 104);
    for page in ["1", "7", "104", "1000"] {
        let path = dir.path().join(page);
        export_whole(&node, &path, &["--page-records", page]);
        assert!(fs::read_to_string(&path).unwrap() == all, "pages of {page}");
    }
    let path = dir.path().join("some");
    export_whole(&node, &path, &["--page-records", "3", "app=json", "--since", "1d"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), queried(&node, &["app=json"]));
    assert_eq!(String::from_utf8(node.cli(&["export", "line 7"]).stdout).unwrap(), queried(&node, &["line 7"]));
    let path = dir.path().join("none");
    export_whole(&node, &path, &["absent"]);
    assert_eq!(fs::read(&path).unwrap(), b"");
    // Nothing else is left.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 6);
}

#[test]
fn parquet_has_all_that_is_said_of_a_record() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("records.parquet");
    let node = node_with_records(50);
    export_whole(&node, &path, &["--format", "parquet", "--page-records", "9"]);
    let rows = parquet_rows(&path);
    let records: Vec<Value> = queried(&node, &[]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), records.len());
    for (row, record) in rows.iter().zip(&records) {
        let or = |name: &str, absent: Value| record.get(name).cloned().unwrap_or(absent);
        let time: jiff::Timestamp = record["time"].as_str().unwrap().parse().unwrap();
        let want = json!({
            "id": record["id"], "time": time.as_microsecond(), "labels": record["labels"],
            "attributes": or("attributes", json!({})), "attributes_bytes": or("attributes_base64", json!({})),
            "line": or("line", Value::Null), "line_bytes": or("line_base64", Value::Null),
            "cut": or("cut", false.into()), "unterminated": or("unterminated", false.into()),
        });
        assert_eq!(*row, want);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_export_that_is_killed_goes_on_and_has_each_record_once() {
    let dir = TempDir::new().unwrap();
    let mut node = node_with_records(3_000);
    let all = queried(&node, &[]);
    for format in ["ndjson", "parquet"] {
        let path = dir.path().join(format);
        let arguments = ["--page-records", "2", "--format", format];
        let mut first = bucksaw(["export", "--addr", &node.url(), "-o"]).arg(&path).args(arguments).spawn().unwrap();
        let exported = || {
            let text = fs::read(beside(&path, ".part.json")).unwrap_or_default();
            serde_json::from_slice(&text).map_or(0, |checkpoint: Value| checkpoint["records"].as_u64().unwrap())
        };
        wait_until("pages are exported", || exported() > 20);
        first.kill().unwrap();
        first.wait().unwrap();
        assert!(exported() < 3_000 && !path.exists(), "the export was complete");
        // A node that restarts in the middle is waited for.
        node.kill();
        node.restart();
        let output = export(&node, &path, &["--format", format]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(
            said.contains("going on after the ") && said.contains(" records that an earlier run exported"),
            "{said}"
        );
        if format == "ndjson" {
            assert!(fs::read_to_string(&path).unwrap() == all, "other records");
        } else {
            let ids: Vec<Value> = parquet_rows(&path).into_iter().map(|row| row["id"].clone()).collect();
            let want = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone());
            assert!(ids == want.collect::<Vec<_>>(), "other records");
        }
    }
}

#[test]
fn errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let node = node_with_records(1);
    let path = dir.path().join("out");
    let check = |arguments: &[&str], code: i32, want: &str| {
        let output = run(bucksaw(["export", "--addr", &node.url()]).args(arguments), b"");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.starts_with("bucksaw: ") && said.contains(want), "{said}");
    };
    check(&["--format", "parquet"], 2, "Parquet needs a file: add -o FILE");
    check(&["a OR"], 2, "column 5");
    fs::write(&path, b"").unwrap();
    let out = path.to_str().unwrap();
    check(&["-o", out], 1, "exists: remove it, or name another file with -o");
    check(&["-o", "/nonexistent/x"], 1, "cannot write /nonexistent/x.part");
    check(&["--since", "1h", "--to", "2h"], 2, "the range ends");
    let url = node.url();
    drop(node);
    let output = run(&mut bucksaw(["export", "--addr", &url]), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("is a node running?"), "{said}");
}
