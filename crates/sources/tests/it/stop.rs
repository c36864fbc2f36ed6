//! The end of a node.

use std::io::Write as _;

use bucksaw_ingest::Durability;
use bucksaw_record::Marks;
use bucksaw_sources::Config;
use bucksaw_wire::Told;
use tokio::io::AsyncWriteExt;

use crate::framed::Client;
use crate::node::{Dice, Node, joined, until};

#[tokio::test]
async fn what_was_sent_before_the_stop_is_taken() {
    let mut node = Node::start(Durability::Fast, Config::default()).await;
    let mut stream = Dice(9).stream(1 << 20, 100);
    stream.extend_from_slice(b"\nhalf");
    let mut sockets = Vec::new();
    for _ in 0..5 {
        let mut socket = node.connect().await;
        let mut half = stream.len() / 2;
        socket.write_all(&stream[..half]).await.unwrap();
        half += socket.try_write(&stream[half..]).unwrap_or(0);
        sockets.push((socket, half));
    }
    // Without an await between this and the stop, the node has had no turn to accept it.
    let mut last = std::net::TcpStream::connect(node.address).unwrap();
    last.write_all(b"late\n").unwrap();
    let records = node.stop().await;
    let bytes: usize = sockets.iter().map(|(_, sent)| sent).sum();
    assert_eq!(joined(&records).len(), bytes + 5);
    assert!(records.iter().any(|record| record.text == b"late"));
    assert!(records.iter().filter(|record| record.marks & Marks::OPEN != 0).count() <= 5);
    assert!(tokio::net::TcpStream::connect(node.address).await.is_err());
}

#[tokio::test]
async fn open_promises_are_told_before_the_end() {
    let mut node = Node::start(Durability::Durable, Config::default()).await;
    let mut client = Client::welcome(&node, "").await;
    client.send(0, "a\n").await;
    client.send(1, "b\n").await;
    until("both batches", || node.queue.appends() == 2).await;
    node.signal();
    client.hears_nothing().await;
    assert!(node.is_serving());
    node.queue.commit_group();
    assert_eq!(client.acked(2).await, 2);
    assert_eq!(client.hear().await, Some(Told::Failed { acked: 2, text: "the node is shutting down".to_owned() }));
    assert_eq!(client.hear().await, None);
    drop(client);
    assert_eq!(node.stop().await.len(), 2);
}
