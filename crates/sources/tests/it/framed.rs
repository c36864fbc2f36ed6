//! The framed protocol, with valid and invalid messages.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::{FrameHeader, FrameKind};
use bucksaw_sources::Config;
use bucksaw_wire::{
    AgentReport, Batch, DecodeProgress, FLUSH, Hello, HelloReply, RefusalCode, ServerMessage, WireError, WireVersion,
    encode_labels,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::node::{ListenerNode, TestRng, run_ready_tasks, wait_until};

/// A time long past.
const AT: Millis = Millis(1_700_000_000_000);

pub(crate) struct FramedClient {
    pub(crate) socket: TcpStream,
    bytes: Vec<u8>,
}

impl FramedClient {
    /// Sends a hello, valid or not, and receives the reply.
    pub(crate) async fn connect(node: &ListenerNode, hello: &[u8]) -> (Self, Option<HelloReply>) {
        let mut socket = node.connect().await;
        socket.write_all(hello).await.unwrap();
        let mut client = Self { socket, bytes: Vec::new() };
        let answer = client.read(HelloReply::decode).await;
        (client, answer)
    }

    pub(crate) async fn welcome(node: &ListenerNode, labels: &str) -> Self {
        let hello = Hello { version: WireVersion::NEWEST, labels: Labels::parse(labels).unwrap() };
        let (client, answer) = Self::connect(node, &hello.encode()).await;
        assert!(matches!(answer, Some(HelloReply::Welcome { version: WireVersion::NEWEST, .. })), "{answer:?}");
        client
    }

    pub(crate) async fn send(&mut self, first: u32, text: &str) {
        self.socket.write_all(&batch(AT, first, text)).await.unwrap();
    }

    /// The next message; `None` at the end.
    pub(crate) async fn read_message(&mut self) -> Option<ServerMessage> {
        self.read(ServerMessage::decode).await
    }

    /// Receives acknowledgements up to this one.
    pub(crate) async fn wait_for_ack(&mut self, until: u64) -> u64 {
        let mut acked = 0;
        while acked < until {
            match self.read_message().await {
                Some(ServerMessage::Acked(more)) if more > acked => acked = more,
                other => panic!("{other:?} after {acked}"),
            }
        }
        acked
    }

    /// Checks that the node has sent no message.
    pub(crate) async fn expect_silence(&mut self) {
        run_ready_tasks().await;
        let received = tokio::time::timeout(Duration::ZERO, self.socket.peek(&mut [0])).await;
        assert!(received.is_err(), "{received:?}");
    }

    async fn read<T>(&mut self, decode: impl Fn(&[u8]) -> Result<DecodeProgress<T>, WireError>) -> Option<T> {
        loop {
            if let DecodeProgress::Complete(message, used) = decode(&self.bytes).unwrap() {
                self.bytes.drain(..used);
                return Some(message);
            }
            let reading = tokio::time::timeout(Duration::from_secs(20), self.socket.read_buf(&mut self.bytes));
            // A reset fails the test, because it could discard the last message.
            if reading.await.expect("no message within 20 s").unwrap() == 0 {
                return None;
            }
        }
    }
}

fn batch(at: Millis, first: u32, text: &str) -> Vec<u8> {
    let first = Id::new(at, Producer::new(7), first);
    let count = text.lines().count() as u32;
    Batch { first_id: first, count, accepted: at, layout_bits: 0, row_meta: &[], text: text.as_bytes() }.encode()
}

#[tokio::test]
async fn fast_batches_are_acknowledged_and_keep_their_ids() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "app=web").await;
    client.send(0, "a\nb\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    for number in 1..200 {
        client.send(2 * number, "c\nd\n").await;
    }
    client.socket.write_all(&FLUSH).await.unwrap();
    assert_eq!(client.wait_for_ack(200).await, 200);
    drop(client);
    let records = node.stop().await;
    let sequences: Vec<u32> = records.iter().map(|record| record.id.sequence()).collect();
    assert_eq!(sequences, (0..400).collect::<Vec<_>>());
    assert!(records.iter().all(|record| record.id.time() == AT && record.labels.get("app") == Some("web")));
    assert_eq!(node.metric("ingest_records_total{source=\"forward\"}"), 400.0);
}

#[tokio::test]
async fn labels_change_between_batches() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "app=web").await;
    client.send(0, "a\n").await;
    for (number, app) in [(1, "shop"), (2, "web"), (3, "shop")] {
        let labels = Labels::parse(&format!("app={app}")).unwrap();
        client.socket.write_all(&encode_labels(&labels)).await.unwrap();
        client.send(number, "b\n").await;
    }
    // Labels are not counted as a batch.
    assert_eq!(client.wait_for_ack(4).await, 4);
    drop(client);
    let records = node.stop().await;
    let apps = |sequence: u32| {
        let record = records.iter().find(|record| record.id.sequence() == sequence).unwrap();
        record.labels.get("app").map(str::to_owned)
    };
    let found: Vec<Option<String>> = (0..4).map(apps).collect();
    assert_eq!(found, ["web", "shop", "web", "shop"].map(|app| Some(app.to_owned())));
}

#[tokio::test]
async fn reports_between_batches_are_kept_and_not_acknowledged() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    for number in 0..3 {
        let report = AgentReport { id: [7; 16], files: number, ..AgentReport::default() };
        client.socket.write_all(&report.encode()).await.unwrap();
        client.send(number as u32, "x\n").await;
    }
    assert_eq!(client.wait_for_ack(3).await, 3);
    let known = |node: &ListenerNode| -> Vec<(u64, bool)> {
        let agents = node.agents.agents(Duration::ZERO);
        agents.iter().map(|agent| (agent.report.files, agent.is_connected())).collect()
    };
    assert_eq!(known(&node), [(2, true)]);
    drop(client);
    wait_until("the end of the connection is noticed", || known(&node) == [(2, false)]).await;
    assert_eq!(node.stop().await.len(), 3);
}

#[tokio::test]
async fn durable_batches_are_acknowledged_only_after_the_sync() {
    let mut node = ListenerNode::start(Durability::Durable, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    for number in 0..5 {
        client.send(number, "x\n").await;
    }
    wait_until("the batches", || node.queue.appends() == 5).await;
    client.expect_silence().await;
    node.queue.commit_group();
    assert_eq!(client.wait_for_ack(5).await, 5);
    drop(client);
    assert_eq!(node.stop().await.len(), 5);
}

#[tokio::test]
async fn bulk_batches_are_acknowledged_by_the_store_and_sooner_after_a_flush() {
    let mut node = ListenerNode::start(Durability::Bulk, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "x\n").await;
    wait_until("the batch", || node.queue.appends() == 1).await;
    assert_eq!(node.queue.backlog().segments, 0);
    client.socket.write_all(&FLUSH).await.unwrap();
    wait_until("the segment", || node.queue.backlog().has_waiting_client).await;
    client.expect_silence().await;
    let ids: Vec<Id> = node.queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    node.queue.commit(&ids);
    assert_eq!(client.wait_for_ack(1).await, 1);
    drop(client);
    node.stop().await;
}

#[tokio::test]
async fn lost_durability_is_reported_to_the_client() {
    let mut node = ListenerNode::start(Durability::Durable, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "x\n").await;
    wait_until("the batch", || node.queue.appends() == 1).await;
    node.fs.fail_next_syncs(100);
    while node.queue.commit_group() {}
    let want = ServerMessage::Failed { acked: 0, text: "cannot write: the disk fails to sync".to_owned() };
    assert_eq!((client.read_message().await, client.read_message().await), (Some(want), None));
    drop(client);
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_closed_its_side_receives_its_acknowledgements() {
    let mut node = ListenerNode::start(Durability::Durable, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "x\n").await;
    client.socket.shutdown().await.unwrap();
    wait_until("the batch", || node.queue.appends() == 1).await;
    node.queue.commit_group();
    assert_eq!((client.read_message().await, client.read_message().await), (Some(ServerMessage::Acked(1)), None));
    node.stop().await;
}

#[tokio::test]
async fn all_batches_before_a_closed_side_are_appended() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let text = "z".repeat(20_000) + "\n";
    let mut client = FramedClient::welcome(&node, "").await;
    let batches: Vec<u8> = (0..20).flat_map(|number| batch(AT, number, &text)).collect();
    // Without an await, so the node runs only after the side is closed.
    assert_eq!(client.socket.try_write(&batches).unwrap(), batches.len());
    client.socket.shutdown().await.unwrap();
    assert_eq!((client.wait_for_ack(20).await, client.read_message().await), (20, None));
    assert_eq!(node.stop().await.len(), 20);
}

#[tokio::test]
async fn a_bad_hello_is_refused_with_its_reason() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let good = Hello { version: WireVersion::NEWEST, labels: Labels::parse("a=b").unwrap() }.encode();
    let check = async |change: &dyn Fn(&mut Vec<u8>), want_code: RefusalCode, want: &str| {
        let mut hello = good.clone();
        change(&mut hello);
        // Unread bytes must not discard the reply.
        hello.extend_from_slice(&[b'x'; 100_000]);
        let (mut client, answer) = FramedClient::connect(&node, &hello).await;
        assert_eq!(answer, Some(HelloReply::Refused { code: want_code, text: want.to_owned() }));
        assert_eq!(client.read_message().await, None);
    };
    let newer = "unsupported protocol version 2.4, newest supported is 1.4: upgrade this side first";
    check(&|hello| hello[8] = 2, RefusalCode::VERSION, newer).await;
    check(&|hello| hello[15] = 1, RefusalCode::LABELS, "the labels take 16777221 bytes, more than 73920").await;
    check(&|hello| hello[16] = 200, RefusalCode::LABELS, "the labels are refused: invalid label encoding").await;
    assert_eq!(node.metric("sources_protocol_errors_total"), 3.0);
    assert!(node.stop().await.is_empty());
}

#[tokio::test]
async fn a_bad_batch_ends_the_connection_with_its_reason() {
    let mut node = ListenerNode::start(
        Durability::Fast,
        Config { frame_bytes_max: 1, record_bytes_max: 1_000, ..Config::default() },
    )
    .await;
    let check = async |bytes: &[u8], want: &str| {
        let mut client = FramedClient::welcome(&node, "").await;
        client.send(0, "good\n").await;
        client.socket.write_all(bytes).await.unwrap();
        // The acknowledgement of the good batch may be a message of its own.
        let mut message = client.read_message().await;
        if message == Some(ServerMessage::Acked(1)) {
            message = client.read_message().await;
        }
        assert_eq!(message, Some(ServerMessage::Failed { acked: 1, text: want.to_owned() }));
        assert_eq!(client.read_message().await, None);
    };
    let forged = |change: &dyn Fn(&mut FrameHeader), body: &[u8]| {
        let mut header = FrameHeader {
            body_len: body.len() as u32,
            row_meta_len: 0,
            first_id: Id::new(AT, Producer::new(1), 0),
            count: 1,
            stream: 0,
            accepted: AT,
            kind: FrameKind::Records,
            layout_bits: 0,
        };
        change(&mut header);
        let sealed = header.encode(0, &[body]);
        [&sealed[..], body].concat()
    };
    check(&[b'x'; 5_000], "a batch is damaged: no frame starts here").await;
    let mut long = batch(AT, 0, "x\n");
    long[8..12].copy_from_slice(&70_000_u32.to_le_bytes());
    check(&long, "a frame of 70056 bytes exceeds the limit of 66536").await;
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    check(&long, "a batch is damaged: the header of the frame is out of bounds").await;
    let mut flipped = batch(AT, 0, "x\n");
    flipped[56] ^= 4;
    check(&flipped, "a batch is damaged: the checksum of the frame is wrong").await;
    check(&forged(&|_| {}, b"a\nb\n"), "a batch is damaged: the body of the frame does not match its header").await;
    check(
        &forged(&|header| header.layout_bits = 1, b"a\n"),
        "a batch is damaged: the body of the frame does not match its header",
    )
    .await;
    check(
        &forged(&|header| header.stream = 1, b"a\n"),
        "a batch is not a frame of records of the connection's one stream",
    )
    .await;
    assert!(node.stop().await.iter().all(|record| record.text == b"good"));
}

#[tokio::test]
async fn an_incomplete_batch_times_out_and_loses_nothing() {
    let mut node =
        ListenerNode::start(Durability::Fast, Config { frame_timeout: Duration::from_millis(80), ..Config::default() })
            .await;
    let text = "z".repeat(20_000) + "\n";
    let whole = batch(AT, 0, &text);
    let mut client = FramedClient::welcome(&node, "").await;
    client.socket.write_all(&whole[..15_000]).await.unwrap();
    let want = "timeout: the rest of a message did not arrive within 0 s";
    assert_eq!(client.read_message().await, Some(ServerMessage::Failed { acked: 0, text: want.to_owned() }));
    let mut client = FramedClient::welcome(&node, "").await;
    client.socket.write_all(&whole[..15_000]).await.unwrap();
    client.socket.shutdown().await.unwrap();
    assert_eq!(client.read_message().await, None);
    let mut client = FramedClient::welcome(&node, "").await;
    client.socket.write_all(&whole).await.unwrap();
    assert_eq!(client.wait_for_ack(1).await, 1);
    drop(client);
    assert_eq!(node.stop().await.len(), 1);
}

#[tokio::test]
async fn frames_larger_than_their_memory_are_read_one_at_a_time() {
    let config = Config { partial_bytes_max: 6_000, ..Config::default() };
    let mut node = ListenerNode::start(Durability::Fast, config).await;
    let text = "z".repeat(20_000) + "\n";
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(FramedClient::welcome(&node, "").await);
    }
    for (number, client) in (0..).zip(&mut clients) {
        client.send(number, &text).await;
    }
    for client in &mut clients {
        assert_eq!(client.wait_for_ack(1).await, 1);
    }
    drop(clients);
    assert_eq!(node.stop().await.len(), 8);
}

#[tokio::test]
async fn a_client_with_too_many_unacknowledged_batches_is_not_read_from() {
    let config = Config { unacked_frames_max: 3, ..Config::default() };
    let mut node = ListenerNode::start(Durability::Durable, config).await;
    let mut client = FramedClient::welcome(&node, "").await;
    for number in 0..9 {
        client.send(number, "x\n").await;
    }
    for appended in [3, 6, 9] {
        wait_until("three more batches", || node.queue.appends() == appended).await;
        client.expect_silence().await;
        assert_eq!(node.queue.appends(), appended);
        node.queue.commit_group();
        assert_eq!(client.read_message().await, Some(ServerMessage::Acked(appended)));
    }
    drop(client);
    node.stop().await;
}

#[tokio::test]
async fn times_far_ahead_become_the_arrival_time_and_are_counted() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "").await;
    client.socket.write_all(&batch(Millis(AT.0 * 3), 5, "a\nb\n")).await.unwrap();
    assert_eq!(client.wait_for_ack(1).await, 1);
    drop(client);
    let records = node.stop().await;
    assert!(records.iter().all(|record| record.id.time() > AT && record.id.time().0 < AT.0 * 2));
    assert_eq!(records[1].id.sequence(), 6);
    assert_eq!(node.metric("ingest_times_replaced_total{source=\"forward\"}"), 2.0);
}

#[tokio::test]
async fn no_garbage_harms_the_node() {
    let mut node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let hello = Hello { version: WireVersion::NEWEST, labels: Labels::default() }.encode();
    let good = batch(AT, 0, "x\ny\n");
    for seed in 0..60 {
        let mut random = TestRng::new(seed);
        let mut bytes = [&hello[..], &good, &FLUSH, &good].concat();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => drop(bytes.splice(at..at, (0..random.below(90)).map(|byte| byte as u8))),
            }
        }
        let mut socket = node.connect().await;
        let _ = socket.write_all(&bytes).await;
        if random.below(2) == 0 {
            let _ = socket.shutdown().await;
        }
    }
    let mut client = FramedClient::welcome(&node, "").await;
    client.send(0, "still here\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    drop(client);
    assert!(node.stop().await.iter().any(|record| record.text == b"still here"));
}
