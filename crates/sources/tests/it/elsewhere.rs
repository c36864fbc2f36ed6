//! What clients hear of other nodes when this one has too much to do.

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_ingest::guide::{Advice, Other};
use bucksaw_record::Labels;
use bucksaw_sources::Config;
use bucksaw_wire::{Answer, Code, Elsewhere, Hello, Told, Version, Why};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::framed::Client;
use crate::node::{Node, until};

const TEXT: &str = "the node has too much to do: others have less";

/// What the node is said to take in: a few bytes that came since the last look are more.
const RATE: u64 = 10;

/// Advice with one other node of this level, which takes in nothing.
fn advise(node: &Node, level: u8, refuses: bool, other: u8) {
    let (fast, durable) = (Some("n1:7651".to_owned()), Some("n1:7652".to_owned()));
    let others = vec![Other { level: other, spare: 1, fast, durable, ..Other::default() }];
    node.queue.guide().advise(Advice { level, refuses, bytes_per_second: RATE, others, ..Advice::default() });
}

/// A node whose clients are sent away soon after they came.
async fn node(durability: Durability) -> Node {
    let short = Duration::from_millis(1);
    Node::start(durability, Config { stay_min: short, goodbye_max: 200 * short, ..Config::default() }).await
}

fn hello() -> Vec<u8> {
    Hello { version: Version::NEWEST, labels: Labels::default() }.encode()
}

fn elsewhere(why: Why, address: &str) -> Option<Told> {
    Elsewhere::new(why, [address.to_owned()]).map(Told::Elsewhere)
}

fn sent(node: &Node, how: &str) -> f64 {
    node.metric(&format!("ingest_sent_elsewhere_total{{how=\"{how}\"}}"))
}

#[tokio::test]
async fn a_busy_node_suggests_others_and_serves_all_the_same() {
    let mut node = node(Durability::Durable).await;
    advise(&node, 1, true, 0);
    let mut client = Client::welcome(&node, "").await;
    assert_eq!(client.hear().await, elsewhere(Why::SUGGESTION, "n1:7652"));
    client.send(0, "a\n").await;
    until("the batch", || node.queue.appends() == 1).await;
    node.queue.commit_group();
    assert_eq!(client.acked(1).await, 1);
    // What it brings falls from look to look until its going is some help, and no more than that.
    node.queue.guide().offer(RATE);
    assert_eq!(client.hear().await, elsewhere(Why::SUGGESTION, "n1:7652"));
    assert!(sent(&node, "suggested") >= 2.0 && sent(&node, "refused") + sent(&node, "let_go") == 0.0);
    drop(client);
    node.stop().await;
}

#[tokio::test]
async fn a_very_busy_node_refuses_new_clients_and_says_where_to_go() {
    let mut node = node(Durability::Fast).await;
    let mut there = Client::welcome(&node, "").await;
    advise(&node, 2, true, 1);
    let refused = Some(Answer::Refused { code: Code::BUSY, text: TEXT.to_owned() });
    let (mut client, answer) = Client::greet(&node, &hello()).await;
    assert_eq!(answer, refused);
    assert_eq!((client.hear().await, client.hear().await), (elsewhere(Why::REFUSAL, "n1:7651"), None));
    assert_eq!(sent(&node, "refused"), 1.0);
    // Who is there stays, and lines are taken.
    there.send(0, "a\n").await;
    assert_eq!(there.acked(1).await, 1);
    let mut lines = node.connect().await;
    lines.write_all(b"b\n").await.unwrap();
    node.until_records(2).await;
    // It is not its turn, or nobody has less to do.
    for (refuses, other) in [(false, 1), (true, 2)] {
        advise(&node, 2, refuses, other);
        let (_, answer) = Client::greet(&node, &hello()).await;
        assert!(matches!(answer, Some(Answer::Welcome { .. })), "{refuses} {other}");
    }
    node.stop().await;
}

#[tokio::test]
async fn an_overloaded_node_lets_some_go_after_all_is_acknowledged() {
    let mut node = node(Durability::Durable).await;
    let mut client = Client::welcome(&node, "").await;
    let mut stays = Client::welcome(&node, "").await;
    assert_eq!((node.queue.guide().connections(), node.queue.guide().connections_movable()), (2, 2));
    client.send(0, "a\n").await;
    until("the batch", || node.queue.appends() == 1).await;
    advise(&node, 3, true, 0);
    // One of the two; the other one is not told.
    until("one to be told", || {
        let told = sent(&node, "let_go") > 0.0;
        node.queue.guide().offer(if told { 0 } else { RATE / 2 });
        told
    })
    .await;
    let (mut gone, mut stays, appended) = tokio::select! {
        told = client.hear() => { assert_eq!(told, elsewhere(Why::GOODBYE, "n1:7652")); (client, stays, 1) }
        told = stays.hear() => { assert_eq!(told, elsewhere(Why::GOODBYE, "n1:7652")); (stays, client, 0) }
    };
    assert_eq!(sent(&node, "let_go"), 1.0);
    // What was on its way is taken, acknowledged, and then the connection ends without a fault.
    gone.send(1, "b\n").await;
    gone.socket.shutdown().await.unwrap();
    until("the other batch", || node.queue.appends() == 2).await;
    gone.hears_nothing().await;
    node.queue.commit_group();
    assert_eq!(gone.acked(appended + 1).await, appended + 1);
    assert_eq!(gone.hear().await, None);
    stays.send(2, "c\n").await;
    until("who stayed", || node.queue.appends() == 3).await;
    node.queue.commit_group();
    drop((gone, stays));
    until("the end", || node.queue.guide().connections() == 0).await;
    assert_eq!(node.queue.guide().connections_movable(), 0);
    assert_eq!(node.stop().await.len(), 3);
}

#[tokio::test]
async fn who_does_not_go_is_let_go_with_its_acknowledgements() {
    let mut node = node(Durability::Fast).await;
    let mut client = Client::welcome(&node, "").await;
    client.send(0, "a\n").await;
    assert_eq!(client.acked(1).await, 1);
    advise(&node, 3, true, 0);
    until("its turn", || {
        node.queue.guide().offer(u64::MAX);
        sent(&node, "let_go") > 0.0
    })
    .await;
    assert_eq!(client.hear().await, elsewhere(Why::GOODBYE, "n1:7651"));
    assert_eq!(client.hear().await, Some(Told::Failed { acked: 1, text: TEXT.to_owned() }));
    assert_eq!(client.hear().await, None);
    assert_eq!(sent(&node, "let_go"), 1.0);
    drop(client);
    assert_eq!(node.stop().await.len(), 1);
}

#[tokio::test]
async fn new_lines_are_refused_by_an_overloaded_node_only() {
    let mut node = node(Durability::Fast).await;
    let mut there = node.connect().await;
    there.write_all(b"a\n").await.unwrap();
    node.until_records(1).await;
    advise(&node, 3, true, 0);
    let mut refused = node.connect().await;
    refused.write_all(&b"lines that nobody takes\n".repeat(100)).await.unwrap();
    // Closed with bytes unread: an end, or a reset.
    assert!(refused.read(&mut [0; 10]).await.map_or(true, |count| count == 0));
    there.write_all(b"b\n").await.unwrap();
    node.until_records(2).await;
    advise(&node, 3, false, 0);
    let mut again = node.connect().await;
    again.write_all(b"c\n").await.unwrap();
    node.until_records(3).await;
    assert_eq!((node.texts(), sent(&node, "refused")), (vec!["a".into(), "b".into(), "c".into()], 1.0));
    // Of the magic's length: more was not read.
    assert_eq!(node.metric("sources_dropped_bytes_total"), 8.0);
    node.stop().await;
}

#[tokio::test]
async fn a_node_that_stops_says_where_to_go() {
    let mut node = node(Durability::Durable).await;
    advise(&node, 0, false, 1);
    let mut client = Client::welcome(&node, "").await;
    client.send(0, "a\n").await;
    until("the batch", || node.queue.appends() == 1).await;
    node.signal();
    assert_eq!(client.hear().await, elsewhere(Why::GOODBYE, "n1:7652"));
    node.queue.commit_group();
    assert_eq!(client.acked(1).await, 1);
    assert_eq!(client.hear().await, Some(Told::Failed { acked: 1, text: "the node is shutting down".to_owned() }));
    assert_eq!(client.hear().await, None);
    drop(client);
    assert_eq!(node.stop().await.len(), 1);
}
