//! Redirects by a loaded or stopping node.

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_record::{Id, Labels};
use bucksaw_sources::Config;
use bucksaw_steering::{IngestPeer, ListenerKind, NodeLoad, RedirectPolicy};
use bucksaw_wire::{Hello, HelloReply, Redirect, RedirectReason, RefusalCode, ServerMessage, WireVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::framed::FramedClient;
use crate::node::{ListenerNode, wait_until};

const TEXT: &str = "the node is overloaded; other nodes are less loaded";

/// The ingest rate in the policy, in bytes per second: less than that of a client with one batch.
const RATE: u64 = 10;

/// Sets a policy with one idle peer of this level.
fn set_policy(node: &ListenerNode, level: u8, may_refuse: bool, peer_level: u8) {
    let peer = IngestPeer {
        node: Id::MIN,
        load: NodeLoad { level: peer_level, ..NodeLoad::default() },
        addresses: vec![(ListenerKind::Fast, "n1:7651".to_owned()), (ListenerKind::Durable, "n1:7652".to_owned())],
    };
    node.shedder.set_policy(RedirectPolicy {
        load: NodeLoad { level, bytes_per_second: RATE, connections: 0 },
        may_refuse,
        peers: vec![peer],
        ..RedirectPolicy::default()
    });
}

/// A node that checks its clients every millisecond.
async fn node(durability: Durability) -> ListenerNode {
    let short = Duration::from_millis(1);
    ListenerNode::start(
        durability,
        Config { redirect_interval_min: short, close_timeout: 200 * short, ..Config::default() },
    )
    .await
}

fn hello() -> Vec<u8> {
    Hello { version: WireVersion::NEWEST, labels: Labels::default() }.encode()
}

fn redirect(reason: RedirectReason, address: &str) -> Option<ServerMessage> {
    Redirect::new(reason, [address.to_owned()]).map(ServerMessage::Redirect)
}

fn redirected_count(node: &ListenerNode, kind: &str) -> f64 {
    node.metric(&format!("steering_redirected_total{{kind=\"{kind}\"}}"))
}

#[tokio::test]
async fn a_busy_node_suggests_targets_and_keeps_the_client() {
    let mut node = node(Durability::Durable).await;
    set_policy(&node, 1, true, 0);
    let mut client = FramedClient::welcome(&node, "").await;
    assert_eq!(client.read_message().await, redirect(RedirectReason::SUGGESTION, "n1:7652"));
    client.send(0, "a\n").await;
    wait_until("batch", || node.queue.appends() == 1).await;
    node.queue.commit_group();
    assert_eq!(client.wait_for_ack(1).await, 1);
    // The smoothed rate of the client falls until its move would help.
    node.shedder.set_redirect_budget(RATE);
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
    let mut connected = FramedClient::welcome(&node, "").await;
    set_policy(&node, 2, true, 1);
    let refused = Some(HelloReply::Refused { code: RefusalCode::BUSY, text: TEXT.to_owned() });
    let (mut client, answer) = FramedClient::connect(&node, &hello()).await;
    assert_eq!(answer, refused);
    assert_eq!(
        (client.read_message().await, client.read_message().await),
        (redirect(RedirectReason::REFUSAL, "n1:7651"), None)
    );
    assert_eq!(redirected_count(&node, "refused"), 1.0);
    // Connected clients stay, and lines are accepted.
    connected.send(0, "a\n").await;
    assert_eq!(connected.wait_for_ack(1).await, 1);
    let mut lines = node.connect().await;
    lines.write_all(b"b\n").await.unwrap();
    node.until_records(2).await;
    // Outside the quota, or without a less loaded node, new clients are accepted.
    for (may_refuse, peer_level) in [(false, 1), (true, 2)] {
        set_policy(&node, 2, may_refuse, peer_level);
        let (_, answer) = FramedClient::connect(&node, &hello()).await;
        assert!(matches!(answer, Some(HelloReply::Welcome { .. })), "{may_refuse} {peer_level}");
    }
    node.stop().await;
}

#[tokio::test]
async fn an_overloaded_node_closes_some_connections_after_all_acks() {
    let mut node = node(Durability::Durable).await;
    let mut client = FramedClient::welcome(&node, "").await;
    let mut stays = FramedClient::welcome(&node, "").await;
    assert_eq!((node.shedder.connections(), node.shedder.redirectable_connections()), (2, 2));
    client.send(0, "a\n").await;
    wait_until("batch", || node.queue.appends() == 1).await;
    set_policy(&node, 3, true, 0);
    // The budget suffices for one of the two.
    wait_until("disconnect of one client", || {
        let is_disconnected = redirected_count(&node, "disconnected") > 0.0;
        node.shedder.set_redirect_budget(if is_disconnected { 0 } else { RATE / 2 });
        is_disconnected
    })
    .await;
    let (mut leaves, mut stays, appended) = tokio::select! {
        message = client.read_message() => { assert_eq!(message, redirect(RedirectReason::CLOSE, "n1:7652")); (client, stays, 1) }
        message = stays.read_message() => { assert_eq!(message, redirect(RedirectReason::CLOSE, "n1:7652")); (stays, client, 0) }
    };
    assert_eq!(redirected_count(&node, "disconnected"), 1.0);
    // A batch that was on its way is appended and acknowledged; then the connection ends without an error.
    leaves.send(1, "b\n").await;
    leaves.socket.shutdown().await.unwrap();
    wait_until("second batch", || node.queue.appends() == 2).await;
    leaves.expect_silence().await;
    node.queue.commit_group();
    assert_eq!(leaves.wait_for_ack(appended + 1).await, appended + 1);
    assert_eq!(leaves.read_message().await, None);
    stays.send(2, "c\n").await;
    wait_until("batch of the remaining client", || node.queue.appends() == 3).await;
    node.queue.commit_group();
    drop((leaves, stays));
    wait_until("end of the connections", || node.shedder.connections() == 0).await;
    assert_eq!(node.shedder.redirectable_connections(), 0);
    assert_eq!(node.stop().await.len(), 3);
}

#[tokio::test]
async fn a_client_that_does_not_leave_is_disconnected_with_its_acknowledgements() {
    let mut node = node(Durability::Fast).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "a\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    set_policy(&node, 3, true, 0);
    wait_until("disconnect", || {
        node.shedder.set_redirect_budget(u64::MAX);
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
async fn new_line_connections_are_closed_only_by_an_overloaded_node() {
    let mut node = node(Durability::Fast).await;
    let mut connected = node.connect().await;
    connected.write_all(b"a\n").await.unwrap();
    node.until_records(1).await;
    set_policy(&node, 3, true, 0);
    let mut refused = node.connect().await;
    refused.write_all(&b"lines that are dropped\n".repeat(100)).await.unwrap();
    // Closed with bytes unread: an end, or a reset.
    assert!(refused.read(&mut [0; 10]).await.map_or(true, |count| count == 0));
    connected.write_all(b"b\n").await.unwrap();
    node.until_records(2).await;
    set_policy(&node, 3, false, 0);
    let mut again = node.connect().await;
    again.write_all(b"c\n").await.unwrap();
    node.until_records(3).await;
    assert_eq!((node.texts(), redirected_count(&node, "refused")), (vec!["a".into(), "b".into(), "c".into()], 1.0));
    // Only the length of the magic was read.
    assert_eq!(node.metric("sources_dropped_bytes_total"), 8.0);
    node.stop().await;
}

#[tokio::test]
async fn a_stopping_node_redirects_its_clients() {
    let mut node = node(Durability::Durable).await;
    set_policy(&node, 0, false, 1);
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "a\n").await;
    wait_until("batch", || node.queue.appends() == 1).await;
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
