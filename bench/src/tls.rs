//! `tls`: what TLS and tokens add to the cost of ingest and search.
//!
//! The same lines are sent over HTTP, in bodies on a few connections that stay open, and by `bucksaw forward`, each in plain and
//! over TLS with a token. The CPU of the node is counted from its start to the end of all merges. Then all lines are read, and
//! a word is counted many times. Handshakes are few, so the figures are those of encryption and of the checks of each request.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_env::Env;
use bucksaw_faults::wait;
use bucksaw_tls::{ClientFiles, ClientTls};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::machine;
use crate::node::{BenchNode, number};
use crate::results::{BenchRun, Figure, figure};

const CPU: &str = "node_cpu";
const READ_CPU: &str = "read_cpu";
const COUNT_CPU: &str = "count_cpu";

/// Counts of a word that no line has, on one connection.
const COUNTS: u32 = 500;

/// CPU seconds in [`IDLE_TIME`] that a merging node exceeds by far.
const IDLE_CPU_SECONDS: f64 = 0.2;
const IDLE_TIME: Duration = Duration::from_secs(2);

const SETTLE_MAX: Duration = Duration::from_secs(900);

/// Connections of the senders over HTTP.
const CONNECTIONS: usize = 4;

/// Measure the cost of TLS
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    body: Size,
}

/// How lines are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Http,
    Framed,
}

const SUBJECTS: [(&str, Transport, bool); 4] = [
    ("http", Transport::Http, false),
    ("http-tls", Transport::Http, true),
    ("framed", Transport::Framed, false),
    ("framed-tls", Transport::Framed, true),
];

pub(crate) fn run(args: &TlsArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus()?;
    let certificates = context.path("certificates");
    for arguments in [&["ca"][..], &["node", "127.0.0.1"]] {
        let mut made = Command::new(&context.bucksaw);
        made.args(["certs", "--dir"]).arg(&certificates).args(arguments);
        ensure!(made.stdout(Stdio::null()).status()?.success(), "`bucksaw certs` failed");
    }
    let token = new_token(context)?;
    let mut results = context.results("tls")?.with_corpus(&corpus);
    for round in 1..=args.rounds as usize {
        for (subject, transport, is_encrypted) in SUBJECTS {
            let load = machine::load();
            let guard = is_encrypted.then_some(NodeGuard { certificates: &certificates, token: &token });
            let figures = measure(args, context, &corpus, transport, guard)?;
            let run = BenchRun { subject: subject.into(), round, load, figures };
            let cpu = run.value(CPU).unwrap_or(f64::NAN);
            eprintln!("round {round} of {}: {subject} {cpu:.2} s of CPU per GB (load {load:.1})", args.rounds);
            results.runs.push(run);
        }
    }
    for transport in ["http", "framed"] {
        for (what, name) in [("ingest", CPU), ("reading all lines", READ_CPU), ("a count", COUNT_CPU)] {
            let median = |subject: &str| results.median(subject, name).unwrap_or(f64::NAN);
            let more = median(&format!("{transport}-tls")) / median(transport) - 1.0;
            println!("{transport}: TLS and a token add {:.1} % to the CPU of the node for {what}", 100.0 * more);
        }
    }
    context.report(&results)
}

fn measure(
    args: &TlsArgs,
    context: &BenchContext,
    corpus: &Corpus,
    transport: Transport,
    guard: Option<NodeGuard<'_>>,
) -> anyhow::Result<Vec<Figure>> {
    let client = LoadClient::new(guard)?;
    let auth_file = context.path(AUTH_FILE).display().to_string();
    let flags: Vec<String> = guard.map_or_else(Vec::new, |guard| {
        let file = |name: &str| guard.certificates.join(name).display().to_string();
        let tls = ["--tls-cert".into(), file("127.0.0.1.pem"), "--tls-key".into(), file("127.0.0.1.key")];
        tls.into_iter().chain(["--auth-file".into(), auth_file]).collect()
    });
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let node = BenchNode::start_until(&context.bucksaw, &context.path("node"), &flags, |addresses| {
        addresses.get("http").is_some_and(|address| client.get(address, "/-/ready").is_ok())
    })?;
    let started = Instant::now();
    match transport {
        Transport::Http => client.post(node.address("http")?, corpus, args.body)?,
        Transport::Framed => {
            let mut forward = Command::new(&context.bucksaw);
            forward.args(["forward", "--to", node.address("fast")?]);
            if let Some(guard) = guard {
                forward.arg("--ca").arg(guard.certificates.join("ca.pem")).env("BUCKSAW_TOKEN", guard.token);
            }
            let ended = forward.stdin(File::open(&corpus.path)?).stderr(Stdio::null()).status()?;
            ensure!(ended.success(), "`bucksaw forward` failed");
        }
    }
    let accepted = started.elapsed().as_secs_f64();
    let cpu = wait_settled(&client, &node, corpus.bytes)?;
    let http = node.address("http")?;
    let count = number(&client.get(http, "/api/v1/count?from=20000d&q=-_bucksaw%3Daudit")?, "/count")?;
    ensure!(count == corpus.lines, "{} lines were sent, and {count} records are there", corpus.lines);
    let before = node.cpu()?;
    let read = client.read(http, "/api/v1/query?from=20000d&q=-_bucksaw%3Daudit")?;
    let read_cpu = node.cpu()? - before;
    let before = node.cpu()?;
    client.repeat(http, "/api/v1/count?from=20000d&q=NoLineHasThisWord", COUNTS)?;
    let count_cpu = node.cpu()? - before;
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;
    let gigabytes = corpus.bytes as f64 / 1e9;
    Ok(vec![
        figure("sent", "MB", 1e3 * gigabytes),
        figure("accepted_after", "s", accepted),
        figure(CPU, "s/GB", cpu / gigabytes),
        figure("read", "MB", read as f64 / 1e6),
        figure(READ_CPU, "s/GB", 1e9 * read_cpu / read as f64),
        figure(COUNT_CPU, "ms", 1e3 * count_cpu / f64::from(COUNTS)),
    ])
}

/// Waits until everything is stored and merged; returns the CPU seconds until then.
fn wait_settled(client: &LoadClient, node: &BenchNode, bytes: u64) -> anyhow::Result<f64> {
    let mut rest: Option<(Instant, f64)> = None;
    wait::until("the store to become idle", Duration::from_millis(250), SETTLE_MAX, || {
        let cluster = client.get(node.address("http")?, "/api/v1/cluster")?;
        let cpu = node.cpu()?;
        let is_stored = number(&cluster, "/nodes/0/queue/segments")? == 0
            && number(&cluster, "/nodes/0/store/text_bytes")? == bytes;
        rest = rest.filter(|(_, since)| is_stored && cpu - since < IDLE_CPU_SECONDS);
        let (since, started) = *rest.get_or_insert((Instant::now(), cpu));
        Ok((is_stored && since.elapsed() >= IDLE_TIME).then_some(started))
    })
}

/// What a node and its clients need for TLS and tokens.
#[derive(Clone, Copy, Debug)]
struct NodeGuard<'a> {
    certificates: &'a Path,
    token: &'a str,
}

const AUTH_FILE: &str = "auth.toml";

/// A token that may write and read, in a new auth file.
fn new_token(context: &BenchContext) -> anyhow::Result<String> {
    let mut made = Command::new(&context.bucksaw);
    made.args(["token", "add", "bench", "--scope", "ingest,read,admin", "--auth-file"]).arg(context.path(AUTH_FILE));
    let made = made.output()?;
    ensure!(made.status.success(), "`bucksaw token` failed: {}", String::from_utf8_lossy(&made.stderr));
    Ok(String::from_utf8(made.stdout)?.trim().to_owned())
}

/// Sends requests of HTTP/1.1, in plain, or over TLS with a token.
struct LoadClient {
    runtime: Runtime,
    tls: Option<ClientTls>,
    token: Option<String>,
}

impl LoadClient {
    fn new(guard: Option<NodeGuard<'_>>) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let load = |guard: NodeGuard<'_>| {
            let files = ClientFiles { ca: Some(guard.certificates.join("ca.pem")), ..ClientFiles::default() };
            ClientTls::load(Env::real().fs, files, &[b"http/1.1"])
        };
        let token = guard.map(|guard| guard.token.to_owned());
        Ok(Self { runtime, tls: guard.map(load).transpose()?, token })
    }

    /// The JSON of an answer, on a connection of its own.
    fn get(&self, address: &str, target: &str) -> anyhow::Result<Value> {
        self.runtime.block_on(async {
            let mut sender = self.connect(address).await?;
            let body = self.request(&mut sender, Request::get(target), address, Bytes::new()).await?;
            Ok(serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// Reads an answer piece by piece; returns its bytes.
    fn read(&self, address: &str, target: &str) -> anyhow::Result<u64> {
        self.runtime.block_on(async {
            let mut sender = self.connect(address).await?;
            let mut answer = self.send(&mut sender, Request::get(target), address, Bytes::new()).await?;
            let mut bytes = 0;
            while let Some(frame) = answer.frame().await {
                bytes += frame?.data_ref().map_or(0, |piece| piece.len() as u64);
            }
            Ok(bytes)
        })
    }

    /// Sends a request several times on one connection.
    fn repeat(&self, address: &str, target: &str, times: u32) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut sender = self.connect(address).await?;
            for _ in 0..times {
                self.request(&mut sender, Request::get(target), address, Bytes::new()).await?;
            }
            Ok(())
        })
    }

    /// Sends all lines in bodies.
    fn post(&self, address: &str, corpus: &Corpus, body: Size) -> anyhow::Result<()> {
        let (text, batches) = (Bytes::from(std::fs::read(&corpus.path)?), corpus.batches(body.0)?);
        let bodies: Vec<Bytes> =
            batches.into_iter().map(|(start, end)| text.slice(start as usize..end as usize)).collect();
        self.runtime.block_on(async {
            let one = async |first: usize| {
                let mut sender = self.connect(address).await?;
                for body in bodies.iter().skip(first).step_by(CONNECTIONS) {
                    let head = Request::post("/api/v1/ingest").header("content-type", "text/plain");
                    self.request(&mut sender, head, address, body.clone()).await?;
                }
                anyhow::Ok(())
            };
            tokio::try_join!(one(0), one(1), one(2), one(3)).map(drop)
        })
    }

    async fn connect(&self, address: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let socket = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        match &self.tls {
            None => begin(socket).await,
            Some(tls) => begin(tls.connect("127.0.0.1", socket).await?).await,
        }
    }

    async fn request(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        head: hyper::http::request::Builder,
        address: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        Ok(self.send(sender, head, address, body).await?.collect().await?.to_bytes())
    }

    /// The body of an answer.
    async fn send(
        &self,
        sender: &mut SendRequest<Full<Bytes>>,
        head: hyper::http::request::Builder,
        address: &str,
        body: Bytes,
    ) -> anyhow::Result<hyper::body::Incoming> {
        let head = match &self.token {
            Some(token) => head.header("authorization", format!("Bearer {token}")),
            None => head,
        };
        let answer = sender.send_request(head.header("host", address).body(Full::new(body))?).await?;
        let status = answer.status();
        ensure!(status.is_success(), "the answer is {status}");
        Ok(answer.into_body())
    }
}

async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its error is that of the request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
