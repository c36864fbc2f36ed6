//! What clients hear of other nodes when this one has too much to do.

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_ingest::load_shedder::{RedirectPolicy, RedirectTarget};
use bucksaw_record::Labels;
use bucksaw_sources::Config;
use bucksaw_wire::{Hello, HelloReply, Redirect, RedirectReason, RefusalCode, ServerMessage, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::framed::FramedClient;
use crate::node::{ListenerNode, wait_until};

const TEXT: &str = "the node is overloaded; other nodes are less loaded";

/// What the node is said to take in: a few bytes that came since the last look are more.
const RATE: u64 = 10;

/// Advice with one other node of this level, which takes in nothing.
fn advise(node: &ListenerNode, level: u8, refuses: bool, other: u8) {
    let (fast, durable) = (Some("n1:7651".to_owned()), Some("n1:7652".to_owned()));
    let others = vec![RedirectTarget { level: other, spare_capacity: 1, fast, durable, ..RedirectTarget::default() }];
    node.queue.load_shedder().set_policy(RedirectPolicy {
        level,
        may_refuse: refuses,
        bytes_per_second: RATE,
        targets: others,
        ..RedirectPolicy::default()
    });
}

/// A node whose clients are sent away soon after they came.
async fn node(durability: Durability) -> ListenerNode {
    let short = Duration::from_millis(1);
    ListenerNode::start(
        durability,
        Config { redirect_interval_min: short, close_timeout: 200 * short, ..Config::default() },
    )
    .await
}

fn hello() -> Vec<u8> {
    Hello { version: Version::NEWEST, labels: Labels::default() }.encode()
}

fn redirect(why: RedirectReason, address: &str) -> Option<ServerMessage> {
    Redirect::new(why, [address.to_owned()]).map(ServerMessage::Redirect)
}

fn redirected_count(node: &ListenerNode, kind: &str) -> f64 {
    node.metric(&format!("ingest_redirected_total{{kind=\"{kind}\"}}"))
}

#[tokio::test]
async fn a_busy_node_suggests_others_and_still_serves() {
    let mut node = node(Durability::Durable).await;
    advise(&node, 1, true, 0);
    let mut client = FramedClient::welcome(&node, "").await;
    assert_eq!(client.read_message().await, redirect(RedirectReason::SUGGESTION, "n1:7652"));
    client.send(0, "a\n").await;
    wait_until("the batch", || node.queue.appends() == 1).await;
    node.queue.commit_group();
    assert_eq!(client.wait_for_ack(1).await, 1);
    // What it brings falls from look to look until its going is some help, and no more than that.
    node.queue.load_shedder().set_redirect_budget(RATE);
    assert_eq!(client.read_message().await, redirect(RedirectReason::SUGGESTION, "n1:7652"));
    assert!(
        redirected_count(&node, "suggested") >= 2.0
            && redirected_count(&node, "refused") + redirected_count(&node, "disconnected") == 0.0
    );
    drop(client);
    node.stop().await;
}

#[tokio::test]
async fn a_busy_node_refuses_new_clients_and_redirects_them() {
    let mut node = node(Durability::Fast).await;
    let mut there = FramedClient::welcome(&node, "").await;
    advise(&node, 2, true, 1);
    let refused = Some(HelloReply::Refused { code: RefusalCode::BUSY, text: TEXT.to_owned() });
    let (mut client, answer) = FramedClient::connect(&node, &hello()).await;
    assert_eq!(answer, refused);
    assert_eq!(
        (client.read_message().await, client.read_message().await),
        (redirect(RedirectReason::REFUSAL, "n1:7651"), None)
    );
    assert_eq!(redirected_count(&node, "refused"), 1.0);
    // Who is there stays, and lines are taken.
    there.send(0, "a\n").await;
    assert_eq!(there.wait_for_ack(1).await, 1);
    let mut lines = node.connect().await;
    lines.write_all(b"b\n").await.unwrap();
    node.until_records(2).await;
    // It is not its turn, or nobody has less to do.
    for (refuses, other) in [(false, 1), (true, 2)] {
        advise(&node, 2, refuses, other);
        let (_, answer) = FramedClient::connect(&node, &hello()).await;
        assert!(matches!(answer, Some(HelloReply::Welcome { .. })), "{refuses} {other}");
    }
    node.stop().await;
}

#[tokio::test]
async fn an_overloaded_node_closes_some_connections_after_all_acks() {
    let mut node = node(Durability::Durable).await;
    let mut client = FramedClient::welcome(&node, "").await;
    let mut stays = FramedClient::welcome(&node, "").await;
    assert_eq!((node.queue.load_shedder().connections(), node.queue.load_shedder().redirectable_connections()), (2, 2));
    client.send(0, "a\n").await;
    wait_until("the batch", || node.queue.appends() == 1).await;
    advise(&node, 3, true, 0);
    // One of the two; the other one is not told.
    wait_until("one to be told", || {
        let told = redirected_count(&node, "disconnected") > 0.0;
        node.queue.load_shedder().set_redirect_budget(if told { 0 } else { RATE / 2 });
        told
    })
    .await;
    let (mut gone, mut stays, appended) = tokio::select! {
        told = client.read_message() => { assert_eq!(told, redirect(RedirectReason::CLOSE, "n1:7652")); (client, stays, 1) }
        told = stays.read_message() => { assert_eq!(told, redirect(RedirectReason::CLOSE, "n1:7652")); (stays, client, 0) }
    };
    assert_eq!(redirected_count(&node, "disconnected"), 1.0);
    // What was on its way is taken, acknowledged, and then the connection ends without a fault.
    gone.send(1, "b\n").await;
    gone.socket.shutdown().await.unwrap();
    wait_until("the other batch", || node.queue.appends() == 2).await;
    gone.expect_silence().await;
    node.queue.commit_group();
    assert_eq!(gone.wait_for_ack(appended + 1).await, appended + 1);
    assert_eq!(gone.read_message().await, None);
    stays.send(2, "c\n").await;
    wait_until("who stayed", || node.queue.appends() == 3).await;
    node.queue.commit_group();
    drop((gone, stays));
    wait_until("the end", || node.queue.load_shedder().connections() == 0).await;
    assert_eq!(node.queue.load_shedder().redirectable_connections(), 0);
    assert_eq!(node.stop().await.len(), 3);
}

#[tokio::test]
async fn who_does_not_go_is_let_go_with_its_acknowledgements() {
    let mut node = node(Durability::Fast).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "a\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    advise(&node, 3, true, 0);
    wait_until("its turn", || {
        node.queue.load_shedder().set_redirect_budget(u64::MAX);
        redirected_count(&node, "disconnected") > 0.0
    })
    .await;
    assert_eq!(client.read_message().await, redirect(RedirectReason::CLOSE, "n1:7651"));
    assert_eq!(client.read_message().await, Some(ServerMessage::Failed { acked: 1, text: TEXT.to_owned() }));
    assert_eq!(client.read_message().await, None);
    assert_eq!(redirected_count(&node, "disconnected"), 1.0);
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
    assert_eq!((node.texts(), redirected_count(&node, "refused")), (vec!["a".into(), "b".into(), "c".into()], 1.0));
    // Of the magic's length: more was not read.
    assert_eq!(node.metric("sources_dropped_bytes_total"), 8.0);
    node.stop().await;
}

#[tokio::test]
async fn a_stopping_node_redirects_its_clients() {
    let mut node = node(Durability::Durable).await;
    advise(&node, 0, false, 1);
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "a\n").await;
    wait_until("the batch", || node.queue.appends() == 1).await;
    node.send_stop();
    assert_eq!(client.read_message().await, redirect(RedirectReason::CLOSE, "n1:7652"));
    node.queue.commit_group();
    assert_eq!(client.wait_for_ack(1).await, 1);
    assert_eq!(
        client.read_message().await,
        Some(ServerMessage::Failed { acked: 1, text: "the node is shutting down".to_owned() })
    );
    assert_eq!(client.read_message().await, None);
    drop(client);
    assert_eq!(node.stop().await.len(), 1);
}
