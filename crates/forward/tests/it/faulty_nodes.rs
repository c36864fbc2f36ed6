//! Nodes that violate the protocol or send no acknowledgements.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_forward::{Config, ForwardError, Summary, run};
use bucksaw_ingest::Durability;
use bucksaw_wire::{Hello, HelloReply, RefusalCode, ServerMessage, WireVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::node::{IngestNode, config};

/// A node that replies to each hello with these bytes, and reads on.
async fn node_replying(reply: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let reply = reply.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 10_000];
                let _ = socket.read_exact(&mut buffer[..Hello::FIXED_LEN]).await;
                let _ = socket.write_all(&reply).await;
                while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

fn welcome(frame_bytes_max: u32) -> Vec<u8> {
    HelloReply::Welcome { version: WireVersion::NEWEST, frame_bytes_max }.encode()
}

async fn ship(input: impl AsyncRead + Unpin + Send, config: Config) -> Result<Summary, ForwardError> {
    let (_stop, stopped) = watch::channel(false);
    let shipping = run(input, config, Env::real(), stopped);
    tokio::time::timeout(Duration::from_secs(20), shipping).await.expect("the agent does not end")
}

/// Input without an end, or with an error at its end.
struct EndlessInput {
    read: Arc<AtomicUsize>,
    fails_after: usize,
}

impl AsyncRead for EndlessInput {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.load(Ordering::Relaxed) >= self.fails_after {
            return Poll::Ready(Err(io::Error::other("the pipe burst")));
        }
        buffer.put_slice(b"0123456789\n");
        self.read.fetch_add(11, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_agent_that_gives_up_reports_the_unsent_records_and_the_reason() {
    let check = async |reply: Vec<u8>, want: &str| {
        let address = node_replying(reply).await;
        let config = Config { give_up_after: Some(Duration::from_millis(300)), ..config(&[address]) };
        match ship(&b"a\nb\nc"[..], config).await {
            Err(ForwardError::GaveUp { unsent: 3, reason, .. }) => assert!(reason.contains(want), "{reason}"),
            other => panic!("{other:?}"),
        }
    };
    check(welcome(1 << 20), "no acknowledgement arrived").await;
    let text = "protocol version 2.0 is not known here".to_owned();
    check(
        HelloReply::Refused { code: RefusalCode::VERSION, text }.encode(),
        "the node refuses: protocol version 2.0 is not known here",
    )
    .await;
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "does not speak this protocol").await;
    check([welcome(1 << 20), ServerMessage::Acked(7).encode()].concat(), "acknowledged a batch that was not sent")
        .await;
    check([welcome(1 << 20), vec![9; 16]].concat(), "longer than").await;
    let failed = ServerMessage::Failed { acked: 0, text: "cannot write: \x1b[1m".to_owned() };
    check([welcome(1 << 20), failed.encode()].concat(), "the node reports: cannot write: \u{fffd}[1m").await;
    check(welcome(20), "the node takes frames of at most 20 bytes").await;
}

#[tokio::test]
async fn the_input_waits_for_a_node_that_does_not_acknowledge() {
    let address = node_replying(welcome(1 << 20)).await;
    let read = Arc::new(AtomicUsize::new(0));
    let input = EndlessInput { read: Arc::clone(&read), fails_after: usize::MAX };
    let give_up_after = Some(Duration::from_millis(400));
    let config = Config { window_bytes: 50_000, batch_bytes: 5_000, give_up_after, ..config(&[address]) };
    let Err(ForwardError::GaveUp { unsent, .. }) = ship(input, config).await else { panic!("did not give up") };
    let read = read.load(Ordering::Relaxed);
    assert!((40_000..130_000).contains(&read), "{read}");
    assert!(unsent as usize * 11 <= read);
}

#[tokio::test]
async fn a_silent_node_is_left_for_another() {
    let silent = node_replying(welcome(1 << 20)).await;
    let node = IngestNode::start(Durability::Fast).await;
    let config = Config { ack_timeout: Duration::from_millis(100), ..config(&[silent, node.address]) };
    let summary = ship(&b"a\nb\n"[..], config).await.unwrap();
    assert_eq!((summary.records, summary.reconnects, node.records().len()), (2, 1, 2));
}

#[tokio::test]
async fn an_input_error_is_reported_after_the_read_records_are_shipped() {
    let node = IngestNode::start(Durability::Fast).await;
    let input = EndlessInput { read: Arc::default(), fails_after: 11 * 1_000 };
    let error = ship(input, config(&[node.address])).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot read the input: the pipe burst");
    assert_eq!(node.records().len(), 1_000);
}

#[tokio::test]
async fn a_stop_waits_for_a_limited_time() {
    let address = node_replying(welcome(1 << 20)).await;
    let (stop, stopped) = watch::channel(true);
    let config = Config { stop_timeout: Duration::from_millis(100), ..config(&[address]) };
    let (mut pipe, input) = tokio::io::duplex(100);
    pipe.write_all(b"a\nb").await.unwrap();
    // Stopped before the first read, so no record is unsent.
    assert_eq!(run(input, config.clone(), Env::real(), stopped).await.unwrap(), Summary::default());
    stop.send_replace(false);
    let (mut pipe, input) = tokio::io::duplex(100);
    let shipping = tokio::spawn(run(input, config, Env::real(), stop.subscribe()));
    pipe.write_all(b"a\nb").await.unwrap();
    // The write returns when the agent has read the first bytes.
    pipe.write_all(&[b'x'; 99]).await.unwrap();
    stop.send_replace(true);
    let Err(ForwardError::Stopped { unsent, .. }) = shipping.await.unwrap() else { panic!("all records were shipped") };
    assert!((1..=2).contains(&unsent), "{unsent}");
}

#[tokio::test]
async fn an_agent_needs_an_address() {
    assert!(matches!(ship(&b""[..], Config::default()).await, Err(ForwardError::NoAddress)));
}
