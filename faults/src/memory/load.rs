//! The load of a memory run: all clients that take memory, at once.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::load_state::{LoadState, REQUEST_TIMEOUT, drain, millis};
use super::senders;
use crate::http::{self, call, gzip};

/// The path of Bucksaw's own batches.
const INGEST: &str = "/api/v1/ingest";

/// Text that is sent repeatedly.
const CORPUS_BYTES: u64 = 32 << 20;

/// Bytes of an HTTP batch, and of an unpacked gzip bomb.
const BATCH_BYTES: usize = 2 << 20;
const BOMB_BYTES: usize = 1 << 30;

/// The maximum record that nodes accept, with its LF, and the number of such records in a batch.
const RECORD_BYTES: usize = 1 << 20;
const RECORDS: usize = 8;

/// Clients of each kind.
const BATCHES: usize = 3;
const LINES: usize = 4;
const LARGE: usize = 4;
const STATED_TIME_WRITERS: usize = 2;
const SENDERS: usize = 2;
const FOLLOWERS: usize = 8;
const STALLED: usize = 6;
const CONTEXTS: usize = 6;

/// One in this many of the largest records consists of control characters, which JSON makes six times as long.
const CONTROLS_EVERY: usize = 4;

/// Queries, each repeated without pause by its own client.
const QUERIES: [&str; 8] = [
    "count?q=",
    "count?q=%2F%28%3Fi%29%28%5Ba-z%5D%7B20%7D%29%7B20%7D%2F",
    "query?format=raw&limit=1000000&q=%22GET%22",
    "query?format=raw&q=%2F%5B%5Eq%5D%7B0%2C300%7Dz%7B0%2C300%7Derror%2F&limit=100000",
    "histogram?buckets=100&q=error",
    "query?q=&limit=1000000",
    "query?q=&limit=100000&order=asc",
    "fields?q=",
];

/// Lines of a fleet.
pub(super) struct LoadCorpus {
    /// Batches of about [`BATCH_BYTES`], with their numbers of lines.
    batches: Vec<(Vec<u8>, u64)>,
    bomb: Vec<u8>,
}

impl LoadCorpus {
    pub(super) fn generate(bucksaw: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(bucksaw)
            .args(["generate", "--rate", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot generate lines")?;
        let mut text = Vec::new();
        child.stdout.take().context("no pipe")?.take(CORPUS_BYTES).read_to_end(&mut text)?;
        // The program would write forever.
        let _ = child.kill();
        child.wait()?;
        let mut batches = Vec::new();
        let mut batch = Vec::new();
        let mut lines = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            batch.extend_from_slice(line);
            lines += 1;
            if batch.len() >= BATCH_BYTES {
                batches.push((std::mem::take(&mut batch), std::mem::take(&mut lines)));
            }
        }
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![0; 1 << 20];
        for _ in 0..BOMB_BYTES / zeros.len() {
            bomb.write_all(&zeros)?;
        }
        Ok(Self { batches, bomb: bomb.finish()? })
    }

    fn batch(&self, number: usize) -> &(Vec<u8>, u64) {
        &self.batches[number % self.batches.len()]
    }
}

/// Counts of all clients.
#[derive(Default)]
pub(super) struct LoadCounts {
    /// Acknowledged records of each writer, by the expression that finds them.
    pub(super) writers: Vec<(String, u64)>,
    /// Answers that were read completely.
    pub(super) answers: u64,
    /// Calls that were refused with a later retry.
    pub(super) refused: u64,
    /// Bombs that were refused.
    pub(super) bombs: u64,
}

/// Makes the body with a number; returns it with the number of its records.
type MakeRequest = fn(usize) -> (Vec<u8>, u64);

/// Sends records of a name to a node until the stop; returns the number of acknowledged ones.
type SendStream = fn(&LoadState, Ipv4Addr, &str) -> u64;

/// Running clients.
pub(super) struct MemoryLoad {
    shared: Arc<LoadState>,
    threads: Vec<JoinHandle<()>>,
}

impl MemoryLoad {
    /// Starts all clients, distributed over the addresses of the nodes.
    pub(super) fn start(
        corpus: &Arc<LoadCorpus>,
        nodes: Vec<(SocketAddr, SocketAddr)>,
        connections: usize,
        only: &[String],
    ) -> Self {
        let mut load = Self { shared: Arc::default(), threads: Vec::new() };
        let wants = |kind: &str| only.is_empty() || only.iter().any(|wanted| wanted == kind);
        let count = |kind: &str, count: usize| if wants(kind) { count } else { 0 };
        let at = |number: usize| nodes[number % nodes.len()];
        for number in 0..count("batches", BATCHES) {
            let (corpus, http) = (Arc::clone(corpus), at(number).0);
            let packed = number == 0;
            load.writer(format!("batch{number}"), move |shared, name| {
                post(shared, http, INGEST, name, packed, "text/plain", |turn| {
                    let (text, lines) = corpus.batch(turn + number * 5);
                    (text.clone(), *lines)
                })
            });
        }
        for number in 0..count("lines", LINES) {
            let (corpus, lines) = (Arc::clone(corpus), at(number).1);
            load.writer(format!("lines{number}"), move |shared, name| stream(shared, lines, name, &corpus));
        }
        for number in 0..count("large", LARGE) {
            let http = at(number).0;
            load.writer(format!("large{number}"), move |shared, name| {
                post(shared, http, INGEST, name, false, "text/plain", large_records)
            });
        }
        for number in 0..count("stated", STATED_TIME_WRITERS) {
            let http = at(number).0;
            load.writer(format!("stated{number}"), move |shared, name| {
                post(shared, http, INGEST, name, false, "application/x-ndjson", stated_times)
            });
        }
        load.start_senders(nodes.iter().map(|(http, _)| *http).collect(), &count);
        let (bombs, http) = (Arc::clone(corpus), at(0).0);
        if wants("bombs") {
            load.client(move |shared| bomb(shared, http, &bombs.bomb));
        }
        for (number, question) in QUERIES.iter().enumerate().take(count("questions", QUERIES.len())) {
            let http = at(number).0;
            load.client(move |shared| query_loop(shared, http, question));
        }
        for number in 0..count("followers", FOLLOWERS) {
            let http = at(number).0;
            load.client(move |shared| follow(shared, http));
        }
        for number in 0..count("stalled", STALLED) {
            let http = at(number).0;
            load.client(move |shared| stall_loop(shared, http));
        }
        for number in 0..count("contexts", CONTEXTS) {
            let http = at(number).0;
            load.client(move |shared| context(shared, http, number % 2 == 0));
        }
        let held: Vec<(SocketAddr, &[u8])> = (0..count("holders", connections))
            .map(|number| (at(number).1, &b"#labels writer=holder\n"[..]))
            .chain((0..count("sender-holders", connections)).flat_map(|number| senders::unfinished(ipv4(at(number).0))))
            .collect();
        load.client(move |shared| hold_connections(shared, &held));
        load
    }

    /// Starts the senders of other log systems.
    fn start_senders(&mut self, nodes: Vec<SocketAddr>, count: &impl Fn(&str, usize) -> usize) {
        let requests: [(&str, &str, &str, MakeRequest); 3] = [
            ("loki", "/loki/api/v1/push", "application/json", senders::loki),
            ("bulk", "/_bulk", "application/x-ndjson", senders::bulk),
            ("otlp", "/v1/logs", "application/json", senders::otlp),
        ];
        for (kind, path, content, body) in requests {
            for number in 0..count(kind, SENDERS) {
                let http = nodes[number % nodes.len()];
                self.writer(format!("{kind}{number}"), move |shared, name| {
                    post(shared, http, path, name, number == 1, content, body)
                });
            }
        }
        let streams: [(&str, &str, SendStream); 3] = [
            ("syslog", "service.name", senders::syslog),
            ("gelf", "service.name", senders::gelf),
            ("fluent", "tag", senders::fluent),
        ];
        for (kind, label, send) in streams {
            for number in 0..count(kind, SENDERS) {
                let ip = ipv4(nodes[number % nodes.len()]);
                let name = format!("{kind}{number}");
                self.labelled_writer(format!("{label}%3D{name}"), move |shared| send(shared, ip, &name));
            }
        }
    }

    fn client(&mut self, work: impl FnOnce(&LoadState) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        self.threads.push(thread::spawn(move || work(&shared)));
    }

    /// Starts a client whose records are counted at the end.
    fn writer(&mut self, name: String, work: impl FnOnce(&LoadState, &str) -> u64 + Send + 'static) {
        self.labelled_writer(format!("writer%3D{name}"), move |shared| work(shared, &name));
    }

    /// The same for a writer whose records this expression finds.
    fn labelled_writer(&mut self, expression: String, work: impl FnOnce(&LoadState) -> u64 + Send + 'static) {
        self.client(move |shared| {
            let acknowledged = work(shared);
            shared.writers.lock().unwrap_or_else(PoisonError::into_inner).push((expression, acknowledged));
        });
    }

    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until all clients have ended.
    pub(super) fn finish(self) -> LoadCounts {
        for thread in self.threads {
            // A client that panicked has acknowledged nothing.
            let _ = thread.join();
        }
        let shared = &self.shared;
        let mut writers = std::mem::take(&mut *shared.writers.lock().unwrap_or_else(PoisonError::into_inner));
        writers.sort();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LoadCounts { writers, answers: of(&shared.answers), refused: of(&shared.refused), bombs: of(&shared.bombs) }
    }
}

/// Sends batches with keys, each until it is acknowledged. Returns the number of acknowledged records.
fn post(
    shared: &LoadState,
    at: SocketAddr,
    path: &str,
    name: &str,
    packed: bool,
    kind: &str,
    mut batch: impl FnMut(usize) -> (Vec<u8>, u64),
) -> u64 {
    let (mut acknowledged, run) = (0, millis());
    let durability = if packed { "durable" } else { "fast" };
    let target = format!("{path}?durability={durability}&label=writer={name}");
    for turn in 0.. {
        if shared.stopped() {
            break;
        }
        let (text, records) = batch(turn);
        let body = if packed { gzip(&text) } else { text };
        let key = format!("{name}-{run}-{turn}");
        let mut headers = vec![("Idempotency-Key", key.as_str()), ("Content-Type", kind)];
        if packed {
            headers.push(("Content-Encoding", "gzip"));
        }
        // A batch that was sent is repeated even after the stop: otherwise it is unknown whether it is stored.
        let until = Instant::now() + REQUEST_TIMEOUT * 2;
        loop {
            match call(at, "POST", &target, &headers, &body, REQUEST_TIMEOUT) {
                Ok(answer) if is_success(answer.status, &answer.body) => {
                    acknowledged += records;
                    break;
                }
                Ok(answer) if matches!(answer.status, 429 | 503) => {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
            if Instant::now() > until {
                return acknowledged;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
    acknowledged
}

/// Whether all records of a request are stored. An answer of `_bulk` with errors has status 200.
fn is_success(status: u16, body: &[u8]) -> bool {
    matches!(status, 200 | 204) && !body.windows(13).any(|bytes| bytes == b"\"errors\":true")
}

fn ipv4(at: SocketAddr) -> Ipv4Addr {
    match at.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
    }
}

/// Records of the maximum size with little in common, some of control characters.
fn large_records(turn: usize) -> (Vec<u8>, u64) {
    let mut state = turn as u64 + 1;
    let mut text = Vec::with_capacity(RECORDS * RECORD_BYTES);
    for record in 0..RECORDS {
        let first = if record % CONTROLS_EVERY == 0 { 1 } else { b'a' };
        // A tab has a shorter escape in JSON, and an LF ends the record.
        let letters = if first == 1 { 8 } else { 26 };
        while text.len() % RECORD_BYTES != RECORD_BYTES - 1 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push(first + (state % letters) as u8);
        }
        text.push(b'\n');
    }
    (text, RECORDS as u64)
}

/// Short records with event times, spread over three seconds and unordered.
fn stated_times(turn: usize) -> (Vec<u8>, u64) {
    let (mut text, now) = (String::new(), millis());
    let records = 20_000_u64;
    for number in 0..records {
        let at = now - (number * 7_919 + turn as u64 * 31) % 3_000;
        text += &format!("{{\"ts\":{at},\"n\":{number}}}\n");
    }
    (text.into_bytes(), records)
}

/// Writes lines to a socket as fast as it accepts them. Returns their number once the node has read all.
fn stream(shared: &LoadState, at: SocketAddr, name: &str, corpus: &LoadCorpus) -> u64 {
    let Ok(mut socket) = TcpStream::connect(at) else { return 0 };
    if socket.write_all(format!("#labels writer={name}\n").as_bytes()).is_err() {
        return 0;
    }
    let mut sent = 0;
    for turn in 0.. {
        if shared.stopped() {
            break;
        }
        let (text, lines) = corpus.batch(turn);
        if socket.write_all(text).is_err() {
            break;
        }
        sent += lines;
    }
    // The node closes its side after reading everything.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.set_read_timeout(Some(REQUEST_TIMEOUT));
    let _ = drain(&mut socket);
    sent
}

fn bomb(shared: &LoadState, at: SocketAddr, packed: &[u8]) {
    while !shared.stopped() {
        let target = "/api/v1/ingest?label=writer=bomb";
        let headers = [("Content-Encoding", "gzip")];
        let answer = call(at, "POST", target, &headers, packed, REQUEST_TIMEOUT);
        // A node may close the connection without reading the rest.
        if answer.map_or(true, |answer| answer.status != 200) {
            shared.bombs.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(500));
    }
}

/// Sends a request and reads nothing of the reply.
fn send_request(at: SocketAddr, target: &str) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(at)?;
    socket.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let head = format!("GET /api/v1/{target} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes())?;
    Ok(socket)
}

fn query_loop(shared: &LoadState, at: SocketAddr, question: &str) {
    while !shared.stopped() {
        query_once(shared, at, question);
    }
}

fn query_once(shared: &LoadState, at: SocketAddr, question: &str) {
    let response = http::open(at, "GET", &format!("/api/v1/{question}"), &[], b"", REQUEST_TIMEOUT);
    let status = response.and_then(|mut response| drain(&mut response.body).map(|_| response.status));
    match status {
        Ok(200) => drop(shared.answers.fetch_add(1, Ordering::Relaxed)),
        _ => {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(200));
        }
    }
}

fn follow(shared: &LoadState, at: SocketAddr) {
    while !shared.stopped() {
        let Ok(mut socket) = send_request(at, "tail?q=") else { continue };
        let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
        let mut buffer = vec![0; 64 << 10];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !shared.stopped() => {}
                Err(_) => break,
                Ok(_) if shared.stopped() => return,
                Ok(_) => {}
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Repeatedly requests the newest of the largest records and then its context. Every other client delays reading the
/// context.
fn context(shared: &LoadState, at: SocketAddr, reads: bool) {
    while !shared.stopped() {
        let newest = "/api/v1/query?q=writer%3Dlarge0&limit=1&order=desc";
        let found = call(at, "GET", newest, &[], b"", REQUEST_TIMEOUT).ok().filter(|answer| answer.status == 200);
        // An object starts with `{"id":"…"`.
        let id = found.and_then(|answer| Some(str::from_utf8(answer.body.get(7..33)?).ok()?.to_owned()));
        match id {
            Some(id) if reads => query_once(shared, at, &format!("context?before=20&after=20&id={id}")),
            Some(id) => stall_once(shared, at, &format!("context?before=20&after=20&id={id}")),
            None => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Requests everything and reads nothing.
fn stall_loop(shared: &LoadState, at: SocketAddr) {
    while !shared.stopped() {
        stall_once(shared, at, "query?q=");
    }
}

fn stall_once(shared: &LoadState, at: SocketAddr, question: &str) {
    let socket = send_request(at, question);
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until && !shared.stopped() {
        thread::sleep(Duration::from_millis(100));
    }
    drop(socket);
}

/// Holds an unfinished message in each connection, which grows to the maximum length.
fn hold_connections(shared: &LoadState, at: &[(SocketAddr, &[u8])]) {
    let mut sockets: Vec<TcpStream> = Vec::new();
    for (at, start) in at {
        let Ok(mut socket) = TcpStream::connect(at) else { continue };
        let _ = socket.set_nonblocking(true);
        let _ = socket.write_all(start);
        sockets.push(socket);
    }
    let piece = vec![b'h'; 16 << 10];
    while !shared.stopped() {
        for socket in &mut sockets {
            // Bytes that the node does not accept now are sent later.
            let _ = socket.write(&piece);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
