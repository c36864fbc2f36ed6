//! A queue that refuses records for a while.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bucksaw_ingest::Durability;
use bucksaw_sources::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::framed::FramedClient;
use crate::node::{ListenerNode, TestRng, joined, run_ready_tasks, wait_until};

#[tokio::test]
async fn while_the_disk_is_full_a_connection_is_not_read_and_loses_nothing() {
    let mut node = ListenerNode::start(Durability::Fast, Config { record_bytes_max: 5_000, ..Config::default() }).await;
    node.fs.set_capacity(Some(100_000));
    let stream = TestRng::new(3).stream(40 << 20, 9_000);
    let sent = Arc::new(AtomicUsize::new(0));
    let sending = {
        let (address, stream, sent) = (node.address, stream.clone(), Arc::clone(&sent));
        tokio::spawn(async move {
            let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
            for chunk in stream.chunks(50_000) {
                socket.write_all(chunk).await.unwrap();
                sent.fetch_add(chunk.len(), Ordering::Relaxed);
            }
            socket.shutdown().await.unwrap();
            assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
        })
    };
    // The sender is blocked if it makes no progress over several attempts of the node.
    let mut before = (0, 0.0);
    wait_until("blocked sender", || {
        let refused = node.metric("ingest_refused_appends_total");
        let now = sent.load(Ordering::Relaxed);
        if now != before.0 {
            before = (now, refused);
        }
        now > 0 && refused >= before.1 + 3.0
    })
    .await;
    assert!(sent.load(Ordering::Relaxed) < stream.len());
    assert!(joined(&node.records()).len() <= 100_000);
    node.fs.set_capacity(None);
    sending.await.unwrap();
    assert!(joined(&node.stop().await) == stream);
    assert_eq!(node.metric("sources_dropped_bytes_total"), 0.0);
}

#[tokio::test]
async fn closed_connections_free_their_slots_while_nothing_is_read() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let connections = "sources_connections{listener=\"fast\"}";
    let mut idle = Vec::new();
    for number in 0..20 {
        let mut socket = node.connect().await;
        socket.write_all(b"x\n").await.unwrap();
        node.until_records(number + 1).await;
        idle.push(socket);
    }
    node.fs.set_capacity(Some(0));
    let mut holder = node.connect().await;
    holder.write_all(b"held\n").await.unwrap();
    wait_until("refusal", || node.metric("ingest_refused_appends_total") > 0.0).await;
    // A connection with unread bytes stays open.
    idle[0].write_all(b"unread\n").await.unwrap();
    drop(idle);
    wait_until("closed connections", || node.metric(connections) == 2.0).await;
    node.fs.set_capacity(None);
    node.until_records(22).await;
    assert_eq!(node.stop().await.len(), 22);
}

#[tokio::test]
async fn a_stop_on_a_full_disk_counts_dropped_bytes() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    node.fs.set_capacity(Some(0));
    let mut socket = node.connect().await;
    socket.write_all(b"one\ntwo\nhalf").await.unwrap();
    wait_until("refusal", || node.metric("ingest_refused_appends_total") > 0.0).await;
    assert!(node.stop().await.is_empty());
    assert_eq!(node.metric("sources_dropped_bytes_total"), 12.0);
}

#[tokio::test]
async fn many_clients_on_a_full_disk_occupy_little_memory() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut sockets = Vec::new();
    for number in 0..30 {
        let mut socket = node.connect().await;
        socket.write_all(b"x\n").await.unwrap();
        node.until_records(number + 1).await;
        sockets.push(socket);
    }
    let used: u64 = node.queue.uncommitted_segments().iter().map(|view| view.end).sum();
    node.fs.set_capacity(Some(used));
    for _ in 0..30 {
        sockets.push(node.connect().await);
    }
    for socket in &mut sockets {
        socket.write_all(&[b'\n'; 20_000]).await.unwrap();
    }
    wait_until("attempts", || node.metric("ingest_refused_appends_total") > 40.0).await;
    node.stop().await;
    // All bytes of one client were read, and the first 4 KiB of each new one.
    let held = node.metric("sources_dropped_bytes_total");
    assert!((20_000.0..20_000.0 + 30.0 * 4_096.0 + 1.0).contains(&held), "{held}");
}

#[tokio::test]
async fn batches_wait_for_disk_space() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    node.fs.set_capacity(Some(0));
    let mut client = FramedClient::welcome(&node, "app=x").await;
    client.send(0, "a\nb\n").await;
    wait_until("second refusal", || node.metric("ingest_refused_appends_total") > 1.0).await;
    client.expect_silence().await;
    node.fs.set_capacity(None);
    assert_eq!(client.wait_for_ack(1).await, 1);
    assert_eq!(node.stop().await.len(), 2);
}

#[tokio::test]
async fn clients_that_gave_up_on_a_full_disk_release_their_connections() {
    let mut node =
        ListenerNode::start(Durability::Fast, Config { partial_bytes_max: 10_000, ..Config::default() }).await;
    node.fs.set_capacity(Some(0));
    // The first waits for the disk, the second for the memory that the first has.
    let mut clients = Vec::new();
    for number in 0..2 {
        let mut client = FramedClient::welcome(&node, "").await;
        client.send(number, &("z".repeat(9_000) + "\n")).await;
        clients.push(client);
    }
    wait_until("second refusal", || node.metric("ingest_refused_appends_total") > 1.0).await;
    drop(clients);
    wait_until("end of both connections", || node.metric("sources_connections{listener=\"fast\"}") == 0.0).await;
    assert!(node.stop().await.is_empty());
}

#[tokio::test]
async fn a_stop_waits_for_a_sync_that_lines_need() {
    let queue = bucksaw_ingest::Config { unsynced_bytes_max: 10, ..Default::default() };
    let mut node = ListenerNode::start_with(Durability::Durable, Config::default(), queue).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = node.connect().await;
        socket.write_all(b"0123456789\n").await.unwrap();
        sockets.push(socket);
    }
    // One is accepted; another is refused until a sync, which follows after the stop.
    wait_until("refusal", || node.metric("ingest_refused_appends_total") > 0.0).await;
    node.send_stop();
    let refused = node.metric("ingest_refused_appends_total");
    wait_until("attempt after the stop", || node.metric("ingest_refused_appends_total") > refused + 2.0).await;
    wait_until("end of the listener", || {
        node.queue.commit_group();
        !node.is_serving()
    })
    .await;
    assert_eq!((node.stop().await.len(), node.metric("sources_dropped_bytes_total")), (3, 0.0));
}

#[tokio::test]
async fn lines_wait_while_too_many_bytes_are_unsynced() {
    let queue = bucksaw_ingest::Config { unsynced_bytes_max: 1_000, ..Default::default() };
    let mut node = ListenerNode::start_with(Durability::Durable, Config::default(), queue).await;
    let stream = TestRng::new(5).stream(4_000, 10);
    let mut socket = node.connect().await;
    for chunk in stream.chunks(500) {
        socket.write_all(chunk).await.unwrap();
        run_ready_tasks().await;
    }
    socket.shutdown().await.unwrap();
    wait_until("arrival of all lines", || {
        node.queue.commit_group();
        joined(&node.records()) == stream || joined(&node.records()).len() > stream.len()
    })
    .await;
    assert!(node.metric("ingest_refused_appends_total") > 0.0);
    assert!(joined(&node.stop().await) == stream);
    assert!(node.files() == 1);
}
