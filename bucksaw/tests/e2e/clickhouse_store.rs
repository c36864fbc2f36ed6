//! ClickHouse as the store: nothing is lost or doubled while it is away, and hostile records come back as they were.
//!
//! `same_as_grep` compares the answers with those of grep.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clickhouse_server::ClickHouseServer;
use crate::client::encode;
use crate::node::{TestServer, bucksaw, run};
use crate::senders::python;
use crate::wait::{wait_for, wait_until};

/// Segments are stored soon.
const QUICK: &[&str] = &["--segment-max-age", "100ms"];

fn start(database: &ClickHouseServer, more: &[&str]) -> TestServer {
    TestServer::start(&[QUICK, &["--store", &database.url("logs")], more].concat())
}

/// Sends numbered lines with a label, and waits until they are accepted.
fn send(node: &TestServer, numbers: std::ops::Range<u32>) {
    let text: String = numbers.map(|number| format!("line {number} of the test\n")).collect();
    let answer = node.post(
        "/api/v1/ingest?durability=durable&label=app=shop",
        &[("Content-Type", "text/plain")],
        text.as_bytes(),
    );
    answer.expect(200);
}

/// The matching lines, oldest first.
fn lines(node: &TestServer, query: &str) -> Vec<String> {
    let answer = node.call("GET", &format!("/api/v1/query?{query}"), &[("Accept", "text/plain")], b"").expect(200);
    let stats: Value = serde_json::from_str(answer.header("bucksaw-stats").unwrap()).unwrap();
    assert_eq!(stats["partial"], false, "{query}: {stats}");
    answer.text().lines().map(str::to_owned).collect()
}

/// Requests of one millisecond come in any order.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("line {number} of the test")).collect()
}

#[test]
fn all_kinds_of_answers_come_from_clickhouse() {
    let database = ClickHouseServer::start();
    let node = start(&database, &[]);
    send(&node, 0..5_000);
    node.wait_stored();
    send(&node, 5_000..5_100);
    assert_eq!(lines(&node, "q=app=shop"), numbered(0..5_100));
    let newest: Vec<String> = numbered(5_090..5_100).into_iter().rev().collect();
    assert_eq!(lines(&node, "order=desc&limit=10"), newest);
    assert_eq!(lines(&node, "q=%22line+77+of%22"), numbered(77..78));
    for (expression, count) in
        [("", 5_100), ("app=shop", 5_100), ("app=other", 0), ("-app=shop", 0), ("line", 5_100), ("/line 1?7 /", 2)]
    {
        assert_eq!(node.count(expression), count, "{expression}");
    }
    node.wait_stored();
    assert_eq!(database.ask("SELECT count(), uniqExact(id) FROM logs.records"), "5100\t5100");
    assert_eq!(lines(&node, "order=desc&limit=10"), newest);
    let histogram = node.get("/api/v1/histogram?from=1h&buckets=10&q=line").expect(200).json();
    let buckets = histogram["buckets"].as_array().unwrap().iter();
    assert_eq!(buckets.map(|bucket| bucket["count"].as_u64().unwrap()).sum::<u64>(), 5_100, "{histogram}");
    let streams = node.get("/api/v1/streams?from=1h").expect(200).json();
    assert_eq!(streams["streams"][0]["records"], 5_100, "{streams}");
    let fields = node.get("/api/v1/fields?from=1h").expect(200).json();
    let app = fields["fields"].as_array().unwrap().iter().find(|field| field["name"] == "app").unwrap();
    assert_eq!(app["values"][0]["value"], "shop", "{fields}");
    // The records around one.
    let found = node.get("/api/v1/query?q=%22line+77+of%22").expect(200).text();
    let id = serde_json::from_str::<Value>(found.lines().next().unwrap()).unwrap()["id"].as_str().unwrap().to_owned();
    let context = node.get(&format!("/api/v1/context?id={id}&before=2&after=2")).expect(200).json();
    let around = context["records"].as_array().unwrap().iter();
    assert_eq!(around.map(|record| record["line"].as_str().unwrap()).collect::<Vec<_>>(), numbered(75..80));
}

#[test]
fn hostile_records_come_back_as_they_were() {
    let database = ClickHouseServer::start();
    // In the queue until the restart.
    let mut node = TestServer::start(&["--segment-max-age", "1h", "--store", &database.url("logs")]);
    let hostile =
        ["'; DROP TABLE logs.records; --", "{p0:String}", "`a`\\'\\0", "%_\\%", "\u{1f98a}\u{0}x", "a\tb\\n", "1e999"];
    // As OTLP, whose records have labels and attributes.
    let value = |text: &str| json!({"stringValue": text});
    let resource = |text: &&str| {
        let label = json!({"key": "service.name", "value": value(text)});
        let attributes = json!([{"key": "quoted'`\"", "value": value(text)}, {"key": "lines", "value": value("a\nb")}]);
        let record = json!({"body": value(&format!("body {text}")), "attributes": attributes});
        json!({"resource": {"attributes": [label]}, "scopeLogs": [{"logRecords": [record]}]})
    };
    let body = json!({"resourceLogs": hostile.iter().map(resource).collect::<Vec<_>>()}).to_string();
    node.post("/v1/logs", &[("Content-Type", "application/json")], body.as_bytes()).expect(200);
    let long = [vec![b'l'; 1 << 20], b"\n\xff\xfe\0\x80 end\n".to_vec()].concat();
    let plain = [("Content-Type", "text/plain")];
    node.post("/api/v1/ingest?durability=durable&label=kind=long", &plain, &long).expect(200);
    let asked = |node: &TestServer| {
        let text = node.call("GET", "/api/v1/query?q=kind=long", &[("Accept", "text/plain")], b"").expect(200).body;
        let mut answers = vec![text];
        for text in hostile {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            for expression in [format!("\"{quoted}\""), format!("service.name=\"{quoted}\"")] {
                answers.push(node.get(&format!("/api/v1/query?q={}", encode(&expression))).expect(200).body);
                answers.push(node.count(&expression).to_string().into_bytes());
            }
        }
        answers
    };
    let before = asked(&node);
    assert!(before[0] == long);
    let counts: Vec<&[u8]> = before.iter().skip(2).step_by(2).map(Vec::as_slice).collect();
    assert!(
        counts.iter().all(|count| *count == b"1"),
        "{}",
        before[1..].iter().map(|answer| shown(answer)).collect::<String>()
    );
    assert_eq!(node.status()["store"]["records"], 0);
    node.restart();
    node.wait_stored();
    assert_eq!(database.ask("SELECT count() FROM logs.records"), (hostile.len() + 2).to_string());
    let after = asked(&node);
    assert!(after[0] == long);
    for (before, after) in before.iter().zip(&after).skip(1) {
        // The statistics at the end differ.
        let records = |answer: &[u8]| {
            let lines = shown(answer);
            lines.lines().filter(|line| !line.starts_with("{\"stats\"")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(records(after), records(before));
    }
}

/// The start of an answer.
fn shown(answer: &[u8]) -> String {
    String::from_utf8_lossy(&answer[..answer.len().min(4_000)]).into_owned()
}

#[test]
fn nothing_is_lost_or_doubled_while_clickhouse_and_the_node_are_killed() {
    let mut database = ClickHouseServer::start();
    let mut node = start(&database, &[]);
    let mut sent = 0;
    for round in 0..6 {
        for _ in 0..4 {
            send(&node, sent..sent + 500);
            sent += 500;
        }
        match round % 3 {
            // In the middle of a batch, or between two.
            0 => database.kill(),
            1 => node.restart(),
            _ => {}
        }
        send(&node, sent..sent + 500);
        sent += 500;
        if round % 3 == 0 {
            let seen = wait_for("the failure is reported", || {
                let database = node.status()["database"].clone();
                database["failure"].is_string().then_some(database)
            });
            assert!(seen["failure"].as_str().unwrap().starts_with("cannot store records in clickhouse://"), "{seen}");
            // An answer without the database is partial, and says why.
            let answer = node.get("/api/v1/count?from=1h").expect(200).json();
            assert_eq!(answer["stats"]["partial"], true, "{answer}");
            assert!(answer.to_string().contains("cannot be read: cannot connect"), "{answer}");
            database.restart();
        }
        wait_until("all are found", || {
            lines_if_whole(&node).is_some_and(|lines| sorted(lines) == sorted(numbered(0..sent)))
        });
        assert_eq!(node.count("line"), u64::from(sent));
    }
    node.wait_stored();
    assert_eq!(node.status()["database"]["failure"], Value::Null);
    assert_eq!(database.ask("SELECT count(), uniqExact(id) FROM logs.records"), format!("{sent}\t{sent}"));
    assert!(sorted(lines(&node, "")) == sorted(numbered(0..sent)));
}

/// The lines of a whole answer.
fn lines_if_whole(node: &TestServer) -> Option<Vec<String>> {
    let answer = node.call("GET", "/api/v1/query", &[("Accept", "text/plain")], b"");
    let stats: Value = serde_json::from_str(answer.header("bucksaw-stats")?).unwrap();
    (stats["partial"] == false).then(|| answer.text().lines().map(str::to_owned).collect())
}

#[test]
fn a_node_starts_without_clickhouse_and_stores_later() {
    let mut database = ClickHouseServer::start();
    database.kill();
    let node = start(&database, &[]);
    send(&node, 0..100);
    assert!(node.status()["database"]["failure"].is_string());
    database.restart();
    node.wait_stored();
    assert_eq!(lines(&node, ""), numbered(0..100));
    assert_eq!(database.ask("SELECT count() FROM logs.records"), "100");
}

#[test]
fn a_repeated_row_counts_once() {
    let database = ClickHouseServer::start();
    let node = start(&database, &[]);
    send(&node, 0..1_000);
    node.wait_stored();
    database.ask("INSERT INTO logs.records SELECT * FROM logs.records");
    assert_eq!(database.ask("SELECT count() FROM logs.records"), "2000");
    assert_eq!(lines(&node, "q=line"), numbered(0..1_000));
    for expression in ["", "line", "app=shop"] {
        assert_eq!(node.count(expression), 1_000, "{expression}");
    }
}

#[test]
fn a_query_ends_in_time_while_clickhouse_is_frozen() {
    let database = ClickHouseServer::start();
    let node = start(&database, &["--query-timeout", "1s"]);
    send(&node, 0..100);
    node.wait_stored();
    database.freeze();
    let started = Instant::now();
    let answer = node.get("/api/v1/count?from=1h&q=line").expect(200).json();
    assert_eq!(answer["stats"]["partial"], true, "{answer}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    send(&node, 100..200);
    database.thaw();
    node.wait_stored();
    assert_eq!(lines(&node, "q=line"), numbered(0..200));
}

#[test]
fn the_nodes_of_a_cluster_share_a_database() {
    let database = ClickHouseServer::start();
    let first = start(&database, &[]);
    let second = start(&database, &["--join", first.address("cluster")]);
    wait_until("both know each other", || {
        let nodes = second.get("/api/v1/cluster").expect(200).json()["nodes"].as_array().unwrap().len();
        nodes == 2 && first.get("/api/v1/cluster").expect(200).json()["nodes"].as_array().unwrap().len() == 2
    });
    send(&first, 0..1_000);
    send(&second, 1_000..2_000);
    let found = |node: &TestServer| lines_if_whole(node).map(sorted);
    let want = sorted(numbered(0..2_000));
    for node in [&first, &second] {
        wait_until("all are found", || found(node).is_some_and(|found| found == want));
    }
    first.wait_stored();
    second.wait_stored();
    let reads = |node: &TestServer| node.metric("bucksaw_clickhouse_reads_total");
    for (node, other) in [(&first, &second), (&second, &first)] {
        let before = reads(other);
        assert_eq!((found(node).as_ref(), node.count("line")), (Some(&want), 2_000));
        assert_eq!(reads(other), before, "the other node has read the database too");
        let streams = node.get("/api/v1/streams?from=1h").expect(200).json();
        assert_eq!(streams["streams"][0]["records"], 2_000, "{streams}");
    }
    assert_eq!(database.ask("SELECT count(), uniqExact(id) FROM logs.records"), "2000\t2000");
    // The records of a node that is gone are not missing.
    drop(second);
    wait_until("the other is down", || {
        first.get("/api/v1/cluster").expect(200).json().to_string().contains("\"down\"")
    });
    assert_eq!(node_count(&first), 2_000);
}

/// A count that may be partial: the queue of a node that is down may have records.
fn node_count(node: &TestServer) -> u64 {
    node.get("/api/v1/count?from=1h&q=line").expect(200).json()["count"].as_u64().unwrap()
}

#[test]
fn a_sink_gets_each_record_once_while_clickhouse_and_the_node_are_killed() {
    let mut database = ClickHouseServer::start();
    let sink = ["--clickhouse-sink", &database.url("logs?table=copies&retention=90d")];
    let mut node = TestServer::start(&[QUICK, &sink].concat());
    let mut sent = 0;
    for round in 0..6 {
        match round % 3 {
            0 => database.kill(),
            1 => node.restart(),
            _ => {}
        }
        for _ in 0..5 {
            send(&node, sent..sent + 500);
            sent += 500;
        }
        // The segments have the records, whatever ClickHouse does.
        node.wait_stored();
        assert!(sorted(lines(&node, "")) == sorted(numbered(0..sent)));
        if round % 3 == 0 {
            let seen = wait_for("the failure is reported", || {
                let sink = node.status()["sink"].clone();
                (sink["failure"].is_string() && sink["waiting_inserts"] != 0).then_some(sink)
            });
            assert!(seen["failure"].as_str().unwrap().starts_with("cannot send records to clickhouse://"), "{seen}");
            node.restart();
            database.restart();
        }
    }
    wait_until("nothing waits", || node.status()["sink"]["waiting_inserts"] == 0);
    assert_eq!(
        database.ask("SELECT count(), uniqExact(id), uniqExact(line) FROM logs.copies"),
        format!("{sent}\t{sent}\t{sent}")
    );
    wait_until("the failure is over", || node.status()["sink"]["failure"].is_null());
    assert_eq!(std::fs::read_dir(node.dir().join("clickhouse")).unwrap().count(), 0);
}

/// What ClickHouse does, and the setting of the tables with which it does that, and without.
const OBSTACLES: [(&str, &str, &str); 2] = [
    (
        "ClickHouse error 252: Too many parts",
        "parts_to_delay_insert = 0, parts_to_throw_insert = 1",
        "parts_to_delay_insert = 1000, parts_to_throw_insert = 3000",
    ),
    (
        "ClickHouse error 243: ",
        "min_free_disk_bytes_to_perform_insert = 1000000000000000",
        "min_free_disk_bytes_to_perform_insert = 0",
    ),
];

/// One server, for a node whose store it is and for one that sends it copies.
#[test]
fn nothing_is_lost_or_doubled_while_clickhouse_refuses_is_full_or_slow() {
    let mut database = ClickHouseServer::start();
    let store = start(&database, &[]);
    let sink = ["--clickhouse-sink", &database.url("logs?table=copies")];
    let copies = TestServer::start(&[QUICK, &sink].concat());
    let nodes = [&store, &copies];
    let mut sent = 0;
    let mut send_both = |count: u32| {
        nodes.iter().for_each(|node| send(node, sent..sent + count));
        sent += count;
        sent
    };
    let set = |settings: &str| {
        for table in ["records", "copies"] {
            database.ask(&format!("ALTER TABLE logs.{table} MODIFY SETTING {settings}"));
        }
    };
    let wait_idle = || {
        nodes.iter().for_each(|node| node.wait_stored());
        wait_until("nothing waits", || copies.status()["sink"]["waiting_inserts"] == 0);
    };
    send_both(500);
    wait_idle();
    for (words, with, without) in OBSTACLES {
        set(with);
        let total = send_both(500);
        for (node, key) in [(&store, "database"), (&copies, "sink")] {
            let seen = wait_for("the failure is reported", || {
                let part = node.status()[key].clone();
                part["failure"].is_string().then_some(part)
            });
            assert!(seen["failure"].as_str().unwrap().contains(words) && seen["failing_since"].is_string(), "{seen}");
            // ClickHouse answers queries, and the queue has the rest.
            assert!(sorted(lines(node, "")) == sorted(numbered(0..total)));
            let status = String::from_utf8(node.cli(&["status"]).stdout).unwrap();
            assert!(status.contains(words), "{status}");
        }
        let waits = copies.status()["sink"].clone();
        assert!(waits["waiting_inserts"].as_u64() > Some(0) && waits["waiting_bytes"].as_u64() > Some(0), "{waits}");
        assert!(store.status()["queue"]["pending_bytes"].as_u64() > Some(0));
        set(without);
        wait_idle();
    }
    // Inserts that take a second, one of them interrupted by a kill.
    set("parts_to_delay_insert = 1, max_delay_to_insert = 1, min_delay_to_insert_ms = 1000");
    send_both(500);
    wait_until("an insert runs", || {
        database.ask("SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'") != "0"
    });
    database.restart();
    let total = send_both(500);
    wait_idle();
    let all = format!("{total}\t{total}\t{total}");
    for table in ["records", "copies"] {
        assert_eq!(database.ask(&format!("SELECT count(), uniqExact(id), uniqExact(line) FROM logs.{table}")), all);
    }
    for (node, key) in [(&store, "database"), (&copies, "sink")] {
        assert_eq!(node.status()[key]["failure"], Value::Null);
        assert!(sorted(lines(node, "")) == sorted(numbered(0..total)));
    }
}

/// A table over two shards, made by hand as the documents say, of which one is killed.
#[test]
fn the_shards_of_a_distributed_table_get_each_record_once() {
    let [first, mut second] = ClickHouseServer::start_shards();
    // A node creates the table of a shard.
    drop(start(&first, &[]));
    second.ask("CREATE DATABASE logs");
    second.ask(&first.ask("SHOW CREATE TABLE logs.records FORMAT TSVRaw"));
    let comment = first.ask("SELECT comment FROM system.tables WHERE database = 'logs' AND name = 'records'");
    first.ask(&format!(
        "CREATE TABLE logs.spread AS logs.records ENGINE = Distributed(shards, logs, records, cityHash64(id)) \
         COMMENT '{comment}'"
    ));
    let node = TestServer::start(&[QUICK, &["--store", &first.url("logs?table=spread")]].concat());
    send(&node, 0..2_000);
    node.wait_stored();
    second.kill();
    send(&node, 2_000..4_000);
    wait_until("the failure is reported", || node.status()["database"]["failure"].is_string());
    second.restart();
    node.wait_stored();
    assert_eq!(sorted(lines(&node, "")), sorted(numbered(0..4_000)));
    assert_eq!((node.count(""), node.count("line"), node.count("\"line 77 of\"")), (4_000, 4_000, 1));
    let rows = |server: &ClickHouseServer| {
        let counts = server.ask("SELECT count(), uniqExact(id) FROM logs.records");
        let (rows, ids) = counts.split_once('\t').unwrap();
        assert_eq!(rows, ids);
        rows.parse::<u64>().unwrap()
    };
    let rows = [&first, &second].map(rows);
    assert!(rows.iter().sum::<u64>() == 4_000 && rows.iter().all(|rows| *rows > 1_000), "{rows:?}");
}

/// The server of the tests does not speak TLS, so a proxy before it does.
#[test]
fn clickhouse_is_reached_by_tls_and_identifies_itself() {
    let database = ClickHouseServer::start();
    let certificates = tempfile::tempdir().unwrap();
    let file = |name: &str| certificates.path().join(name).display().to_string();
    for arguments in [&["certs", "ca"][..], &["certs", "node", "127.0.0.1"]] {
        let made = run(bucksaw(arguments).args(["--dir", &file("")]), b"");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let proxy = TlsProxy::start(&file("127.0.0.1.pem"), &file("127.0.0.1.key"), database.http_port);
    let (url, ca) = (format!("clickhouses://127.0.0.1:{}/logs", proxy.port), file("ca.pem"));
    let node = TestServer::start(&[QUICK, &["--store", &url, "--database-ca", &ca]].concat());
    send(&node, 0..1_000);
    node.wait_stored();
    assert_eq!(database.ask("SELECT count() FROM logs.records"), "1000");
    assert!(sorted(lines(&node, "q=line")) == sorted(numbered(0..1_000)));
    let refused = |flags: &[&str], words: &str| {
        let home = tempfile::tempdir().unwrap();
        let Err((_, log)) = TestServer::try_start_in(home.path(), flags) else { panic!("{flags:?} are accepted") };
        assert!(log.contains(words), "{flags:?}: {log}");
    };
    refused(&["--store", &url], "not signed by a CA that is trusted here: name the file of its CA with --database-ca");
    let plain = format!("clickhouses://{}/logs", answers_in_plain_text());
    refused(&["--store", &plain, "--database-ca", &ca], "does not speak TLS at this port");
    refused(&["--database-ca", &ca], "--database-ca: connections to ClickHouse use TLS with clickhouses://");
}

/// The address of a server that answers as HTTP servers do to a handshake. Unlike some, it does not reset the connection, which
/// the client could notice before the answer.
fn answers_in_plain_text() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // Fails if the client has gone, and then it waits for that.
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = io::copy(&mut connection, &mut io::sink());
        }
    });
    address
}

/// A process that accepts TLS for a port in plain text.
struct TlsProxy {
    child: Child,
    port: u16,
}

impl TlsProxy {
    fn start(certificate: &str, key: &str, to: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../senders/clients/tls_proxy.py");
        let mut command = Command::new(python());
        command.arg(script).args([certificate, key, &to.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_wrong_database_is_an_error_at_the_start() {
    let database = ClickHouseServer::start();
    database.ask("CREATE DATABASE other");
    database.ask("CREATE TABLE other.records (x UInt8) ENGINE = MergeTree ORDER BY x");
    let refused = |store: &str, words: &str| {
        let home = tempfile::tempdir().unwrap();
        let Err((_, log)) = TestServer::try_start_in(home.path(), &["--store", store]) else {
            panic!("{store} is accepted")
        };
        assert!(log.contains(words), "{store}: {log}");
    };
    refused(&database.url("other"), "the table exists and has no comment");
    database.ask("CREATE TABLE other.newer (id UInt128) ENGINE = MergeTree ORDER BY id COMMENT 'bucksaw schema 99'");
    refused(&format!("{}?table=newer", database.url("other")), "has schema 99, which is newer than this program");
    refused(&database.url("logs").replace("//", "//unknown@"), "ClickHouse error");
    refused("clickhouse://u:secret@h/d", "not in the URL");
    refused("elsewhere", "expected `segments`");
}
