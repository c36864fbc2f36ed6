//! A node with one listener.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_auth::Authenticator;
use bucksaw_env::{Env, Fs as _, sim};
use bucksaw_fixtures::Random;
pub(crate) use bucksaw_fixtures::wait_until;
use bucksaw_ingest::{Durability, Queue};
use bucksaw_record::{Flags, Id, Labels};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_sources::{
    AgentRegistry, Config, ConnectionSlots, DatagramSocket, Intake, ListenerProtocol, ListenerSetup, Metrics,
    TcpIntake, UnfinishedBytes, WaitingSenders, serve, serve_datagrams,
};
use bucksaw_steering::LoadShedder;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The path of an auth file.
const AUTH_FILE: &str = "/auth.toml";

/// The interval of `Queue::tick`, as in a real node.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct ListenerNode {
    pub(crate) fs: sim::Fs,
    pub(crate) queue: Arc<Queue>,
    pub(crate) shedder: Arc<LoadShedder>,
    pub(crate) address: SocketAddr,
    pub(crate) agents: Arc<AgentRegistry>,
    pub(crate) waiting_senders: WaitingSenders,
    authenticator: Option<Authenticator>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    registry: Registry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedRecord {
    pub(crate) id: Id,
    pub(crate) text: Vec<u8>,
    pub(crate) flags: u8,
    pub(crate) labels: Labels,
}

impl ListenerNode {
    pub(crate) async fn start(durability: Durability, config: Config) -> Self {
        Self::start_with(durability, config, bucksaw_ingest::Config::default()).await
    }

    pub(crate) async fn start_with(durability: Durability, config: Config, queue: bucksaw_ingest::Config) -> Self {
        Self::start_setup(ListenerSetup::lines(durability), config, queue).await
    }

    /// A listener of any protocol. One that is not lines receives datagrams, too, on the same port.
    pub(crate) async fn start_setup(setup: ListenerSetup, config: Config, queue: bucksaw_ingest::Config) -> Self {
        Self::start_authenticated(setup, config, queue, None).await
    }

    /// The same with this text of an auth file.
    pub(crate) async fn start_authenticated(
        setup: ListenerSetup,
        config: Config,
        queue: bucksaw_ingest::Config,
        auth_file: Option<&str>,
    ) -> Self {
        let fs = sim::Fs::new();
        let env = Env { fs: Arc::new(fs.clone()), ..Env::real() };
        let mut registry = Registry::default();
        let metrics = bucksaw_ingest::Metrics::new(&mut registry);
        let queue = Arc::new(Queue::open(env.clone(), Path::new("/q"), queue, metrics).unwrap().0);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let shedder = Arc::new(LoadShedder::new(bucksaw_steering::Metrics::new(&mut registry)));
        let (agents, waiting_senders) = (Arc::<AgentRegistry>::default(), WaitingSenders::default());
        let authenticator = auth_file.map(|text| {
            bucksaw_env::replace(&fs, Path::new(AUTH_FILE), &[text.as_bytes()]).unwrap();
            let metrics = bucksaw_auth::Metrics::new(&mut registry);
            Authenticator::open(Path::new(AUTH_FILE), env.clone(), metrics).unwrap()
        });
        let intake = TcpIntake {
            sender_memory: UnfinishedBytes::new(&config),
            audit: None,
            waiting_senders: waiting_senders.clone(),
            agents: Arc::clone(&agents),
            authenticator: authenticator.clone(),
            intake: Intake::new(Arc::clone(&queue), env),
            shedder: Arc::clone(&shedder),
            config,
            metrics: Metrics::new(&mut registry),
            slots: ConnectionSlots::new(10_000),
        };
        let ticking = Arc::downgrade(&queue);
        tokio::spawn(async move {
            while let Some(queue) = ticking.upgrade() {
                queue.tick();
                drop(queue);
                tokio::time::sleep(TICK).await;
            }
        });
        let datagrams = match setup.protocol {
            ListenerProtocol::Lines(_) => None,
            _ => Some(UdpSocket::bind(address).await.unwrap()),
        };
        let serving = tokio::spawn(async move {
            let datagrams = datagrams.map(|socket| {
                let socket = DatagramSocket::Udp(socket);
                tokio::spawn(serve_datagrams(socket, setup.clone(), intake.clone(), stopped.clone()))
            });
            serve(listener, setup, intake, stopped).await;
            if let Some(datagrams) = datagrams {
                datagrams.await.unwrap();
            }
        });
        Self { fs, queue, shedder, address, agents, waiting_senders, authenticator, stop, serving, registry }
    }

    /// Replaces the auth file, which is in use afterwards.
    pub(crate) fn replace_auth_file(&self, text: &str) {
        bucksaw_env::replace(&self.fs, Path::new(AUTH_FILE), &[text.as_bytes()]).unwrap();
        self.authenticator.as_ref().unwrap().reload(&bucksaw_env::Reloads::default());
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends the stop without waiting for the end.
    pub(crate) fn send_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Stops, waits for the end, and returns the records.
    pub(crate) async fn stop(&mut self) -> Vec<AcceptedRecord> {
        self.send_stop();
        (&mut self.serving).await.unwrap();
        self.records()
    }

    pub(crate) fn is_serving(&self) -> bool {
        !self.serving.is_finished()
    }

    /// The number of segment files; `boot` is no segment.
    pub(crate) fn files(&self) -> usize {
        self.fs.list(Path::new("/q")).unwrap().iter().filter(|name| name.as_str() != "boot").count()
    }

    /// The records in the order of their appends.
    pub(crate) fn records(&self) -> Vec<AcceptedRecord> {
        let mut records = Vec::new();
        for view in self.queue.uncommitted_segments() {
            let mut frames = view.frames(HEADER_LEN as u64);
            while let Some(chunk) = frames.next_chunk().unwrap() {
                for (row, text) in (0..).zip(chunk.records()) {
                    let (id, flags) = (chunk.rows.id(row).unwrap(), chunk.rows.flags.get(row));
                    records.push(AcceptedRecord { id, text: text.to_vec(), flags, labels: chunk.labels.clone() });
                }
            }
        }
        records
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.records().into_iter().map(|record| String::from_utf8(record.text).unwrap()).collect()
    }

    /// The value of a metric, by its name and labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) async fn until_records(&self, count: usize) {
        wait_until("records", || self.records().len() >= count).await;
    }
}

/// Runs all tasks of the test that can make progress. The runtime has one thread and polls its sockets every 61 tasks, and
/// a local socket is readable when a write to it returns. So a message that a listener can send has arrived afterwards.
pub(crate) async fn run_ready_tasks() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// The stream of the records: those that were cut or unterminated had no line end.
pub(crate) fn joined<'a>(records: impl IntoIterator<Item = &'a AcceptedRecord>) -> Vec<u8> {
    let mut stream = Vec::new();
    for record in records {
        stream.extend_from_slice(&record.text);
        if record.flags & (Flags::CUT | Flags::UNTERMINATED) == 0 {
            stream.push(b'\n');
        }
    }
    stream
}

/// Random streams of lines.
pub(crate) struct TestRng(Random);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// A stream of lines with any bytes, a few of them very long.
    pub(crate) fn stream(&mut self, bytes: usize, long: usize) -> Vec<u8> {
        let pieces: [&[u8]; 9] =
            [b"\n", b"\r\n", b"\0", b"\xff\xfe", b"100%d %s %%", b"BSWF", b"word ", b"\n\n", "é".as_bytes()];
        let mut stream = Vec::new();
        while stream.len() < bytes {
            if self.below(2_000) == 0 {
                stream.resize(stream.len() + self.below(long), b'x');
            }
            stream.extend_from_slice(pieces[self.below(pieces.len())]);
        }
        stream
    }
}
