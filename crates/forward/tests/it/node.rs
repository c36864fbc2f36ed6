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
use bucksaw_sources::{
    ConnectionSlots, Intake, ListenerSetup, Metrics, TcpIntake, UnfinishedBytes, WaitingSenders, serve,
};
use bucksaw_steering::LoadShedder;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct IngestNode {
    pub(crate) queue: Arc<Queue>,
    pub(crate) shedder: Arc<LoadShedder>,
    registry: Registry,
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
    /// A node that syncs and that commits a segment as soon as a client waits for it.
    pub(crate) async fn start(durability: Durability) -> Self {
        Self::start_with(durability, bucksaw_sources::Config::default()).await
    }

    /// A node that checks its clients every millisecond.
    pub(crate) async fn start_redirecting(durability: Durability) -> Self {
        let redirect_interval_min = Duration::from_millis(1);
        Self::start_with(
            durability,
            bucksaw_sources::Config { redirect_interval_min, ..bucksaw_sources::Config::default() },
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
        let shedder = Arc::new(LoadShedder::new(bucksaw_steering::Metrics::new(&mut registry)));
        let intake = TcpIntake {
            audit: None,
            waiting_senders: WaitingSenders::default(),
            agents: Arc::default(),
            authenticator: None,
            intake: Intake::new(Arc::clone(&queue), env),
            shedder: Arc::clone(&shedder),
            config,
            metrics: Metrics::new(&mut registry),
            sender_memory: UnfinishedBytes::new(&bucksaw_sources::Config::default()),
            slots: ConnectionSlots::new(10_000),
        };
        tokio::spawn(serve(listener, ListenerSetup::lines(durability), intake, stopped));
        let committing = Arc::clone(&queue);
        tokio::spawn(async move {
            loop {
                committing.commit_group();
                if committing.backlog().has_waiting_client {
                    // Only clients of the bulk port wait for this. Committed segments stay readable.
                    let ids: Vec<Id> = committing.reserve(u64::MAX).iter().map(|view| view.id).collect();
                    committing.commit(&ids);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { queue, shedder, registry, address, _stop: stop }
    }

    /// The number of redirects of a kind.
    pub(crate) fn redirects(&self, kind: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let name = format!("steering_redirected_total{{kind=\"{kind}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
    }

    /// The records in the order of their appends, with repeats.
    pub(crate) fn records(&self) -> Vec<ReceivedRecord> {
        let mut records = Vec::new();
        for segment in self.queue.readable_segments() {
            let view = segment.view();
            let mut frames = view.frames(HEADER_LEN as u64);
            while let Some(chunk) = frames.next_chunk().unwrap() {
                for (row, text) in (0..).zip(chunk.records()) {
                    let (id, flags) = (chunk.rows.id(row).unwrap(), chunk.rows.flags.get(row));
                    records.push(ReceivedRecord { id, text: text.to_vec(), flags, labels: chunk.labels.clone() });
                }
            }
        }
        records
    }
}

/// Settings with short delays; addresses are tried in their order.
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

/// Cuts its first `cuts` connections after a random number of bytes. Replies of the node are dropped from some point on, and to
/// the node every other cut is a clean end, so that it appends batches whose acknowledgements are lost.
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
            let (to_node, to_client) = (below(bytes_max), below(400));
            relay(&mut client, &mut server, to_node, to_client).await;
            let _ = client.set_zero_linger();
            if number.is_multiple_of(2) {
                let _ = server.set_zero_linger();
            } else {
                let _ = server.shutdown().await;
                // A bulk port keeps the connection while acknowledgements are missing.
                let mut sink = tokio::io::sink();
                let _ = tokio::time::timeout(Duration::from_millis(20), tokio::io::copy(&mut server, &mut sink)).await;
            }
        }
    });
    (address, made)
}

/// Copies both ways until a side ends or `to_node` bytes were sent to the node. After `to_client` bytes replies are dropped.
async fn relay(client: &mut TcpStream, server: &mut TcpStream, to_node: u64, to_client: u64) {
    let (from_client, mut client_writer) = client.split();
    let (from_server, mut server_writer) = server.split();
    let answers = async {
        let mut from_server = from_server.take(to_client);
        let _ = tokio::io::copy(&mut from_server, &mut client_writer).await;
        let mut sink = tokio::io::sink();
        let dropped = tokio::io::copy(from_server.get_mut(), &mut sink);
        // A client with a full window would wait for a reply for ever.
        let _ = tokio::time::timeout(Duration::from_millis(5), dropped).await;
    };
    tokio::select! {
        _ = async { tokio::io::copy(&mut from_client.take(to_node), &mut server_writer).await } => {}
        () = answers => {}
    }
}
