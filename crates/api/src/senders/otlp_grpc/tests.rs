//! Calls over real connections.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets wait in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bucksaw_env::sim;
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_steering::{IngestPeer, ListenerKind, NodeLoad, RedirectPolicy};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::EXPORT;
use crate::fixtures::{NOW_MS, app_with};
use crate::server::{router, serve_otlp_grpc, serve_otlp_http};
use crate::{App, Config};

/// A limit of waits; none depends on it.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A node that serves gRPC.
struct GrpcNode {
    app: App,
    fs: sim::Fs,
    clock: Arc<sim::Clock>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
}

impl GrpcNode {
    async fn start(seed: u64, config: Config) -> Self {
        let (fs, clock) = (sim::Fs::new(), Arc::new(sim::Clock::at_unix_ms(NOW_MS + seed)));
        let app = app_with(&fs, seed, Arc::clone(&clock), config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, (stop, stopping)) = (listener.local_addr().unwrap(), watch::channel(false));
        let served = tokio::spawn(serve_otlp_grpc(listener, app.clone(), stopping));
        Self { app, fs, clock, address, stop, served }
    }

    async fn connect(&self) -> GrpcClient {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        GrpcClient(sender)
    }

    /// The body of `GET path` on the HTTP port.
    async fn get(&self, path: &str) -> String {
        use hyper::service::Service as _;
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let call = hyper_util::service::TowerToHyperService::new(router(self.app.clone())).call(request);
        String::from_utf8(call.await.unwrap().into_body().collect().await.unwrap().to_bytes().into()).unwrap()
    }

    /// The stored records, as objects.
    async fn stored(&self) -> Vec<serde_json::Value> {
        let text = self.get("/api/v1/query?from=0").await;
        let objects = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        objects.filter(|object| object.get("line").is_some()).collect()
    }

    async fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    async fn wait_for(&self, name: &str, want: impl Fn(u64) -> bool) {
        let waited = async {
            while !want(self.metric(name).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.unwrap_or_else(|_| panic!("waited for {name}"));
    }
}

const BODY_BYTES: &str = "api_body_bytes";

#[derive(Clone)]
struct GrpcClient(SendRequest<Body>);

/// The answer of a call: its status, its message, the message of the status, and the headers or trailers with them.
#[derive(Debug)]
struct GrpcAnswer {
    http: StatusCode,
    code: Option<i32>,
    message: Vec<u8>,
    error: String,
    headers: HeaderMap,
}

impl GrpcClient {
    async fn call(&self, path: &str, headers: &[(&str, &str)], body: Body) -> GrpcAnswer {
        let mut request = Request::builder().method("POST").uri(format!("http://node{path}"));
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/grpc");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.0.clone();
        let call = async {
            sender.ready().await.unwrap();
            let response = sender.send_request(request.body(body).unwrap()).await.unwrap();
            let (head, body) = response.into_parts();
            let collected = body.collect().await.unwrap();
            let mut headers = head.headers;
            headers.extend(collected.trailers().cloned().unwrap_or_default());
            let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let error = text("grpc-message").unwrap_or_default();
            let error = percent_encoding::percent_decode_str(&error).decode_utf8().unwrap().into_owned();
            let code = text("grpc-status").map(|code| code.parse().unwrap());
            GrpcAnswer { http: head.status, code, message: collected.to_bytes().into(), error, headers }
        };
        tokio::time::timeout(WAIT_MAX, call).await.expect("the call hangs")
    }

    /// Exports a message that is sent whole.
    async fn export(&self, headers: &[(&str, &str)], body: Vec<u8>) -> GrpcAnswer {
        self.call(EXPORT, headers, Body::from(body)).await
    }
}

impl GrpcAnswer {
    fn check(&self, code: i32, error: &str) {
        assert_eq!((self.http, self.code), (StatusCode::OK, Some(code)), "{self:?}");
        assert!(self.error.contains(error), "{self:?}");
    }

    /// The decoded message of a success.
    fn exported(&self) -> ExportLogsServiceResponse {
        self.check(0, "");
        let length = u32::from_be_bytes(self.message[1..5].try_into().unwrap());
        assert_eq!((self.message[0], length as usize), (0, self.message.len() - 5));
        ExportLogsServiceResponse::decode(&self.message[5..]).unwrap()
    }
}

fn text(value: &str) -> Option<AnyValue> {
    Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) })
}

/// A request with these records: their lines, and the name of an attribute that each has.
fn logs(records: &[(&str, &str)]) -> Vec<u8> {
    let record = |(line, name): &(&str, &str)| LogRecord {
        body: text(line),
        attributes: vec![KeyValue { key: (*name).to_owned(), value: text("v"), ..KeyValue::default() }],
        ..LogRecord::default()
    };
    let scope_logs = ScopeLogs { log_records: records.iter().map(record).collect(), ..ScopeLogs::default() };
    let resource_logs = ResourceLogs { scope_logs: vec![scope_logs], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![resource_logs] }.encode_to_vec()
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// A body whose parts are sent one by one; it ends when the sender is dropped.
fn slow_body() -> (mpsc::UnboundedSender<Vec<u8>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let parts = futures_util::stream::unfold(receiver, |mut receiver| async {
        let part = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Bytes::from(part)), receiver))
    });
    (sender, Body::from_stream(parts))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_stores_its_records_with_the_labels_of_its_metadata() {
    let node = GrpcNode::start(1, Config::default()).await;
    let client = node.connect().await;
    let metadata =
        [("bucksaw-label", "env=prod"), ("bucksaw-label", "team=a=b"), ("content-type", "application/grpc+proto")];
    let answer = client.export(&metadata, framed(0, &logs(&[("one", "k")]))).await;
    assert_eq!(answer.exported(), ExportLogsServiceResponse::default());
    let stored = node.stored().await;
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0]["line"], "one");
    assert_eq!(stored[0]["labels"], serde_json::json!({"env": "prod", "team": "a=b"}));
    assert_eq!(stored[0]["attributes"], serde_json::json!({"k": "v"}));
    client.export(&[("bucksaw-label", "x")], framed(0, b"")).await.check(3, "bucksaw-label: `x` is not k=v");
    client.export(&[("bucksaw-durability", "x")], framed(0, b"")).await.check(3, "bucksaw-durability");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_call_is_answered_after_the_sync_and_a_repeated_key_stores_once() {
    let node = GrpcNode::start(2, Config::default()).await;
    let client = node.connect().await;
    let metadata = [("bucksaw-durability", "durable"), ("idempotency-key", "k")];
    node.fs.fail_next_syncs(u64::MAX);
    let committing = async {
        loop {
            node.app.queue().commit_group();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let calls = async {
        client.export(&metadata, framed(0, &logs(&[("one", "k")]))).await.check(14, "");
    };
    tokio::select! { () = calls => {}, () = committing => {} }
    let node = GrpcNode::start(3, Config::default()).await;
    let client = node.connect().await;
    for _ in 0..2 {
        client.export(&[metadata[1]], framed(0, &logs(&[("one", "k")]))).await.exported();
    }
    client.export(&[metadata[1]], framed(0, &logs(&[("two", "k")]))).await.check(3, "");
    assert_eq!(node.stored().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_compression_is_understood() {
    use std::io::Write as _;
    let node = GrpcNode::start(4, Config::default()).await;
    let client = node.connect().await;
    let plain = |line| logs(&[(line, "k")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain("gzip")).unwrap();
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(&plain("deflate")).unwrap();
    let zstd = zstd::encode_all(&*plain("zstd"), 1).unwrap();
    for (name, message) in
        [("gzip", gzip.finish().unwrap()), ("deflate", deflate.finish().unwrap()), ("zstd", zstd.clone())]
    {
        client.export(&[("grpc-encoding", name)], framed(1, &message)).await.exported();
    }
    // A client may send a message as it is although it names a compression.
    client.export(&[("grpc-encoding", "gzip")], framed(0, &plain("plain"))).await.exported();
    let mut lines: Vec<_> =
        node.stored().await.iter().map(|record| record["line"].as_str().unwrap().to_owned()).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["deflate", "gzip", "plain", "zstd"]);
    let unknown = client.export(&[("grpc-encoding", "br")], framed(1, b"x")).await;
    unknown.check(12, "gzip, deflate, zstd and snappy");
    assert_eq!(unknown.headers["grpc-accept-encoding"], "identity,gzip,deflate,zstd,snappy");
    client.export(&[], framed(1, &zstd)).await.check(3, "grpc-encoding is missing");
    client.export(&[("grpc-encoding", "identity")], framed(1, &zstd)).await.check(3, "grpc-encoding is missing");
    client.export(&[("grpc-encoding", "gzip")], framed(1, &zstd)).await.check(3, "");
    assert_eq!(node.stored().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_records_are_a_partial_success() {
    let node = GrpcNode::start(5, Config::default()).await;
    let long = "n".repeat(256);
    let records = logs(&[("one", "k"), ("two", &long), ("three", &long)]);
    let answer = node.connect().await.export(&[], framed(0, &records)).await.exported();
    let partial = answer.partial_success.unwrap();
    assert_eq!(partial.rejected_log_records, 2);
    assert!(partial.error_message.contains("longer than 255 bytes"), "{partial:?}");
    assert_eq!(node.stored().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_nothing_states_when_to_try_again() {
    let node = GrpcNode::start(6, Config::default()).await;
    let client = node.connect().await;
    let retry_info = |answer: &GrpcAnswer| {
        let details = STANDARD_NO_PAD.decode(&answer.headers["grpc-status-details-bin"]).unwrap();
        let text = String::from_utf8_lossy(&details).into_owned();
        assert!(text.contains("type.googleapis.com/google.rpc.RetryInfo"), "{text}");
        // The delay: `retry_delay` with `seconds`.
        let [.., 0x12, 0x04, 0x0a, 0x02, 0x08, seconds] = details[..] else { panic!("{details:?}") };
        (i32::from(details[1]), seconds)
    };
    let load = NodeLoad { level: 3, bytes_per_second: 100, connections: 1 };
    let other = IngestPeer {
        node: Id::new(Millis(1), Producer::new(1), 0),
        load: NodeLoad { level: 0, bytes_per_second: 0, connections: 0 },
        addresses: vec![(ListenerKind::Http, "other:1".to_owned())],
    };
    let policy = RedirectPolicy { load, may_refuse: true, mean_bytes_per_second: 0, peers: vec![other] };
    node.app.shedder.set_policy(policy);
    let overloaded = client.export(&[], framed(0, &logs(&[("one", "k")]))).await;
    overloaded.check(8, "overloaded");
    assert_eq!(retry_info(&overloaded), (8, 1));
    node.app.shedder.set_policy(RedirectPolicy::default());
    node.fs.set_capacity(Some(0));
    // The first append finds that the disk is full.
    client.export(&[], framed(0, &logs(&[("one", "k")]))).await;
    let full = client.export(&[], framed(0, &logs(&[("one", "k")]))).await;
    full.check(14, "disk");
    assert_eq!(retry_info(&full), (14, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_calls_are_not_implemented_and_other_requests_get_an_error_of_http() {
    let node = GrpcNode::start(7, Config::default()).await;
    let client = node.connect().await;
    let traces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    client.call(traces, &[], Body::from(framed(0, b""))).await.check(12, "Bucksaw stores logs only");
    client.call("/grpc.health.v1.Health/Check", &[], Body::from(framed(0, b""))).await.check(12, EXPORT);
    for other in ["application/json", "application/grpc-web", "application/grpc+json"] {
        let answer = client.call(EXPORT, &[("content-type", other)], Body::from(framed(0, b""))).await;
        assert_eq!((answer.http, answer.code), (StatusCode::UNSUPPORTED_MEDIA_TYPE, None));
        assert!(String::from_utf8(answer.message).unwrap().contains("send Content-Type application/grpc"));
    }
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(b"POST /v1/logs HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(WAIT_MAX, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("gRPC, which needs HTTP/2"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_messages_are_refused_as_a_whole() {
    let node = GrpcNode::start(8, Config::default()).await;
    let client = node.connect().await;
    let good = framed(0, &logs(&[("one", "k")]));
    let check = async |body: Vec<u8>, want: &str| client.export(&[], body).await.check(3, want);
    check(vec![], "no message").await;
    check(vec![0, 0], "within the prefix").await;
    check(vec![2, 0, 0, 0, 0], "first byte is 2").await;
    check(framed(0, b"\x01"), "").await;
    check(good[..good.len() - 1].to_vec(), "1 of").await;
    check([good.clone(), good.clone()].concat(), "more than").await;
    check([good, vec![0]].concat(), "more than").await;
    assert_eq!((node.stored().await.len(), node.metric(BODY_BYTES).await), (0, 0));
    client.export(&[], framed(0, b"")).await.exported();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_beyond_the_maximum_is_refused_before_the_message_arrives() {
    // With little memory the maximum is less than 16 MiB.
    let config = Config { bodies_bytes_max: 0, record_bytes_max: 64 << 10, ..Config::default() };
    let node = GrpcNode::start(9, config).await;
    let client = node.connect().await;
    let max = node.app.bodies.event_text_bytes_max(bucksaw_sources::http::Encoding::Identity);
    for length in [u32::MAX, max as u32 + 1] {
        let (parts, body) = slow_body();
        parts.send([&[0], &length.to_be_bytes()[..]].concat()).unwrap();
        client.call(EXPORT, &[], body).await.check(3, "send it in several");
        drop(parts);
    }
    // The longest line is cut into records.
    let line = "x".repeat(max - 100);
    client.export(&[], framed(0, &logs(&[(&line, "k")]))).await.exported();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_grows_beyond_the_maximum_is_refused() {
    let node = GrpcNode::start(10, Config::default()).await;
    let client = node.connect().await;
    let bomb = zstd::encode_all(&*vec![b'x'; 200 << 20], 1).unwrap();
    assert!(bomb.len() < 100_000);
    client.export(&[("grpc-encoding", "zstd")], framed(1, &bomb)).await.check(3, "send it in several");
    assert_eq!(node.metric(BODY_BYTES).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_sender_holds_only_what_it_sent_and_frees_it() {
    let node = GrpcNode::start(11, Config::default()).await;
    let (client, message) = (node.connect().await, logs(&[(&"x".repeat(8 << 20), "k")]));
    let (parts, body) = slow_body();
    // The length of the message reserves nothing.
    parts.send(framed(0, &message)[..6].to_vec()).unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(EXPORT, &[], body).await }
    });
    parts.send(message[1..100_000].to_vec()).unwrap();
    node.wait_for(BODY_BYTES, |bytes| bytes > 0).await;
    assert!(node.metric(BODY_BYTES).await < 1 << 20);
    // It is disconnected after a while.
    let limit = node.app.config.body_idle_timeout;
    while !call.is_finished() {
        node.clock.advance(limit);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.await.unwrap().check(4, "timed out");
    assert_eq!(node.metric(BODY_BYTES).await, 0);
    // So is the memory of one that leaves.
    let (parts, body) = slow_body();
    parts.send(framed(0, &message)[..100_000].to_vec()).unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call(EXPORT, &[], body).await }
    });
    node.wait_for(BODY_BYTES, |bytes| bytes > 0).await;
    call.abort();
    node.wait_for(BODY_BYTES, |bytes| bytes == 0).await;
    assert_eq!(node.stored().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_connection_run_at_the_same_time() {
    let node = GrpcNode::start(12, Config::default()).await;
    let client = node.connect().await;
    // Then it knows how many calls may run at the same time; further ones would be refused.
    client.export(&[], framed(0, b"")).await.exported();
    let (slow, body) = slow_body();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.call(EXPORT, &[], body).await }
    });
    let calls = (0..40).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let line = format!("line {number} {}", "x".repeat(50_000));
            client.export(&[], framed(0, &logs(&[(&line, "k")]))).await.exported();
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    slow.send(framed(0, &logs(&[("last", "k")]))).unwrap();
    drop(slow);
    first.await.unwrap().exported();
    assert_eq!(node.stored().await.len(), 41);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_running_calls() {
    let node = GrpcNode::start(13, Config::default()).await;
    let client = node.connect().await;
    let (slow, body) = slow_body();
    let message = framed(0, &logs(&[(&"x".repeat(100_000), "k")]));
    slow.send(message[..90_000].to_vec()).unwrap();
    let call = tokio::spawn(async move { client.call(EXPORT, &[], body).await });
    node.wait_for(BODY_BYTES, |bytes| bytes > 0).await;
    node.stop.send(true).unwrap();
    // A stopped listener refuses connections.
    while TcpStream::connect(node.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    slow.send(message[90_000..].to_vec()).unwrap();
    drop(slow);
    call.await.unwrap().exported();
    assert_eq!(node.stored().await.len(), 1);
    tokio::time::timeout(WAIT_MAX, node.served).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_share_the_slots_of_http_and_silent_ones_end() {
    let config = Config { connections_max: 2, address_connections_max: 2, ..Config::default() };
    let config = Config { header_timeout: Duration::from_millis(300), ..config };
    let node = GrpcNode::start(14, config).await;
    let _slot = node.app.admission.admit_ordinary(node.address).unwrap();
    let client = node.connect().await;
    client.export(&[], framed(0, &logs(&[("one", "k")]))).await.exported();
    let read_to_end = async || {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        // The bytes, if any, are a preface of HTTP/2.
        let mut bytes = Vec::new();
        let _ = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut bytes)).await.expect("stays open");
    };
    read_to_end().await;
    assert_eq!(node.metric("api_connections_refused_total{reason=\"all\"}").await, 1);
    drop(_slot);
    // It has a slot and sends nothing; the one that made a call stays.
    read_to_end().await;
    assert_eq!(node.metric("api_connections_refused_total{reason=\"all\"}").await, 1);
    client.export(&[], framed(0, &logs(&[("two", "k")]))).await.exported();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_for_http_takes_logs_and_health_checks_only() {
    let node = GrpcNode::start(15, Config::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_otlp_http(listener, node.app.clone(), node.stop.subscribe()));
    let check = async |method: &str, path: &str, want: &str| {
        let body = "{\"resourceLogs\":[]}";
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(WAIT_MAX, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {want}")), "{method} {path}: {answer}");
    };
    check("POST", "/v1/logs", "200 ").await;
    check("POST", "/otlp/v1/logs", "200 ").await;
    check("GET", "/-/healthy", "200 ").await;
    check("GET", "/-/ready", "200 ").await;
    for other in ["/", "/metrics", "/v1/traces", "/api/v1/ingest", "/loki/api/v1/push"] {
        check("POST", other, "404 ").await;
    }
}
