//! Lines over TCP.

use std::collections::BTreeSet;

use bucksaw_ingest::Durability;
use bucksaw_record::{Flags, Id, Labels};
use bucksaw_sources::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::node::{ListenerNode, TestRng, joined, wait_until};

/// Sends the stream in random chunks, and returns when the node has closed its side.
async fn send(node: &ListenerNode, stream: &[u8], random: &mut TestRng, chunk_max: usize) {
    let mut socket = node.connect().await;
    socket.set_nodelay(true).unwrap();
    let mut rest = stream;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(1 + random.below(chunk_max)));
        socket.write_all(chunk).await.unwrap();
        rest = after;
        if random.below(4) == 0 {
            tokio::task::yield_now().await;
        }
    }
    socket.shutdown().await.unwrap();
    assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
}

#[tokio::test]
async fn every_byte_arrives_however_it_is_sent() {
    for (seed, durability) in (0..12).zip([Durability::Fast, Durability::Durable, Durability::Bulk].into_iter().cycle())
    {
        let mut random = TestRng::new(seed);
        let mut node = ListenerNode::start(durability, Config { record_bytes_max: 500, ..Config::default() }).await;
        let stream = random.stream(60_000, 3_000);
        send(&node, &stream, &mut random, 4_000).await;
        let records = node.stop().await;
        assert!(joined(&records) == stream, "seed {seed}");
        assert!(records.iter().all(|record| record.text.len() <= 500));
        let ids: BTreeSet<Id> = records.iter().map(|record| record.id).collect();
        assert_eq!(ids.len(), records.len());
        assert!(records.is_sorted_by_key(|record| record.id) && records.iter().all(|record| record.labels.is_empty()));
        let cuts = records.iter().filter(|record| record.flags & Flags::CUT != 0).count();
        assert_eq!(node.metric("ingest_cut_records_total{source=\"tcp\"}"), cuts as f64);
    }
}

#[tokio::test]
async fn lines_over_a_mebibyte_are_cut_there() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut stream = b"before\n".to_vec();
    stream.resize(stream.len() + (5 << 19), b'y');
    stream.extend_from_slice(b"\nafter");
    send(&node, &stream, &mut TestRng::new(1), 300_000).await;
    let records = node.stop().await;
    let got: Vec<(usize, u8)> = records.iter().map(|record| (record.text.len(), record.flags)).collect();
    assert_eq!(got, [(6, 0), (1 << 20, Flags::CUT), (1 << 20, Flags::CUT), (1 << 19, 0), (5, Flags::UNTERMINATED)]);
    assert!(joined(&records) == stream);
}

#[tokio::test]
async fn a_first_line_sets_the_labels() {
    let check = async |stream: &str, labels: &str, texts: &[&str]| {
        let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
        send(&node, stream.as_bytes(), &mut TestRng::new(stream.len() as u64), 7).await;
        let records = node.stop().await;
        assert_eq!(node.texts(), texts, "{stream:?}");
        assert!(records.iter().all(|record| record.labels == Labels::parse(labels).unwrap()), "{stream:?}");
    };
    check("#labels app=web,path=\"/a,b\"\nx\n", "app=web,path=\"/a,b\"", &["x"]).await;
    check("#labels app=web\r\nx\n#labels app=db\n", "app=web", &["x", "#labels app=db"]).await;
    check("#labels app=web\n", "", &[]).await;
    check("#labels nonsense\nx\n", "", &["#labels nonsense", "x"]).await;
    check("#labels app=web", "", &["#labels app=web"]).await;
    check("#lab", "", &["#lab"]).await;
    check("/a%20b 50% done %d%s%n\n", "", &["/a%20b 50% done %d%s%n"]).await;
    check("", "", &[]).await;
    let long = format!("#labels {}=x\n", "a".repeat(70_000));
    check(&long, "", &[long.trim_end()]).await;
}

#[tokio::test]
async fn an_incomplete_magic_is_a_line() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    send(&node, b"\x89BSW\r\n\x1a", &mut TestRng::new(1), 3).await;
    let records = node.stop().await;
    let got: Vec<_> = records.iter().map(|record| (record.text.as_slice(), record.flags)).collect();
    assert_eq!(got, [(&b"\x89BSW\r"[..], 0), (&b"\x1a"[..], Flags::UNTERMINATED)]);
}

#[tokio::test]
async fn five_hundred_idle_connections_make_one_file() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut sockets = Vec::new();
    for number in 0..500 {
        let mut socket = node.connect().await;
        socket.write_all(format!("line {number}\npartial").as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    node.until_records(500).await;
    assert_eq!(node.metric("sources_connections{listener=\"fast\"}"), 500.0);
    assert_eq!(node.files(), 1);
    let records = node.stop().await;
    assert_eq!(
        records.iter().filter(|record| record.flags == Flags::UNTERMINATED && record.text == b"partial").count(),
        500
    );
    let producers: BTreeSet<_> = records.iter().map(|record| record.id.producer()).collect();
    assert_eq!((records.len(), producers.len(), node.files()), (1_000, 500, 1));
    assert_eq!(node.metric("sources_connections{listener=\"fast\"}"), 0.0);
}

#[tokio::test]
async fn unfinished_lines_occupy_a_bounded_memory() {
    let config = Config { partial_bytes_max: 64 << 10, ..Config::default() };
    let mut node = ListenerNode::start(Durability::Fast, config).await;
    let mut sockets = Vec::new();
    for number in 0..40_u8 {
        let mut socket = node.connect().await;
        socket.write_all(&[b'a' + number % 26; 8_000]).await.unwrap();
        sockets.push(socket);
    }
    // 64 KiB may stay in memory, and 4 KiB per connection; the rest must be appended.
    let appended_min = 40 * 8_000 - (64 << 10) - 40 * (4 << 10);
    wait_until("cut lines", || node.records().iter().map(|record| record.text.len()).sum::<usize>() >= appended_min)
        .await;
    assert!(node.records().iter().all(|record| record.flags == Flags::CUT));
    let records = node.stop().await;
    assert_eq!(records.iter().map(|record| record.text.len()).sum::<usize>(), 40 * 8_000);
}

#[tokio::test]
async fn bytes_received_before_a_reset_are_appended() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut socket = node.connect().await;
    socket.write_all(b"whole\nhalf").await.unwrap();
    node.until_records(1).await;
    socket.set_zero_linger().unwrap();
    drop(socket);
    node.until_records(2).await;
    let records = node.stop().await;
    assert_eq!((joined(&records), records[1].flags), (b"whole\nhalf".to_vec(), Flags::UNTERMINATED));
}

#[tokio::test]
async fn connections_above_the_limit_are_closed_at_once() {
    let mut node = ListenerNode::start(Durability::Fast, Config { connections_max: 2, ..Config::default() }).await;
    let refused = "sources_connections_refused_total{listener=\"fast\"}";
    let mut first = node.connect().await;
    first.write_all(b"1\n").await.unwrap();
    let mut second = node.connect().await;
    second.write_all(b"2\n").await.unwrap();
    node.until_records(2).await;
    let mut third = node.connect().await;
    // Closed, or reset.
    assert!(!matches!(third.read(&mut [0]).await, Ok(1..)));
    assert_eq!(node.metric(refused), 1.0);
    drop(first);
    wait_until("a slot is free", || node.metric("sources_connections{listener=\"fast\"}") == 1.0).await;
    let mut fourth = node.connect().await;
    fourth.write_all(b"3\n").await.unwrap();
    node.until_records(3).await;
    assert_eq!((node.texts(), node.metric(refused)), (["1", "2", "3"].map(str::to_owned).to_vec(), 1.0));
    assert_eq!(node.stop().await.len(), 3);
}
