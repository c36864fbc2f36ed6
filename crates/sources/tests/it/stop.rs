//! The stop of a listener.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::io::Write as _;

use bucksaw_ingest::Durability;
use bucksaw_record::Flags;
use bucksaw_sources::Config;
use bucksaw_wire::ServerMessage;
use tokio::io::AsyncWriteExt;

use crate::framed::FramedClient;
use crate::node::{ListenerNode, TestRng, joined, wait_until};

#[tokio::test]
async fn bytes_sent_before_the_stop_are_appended() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut stream = TestRng::new(9).stream(1 << 20, 100);
    stream.extend_from_slice(b"\nhalf");
    let mut sockets = Vec::new();
    for _ in 0..5 {
        let mut socket = node.connect().await;
        let mut half = stream.len() / 2;
        socket.write_all(&stream[..half]).await.unwrap();
        half += socket.try_write(&stream[half..]).unwrap_or(0);
        sockets.push((socket, half));
    }
    // Without an await before the stop, so the connection is still in the backlog.
    let mut last = std::net::TcpStream::connect(node.address).unwrap();
    last.write_all(b"late\n").unwrap();
    let records = node.stop().await;
    let bytes: usize = sockets.iter().map(|(_, sent)| sent).sum();
    assert_eq!(joined(&records).len(), bytes + 5);
    assert!(records.iter().any(|record| record.text == b"late"));
    assert!(records.iter().filter(|record| record.flags & Flags::UNTERMINATED != 0).count() <= 5);
    assert!(tokio::net::TcpStream::connect(node.address).await.is_err());
}

#[tokio::test]
async fn pending_acknowledgements_are_sent_before_the_stop() {
    let mut node = ListenerNode::start(Durability::Durable, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "a\n").await;
    client.send(1, "b\n").await;
    wait_until("both batches", || node.queue.appends() == 2).await;
    node.send_stop();
    client.expect_silence().await;
    assert!(node.is_serving());
    node.queue.commit_group();
    assert_eq!(client.wait_for_ack(2).await, 2);
    assert_eq!(
        client.read_message().await,
        Some(ServerMessage::Failed { acked: 2, text: "the node is shutting down".to_owned() })
    );
    assert_eq!(client.read_message().await, None);
    drop(client);
    assert_eq!(node.stop().await.len(), 2);
}
