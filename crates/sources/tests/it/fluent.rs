//! The listener of Fluentd's forward protocol.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_sources::{Config, ListenerProtocol, ListenerSetup, SharedKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::node::{ListenerNode, run_ready_tasks, wait_until};

async fn start(durability: Durability, key: Option<&str>, config: Config) -> ListenerNode {
    let protocol = ListenerProtocol::Fluent(key.map(|key| SharedKey::new(key.as_bytes())));
    let setup = ListenerSetup { name: "fluent", durability, protocol };
    ListenerNode::start_setup(setup, config, bucksaw_ingest::Config::default()).await
}

/// `["t", 1700000000, {"log": line}, {"chunk": chunk}]`, without the options if there is no chunk.
fn message(line: &str, chunk: &str) -> Vec<u8> {
    let text = |text: &str| [&[0xda][..], &(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let head = if chunk.is_empty() { 0x93 } else { 0x94 };
    let mut message = [&[head][..], b"\xa1t\xce\x65\x53\xf1\x00\x81\xa3log", &text(line)].concat();
    if !chunk.is_empty() {
        message.extend_from_slice(&[b"\x81\xa5chunk", &text(chunk)[..]].concat());
    }
    message
}

fn ack(chunk: &str) -> Vec<u8> {
    [&b"\x81\xa3ack\xda"[..], &(chunk.len() as u16).to_be_bytes(), chunk.as_bytes()].concat()
}

async fn expect(socket: &mut TcpStream, want: &[u8]) {
    let mut got = vec![0; want.len()];
    tokio::time::timeout(Duration::from_secs(20), socket.read_exact(&mut got)).await.unwrap().unwrap();
    assert_eq!(got.escape_ascii().to_string(), want.escape_ascii().to_string());
}

#[tokio::test]
async fn a_chunk_is_acknowledged_when_it_is_durable_and_stored_once() {
    let mut node = start(Durability::Durable, None, Config::default()).await;
    let mut socket = node.connect().await;
    socket.write_all(&message("one", "c1")).await.unwrap();
    node.until_records(1).await;
    // Only a sync makes it durable.
    assert!(socket.try_read(&mut [0; 9]).is_err());
    assert!(node.waiting_senders.is_any());
    node.queue.commit_group();
    expect(&mut socket, &ack("c1")).await;
    assert!(!node.waiting_senders.is_any());
    // The sender has not seen the acknowledgement, and sends the chunk again by another connection, and then another chunk.
    let mut again = node.connect().await;
    again.write_all(&[message("one", "c1"), message("two", "c2")].concat()).await.unwrap();
    node.until_records(3).await;
    node.queue.commit_group();
    expect(&mut again, &[ack("c1"), ack("c2")].concat()).await;
    assert_eq!(node.waiting_senders.ended(), 3);
    let mut ids: Vec<_> = node.stop().await.into_iter().map(|record| (record.id, record.text)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[tokio::test]
async fn two_chunks_with_one_name_are_both_stored() {
    let mut node = start(Durability::Fast, None, Config::default()).await;
    let mut socket = node.connect().await;
    socket.write_all(&[message("one", "c1"), message("two", "c1")].concat()).await.unwrap();
    expect(&mut socket, &[ack("c1"), ack("c1")].concat()).await;
    assert_eq!(node.texts(), ["one", "two"]);
    node.stop().await;
}

#[tokio::test]
async fn while_the_disk_is_full_nothing_is_acknowledged_or_lost() {
    let mut node = start(Durability::Fast, None, Config::default()).await;
    node.fs.set_capacity(Some(0));
    let (mut named, mut unnamed) = (node.connect().await, node.connect().await);
    named.write_all(&message("one", "c1")).await.unwrap();
    run_ready_tasks().await;
    unnamed.write_all(&message("two", "")).await.unwrap();
    wait_until("refusals", || node.metric("ingest_refused_appends_total") > 0.0).await;
    assert!(named.try_read(&mut [0; 9]).is_err());
    node.fs.set_capacity(None);
    expect(&mut named, &ack("c1")).await;
    node.until_records(2).await;
    let mut texts = node.texts();
    texts.sort();
    assert_eq!(texts, ["one", "two"]);
    node.stop().await;
}

#[tokio::test]
async fn a_long_message_arrives_in_parts_and_a_longer_one_is_refused() {
    let config = Config { record_bytes_max: 4_000, partial_bytes_max: 50_000, ..Config::default() };
    let mut node = start(Durability::Fast, None, config).await;
    let line = "x".repeat(60_000);
    let mut socket = node.connect().await;
    for part in message(&line, "c1").chunks(7_000) {
        socket.write_all(part).await.unwrap();
        tokio::task::yield_now().await;
    }
    expect(&mut socket, &ack("c1")).await;
    assert_eq!(node.records().iter().map(|record| record.text.len()).sum::<usize>(), 60_000);
    // A string of 4 GiB, of which nothing is sent.
    socket.write_all(b"\x93\xa1t\x00\xdb\xff\xff\xff\xff").await.unwrap();
    assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
    assert_eq!(node.metric("sources_protocol_errors_total"), 1.0);
    node.stop().await;
}

#[tokio::test]
async fn short_messages_that_arrived_together_are_appended_together() {
    // With memory for a read of all of them; without; and while a long message has more than half of it.
    for (partial_bytes_max, long_bytes, appends) in [(1 << 20, 0, 1..=2), (1, 0, 4..=12), (500_000, 140_000, 4..=12)] {
        let config = Config { record_bytes_max: 4_000, partial_bytes_max, ..Config::default() };
        let mut node = start(Durability::Fast, None, config).await;
        let (mut long, mut socket) = (node.connect().await, node.connect().await);
        // The beginning of a packed message.
        let head = [&b"\x92\xa1t\xc6"[..], &200_000_u32.to_be_bytes()].concat();
        long.write_all(&[head, vec![0xc0; long_bytes]].concat()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = node.queue.appends();
        socket.write_all(&message(&"x".repeat(100), "").repeat(300)).await.unwrap();
        node.until_records(300).await;
        let count = node.queue.appends() - before;
        assert!(appends.contains(&count), "{count} appends");
        node.stop().await;
    }
}

#[tokio::test]
async fn other_protocols_and_silent_senders_are_refused() {
    let config = Config { frame_timeout: Duration::from_millis(20), ..Config::default() };
    let mut node = start(Durability::Fast, None, config).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x00", b"{\"log\":1}\n", b"\x93\xa1t"] {
        let mut socket = node.connect().await;
        socket.write_all(bytes).await.unwrap();
        assert_eq!(socket.read(&mut [0; 9]).await.unwrap_or(0), 0);
    }
    wait_until("errors", || node.metric("sources_protocol_errors_total") == 4.0).await;
    // An idle sender is no silent one.
    let mut idle = node.connect().await;
    idle.write_all(&message("one", "")).await.unwrap();
    node.until_records(1).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    idle.write_all(&message("two", "")).await.unwrap();
    node.until_records(2).await;
    assert_eq!(node.stop().await.len(), 2);
}

#[tokio::test]
async fn a_sender_without_the_key_is_refused() {
    let mut node = start(Durability::Fast, Some("secret"), Config::default()).await;
    let mut socket = node.connect().await;
    let mut helo = [0; 64];
    let length = socket.read(&mut helo).await.unwrap();
    assert!(helo[..length].starts_with(b"\x92\xa4HELO"));
    // A message in place of the proof.
    socket.write_all(&message("one", "")).await.unwrap();
    assert_eq!(socket.read(&mut [0; 99]).await.unwrap_or(0), 0);
    let mut socket = node.connect().await;
    assert!(socket.read(&mut helo).await.unwrap() > 0);
    let digest = "0".repeat(128);
    let ping = [&b"\x96\xa4PING\xa1c\xa1s\xd9\x80"[..], digest.as_bytes(), b"\xa0\xa0"].concat();
    socket.write_all(&ping).await.unwrap();
    let mut pong = Vec::new();
    socket.read_to_end(&mut pong).await.unwrap();
    assert!(pong.starts_with(b"\x95\xa4PONG\xc2"), "{}", pong.escape_ascii());
    assert!(node.stop().await.is_empty());
}

#[tokio::test]
async fn acknowledgements_are_sent_before_the_stop() {
    let mut node = start(Durability::Durable, None, Config::default()).await;
    let mut socket = node.connect().await;
    socket.write_all(&message("one", "c1")).await.unwrap();
    node.until_records(1).await;
    node.send_stop();
    node.queue.commit_group();
    expect(&mut socket, &ack("c1")).await;
    assert_eq!(node.stop().await.len(), 1);
}
