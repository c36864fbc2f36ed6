//! All lines arrive, in order and once, also over lost connections.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_forward::{Config, Summary, run};
use bucksaw_ingest::Durability;
use bucksaw_record::{Flags, Labels};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::node::{IngestNode, config, cutting_proxy};

async fn ship(input: &[u8], config: Config) -> Summary {
    let (_stop, stopped) = watch::channel(false);
    let shipping = run(input, config, Env::real(), stopped);
    tokio::time::timeout(Duration::from_secs(60), shipping).await.expect("the agent does not end").unwrap()
}

/// Numbered lines of many lengths, with percent signs.
fn numbered(count: usize) -> String {
    (0..count).map(|number| format!("{number} 50% of %d%s {}\n", "x".repeat(number * 37 % 150))).collect()
}

#[tokio::test]
async fn every_byte_arrives_with_every_durability() {
    for durability in [Durability::Fast, Durability::Durable, Durability::Bulk] {
        let node = IngestNode::start(durability).await;
        let mut input = b"crlf\r\n\0\n\xff\xfe\n\n/a%20b 50% done\n".to_vec();
        input.resize(input.len() + 70_000, b'y');
        input.push(b'\n');
        input.resize(input.len() + (3 << 19), b'z');
        input.extend_from_slice(b"\nopen");
        let labels = Labels::parse("app=web").unwrap();
        // A small window: on the bulk port each window must be flushed, because no segment is closed by its age.
        let config = Config { labels: labels.clone(), window_bytes: 100_000, ..config(&[node.address]) };
        let summary = ship(&input, config).await;
        let records = node.records();
        let mut stream = Vec::new();
        for record in &records {
            stream.extend_from_slice(&record.text);
            if record.flags == 0 {
                stream.push(b'\n');
            }
        }
        assert!(stream == input, "{durability}");
        let flags: Vec<u8> = records.iter().map(|record| record.flags).collect();
        assert_eq!(flags, [0, 0, 0, 0, 0, 0, Flags::CUT, 0, Flags::UNTERMINATED]);
        assert!(records.iter().all(|record| record.labels == labels));
        assert_eq!(summary, Summary { records: 9, bytes: input.len() as u64 + 2, ..Summary::default() });
    }
}

#[tokio::test]
async fn fifty_dropped_connections_lose_and_duplicate_nothing() {
    for (seed, durability) in [(1, Durability::Fast), (2, Durability::Durable), (3, Durability::Bulk)] {
        let node = IngestNode::start(durability).await;
        let (proxy, cuts) = cutting_proxy(node.address, 50, 60_000, seed).await;
        let lines = 40_000;
        let input = numbered(lines);
        let config = Config { batch_bytes: 4_000, window_bytes: 64_000, ..config(&[proxy]) };
        let summary = ship(input.as_bytes(), config).await;
        // Connections that are cut before the hello reply do not count as reconnects.
        assert!(cuts.load(Ordering::Relaxed) > 50 && summary.reconnects > 30, "{summary:?}");
        assert_eq!((summary.records, summary.bytes), (lines as u64, input.len() as u64));
        let mut by_id = BTreeMap::new();
        let mut repeats = 0;
        for record in node.records() {
            if let Some(before) = by_id.insert(record.id, record.text.clone()) {
                assert!(before == record.text, "one id, two records");
                repeats += 1;
            }
        }
        assert!(repeats > 0, "no cut lost an acknowledgement");
        assert!(by_id.values().map(Vec::as_slice).eq(input.lines().map(str::as_bytes)), "{durability}");
    }
}

#[tokio::test]
async fn an_unreachable_node_is_skipped() {
    let unreachable = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let node = IngestNode::start(Durability::Fast).await;
    let summary = ship(b"a\nb\n", config(&[unreachable, node.address])).await;
    assert_eq!((summary.records, node.records().len()), (2, 2));
}

#[tokio::test]
async fn an_empty_input_needs_no_node() {
    let unreachable = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(ship(b"", config(&[unreachable])).await, Summary::default());
}

#[tokio::test]
async fn a_few_lines_are_sent_without_waiting_for_more() {
    let node = IngestNode::start(Durability::Fast).await;
    let (mut pipe, input) = tokio::io::duplex(1_000);
    let (stop, stopped) = watch::channel(false);
    let shipping = tokio::spawn(run(input, config(&[node.address]), Env::real(), stopped));
    for count in 1..4 {
        pipe.write_all(b"line\nha").await.unwrap();
        while node.records().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // The pipe stays open; the stop ends the input.
    stop.send_replace(true);
    assert_eq!(shipping.await.unwrap().unwrap().records, 4);
    let records = node.records();
    let texts: Vec<&[u8]> = records.iter().map(|record| record.text.as_slice()).collect();
    assert_eq!(texts, [&b"line"[..], b"haline", b"haline", b"ha"]);
    assert_eq!(records[3].flags, Flags::UNTERMINATED);
    assert!(records.is_sorted_by_key(|record| record.id));
}
