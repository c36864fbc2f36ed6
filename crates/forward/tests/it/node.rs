//! A node with one listener, and a proxy that cuts connections.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bucksaw_env::{Env, sim};
use bucksaw_forward::Config;
use bucksaw_ingest::{Durability, Queue};
use bucksaw_record::{Id, Labels};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_sources::{ConnectionSlots, Intake, Metrics, TcpIntake, serve};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct IngestNode {
    pub(crate) queue: Arc<Queue>,
    pub(crate) address: SocketAddr,
    _stop: watch::Sender<bool>,
}

pub(crate) struct ReceivedRecord {
    pub(crate) id: Id,
    pub(crate) text: Vec<u8>,
    pub(crate) flags: u8,
    pub(crate) labels: Labels,
}

impl IngestNode {
    /// A node that syncs, and whose store takes a segment as soon as a client waits for that.
    pub(crate) async fn start(durability: Durability) -> Self {
        Self::start_with(durability, bucksaw_sources::Config::default()).await
    }

    /// One that may let its clients go as soon as they have come.
    pub(crate) async fn start_redirecting(durability: Durability) -> Self {
        let stay_min = Duration::from_millis(1);
        Self::start_with(
            durability,
            bucksaw_sources::Config { redirect_interval_min: stay_min, ..bucksaw_sources::Config::default() },
        )
        .await
    }

    async fn start_with(durability: Durability, config: bucksaw_sources::Config) -> Self {
        let env = Env { fs: Arc::new(sim::Fs::new()), ..Env::real() };
        let mut registry = Registry::default();
        let metrics = bucksaw_ingest::Metrics::new(&mut registry);
        let queue = Queue::open(env.clone(), Path::new("/q"), bucksaw_ingest::Config::default(), metrics);
        let queue = Arc::new(queue.unwrap().0);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let intake = TcpIntake {
            intake: Intake { queue: Arc::clone(&queue), env },
            config,
            metrics: Metrics::new(&mut registry),
            slots: ConnectionSlots::new(10_000),
        };
        tokio::spawn(serve(listener, durability, intake, stopped));
        let keeper = Arc::clone(&queue);
        tokio::spawn(async move {
            loop {
                keeper.commit_group();
                if keeper.backlog().has_waiting_client {
                    // Only the bulk port has clients that wait for this; what it holds stays readable for the tests.
                    let ids: Vec<Id> = keeper.reserve(u64::MAX).iter().map(|view| view.id).collect();
                    keeper.commit(&ids);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { queue, address, _stop: stop }
    }

    /// The records in the order in which they were taken, repeats too.
    pub(crate) fn records(&self) -> Vec<ReceivedRecord> {
        let mut records = Vec::new();
        for segment in self.queue.readable_segments() {
            let view = segment.view();
            let mut frames = view.frames(HEADER_LEN as u64);
            while let Some(chunk) = frames.next_chunk().unwrap() {
                for (row, text) in (0..).zip(chunk.records()) {
                    let (id, marks) = (chunk.rows.id(row).unwrap(), chunk.rows.flags.get(row));
                    records.push(ReceivedRecord {
                        id,
                        text: text.to_vec(),
                        flags: marks,
                        labels: chunk.labels.clone(),
                    });
                }
            }
        }
        records
    }
}

/// Settings that lose no time; addresses are tried in the order in which they are given.
pub(crate) fn config(to: &[SocketAddr]) -> Config {
    Config {
        shuffle: false,
        addresses: to.iter().map(SocketAddr::to_string).collect(),
        backoff_min: Duration::from_millis(1),
        backoff_max: Duration::from_millis(20),
        linger: Duration::from_millis(5),
        ..Config::default()
    }
}

/// Cuts its first `cuts` connections after a number of bytes that the seed decides; then it cuts no more. What the node
/// says is swallowed from some point on, and every other cut shows the node a clean end, so that it takes what it has:
/// then batches were taken and their acknowledgements lost.
pub(crate) async fn cutting_proxy(
    target: SocketAddr,
    cuts: usize,
    bytes_max: u64,
    seed: u64,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    tokio::spawn(async move {
        let mut random = seed;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(target).await.unwrap();
            let number = count.fetch_add(1, Ordering::Relaxed);
            if number >= cuts {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                continue;
            }
            let (there, back) = (below(bytes_max), below(400));
            relay(&mut client, &mut server, there, back).await;
            let _ = client.set_zero_linger();
            if number.is_multiple_of(2) {
                let _ = server.set_zero_linger();
            } else {
                let _ = server.shutdown().await;
                // A bulk port keeps the connection for as long as it has acknowledgements to give.
                let mut sink = tokio::io::sink();
                let _ = tokio::time::timeout(Duration::from_millis(20), tokio::io::copy(&mut server, &mut sink)).await;
            }
        }
    });
    (address, made)
}

/// Copies both ways until a side ends or so many bytes went to the node.
async fn relay(client: &mut TcpStream, server: &mut TcpStream, there: u64, back: u64) {
    let (from_client, mut to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let answers = async {
        let mut from_server = from_server.take(back);
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        let mut sink = tokio::io::sink();
        let swallowed = tokio::io::copy(from_server.get_mut(), &mut sink);
        // A client that fills its window meanwhile would wait, and so would the test.
        let _ = tokio::time::timeout(Duration::from_millis(5), swallowed).await;
    };
    tokio::select! {
        _ = async { tokio::io::copy(&mut from_client.take(there), &mut to_server).await } => {}
        () = answers => {}
    }
}
