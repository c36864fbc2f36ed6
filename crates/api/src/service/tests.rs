//! Calls over real connections: replies, refusals, hostile clients.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets wait in real time")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use bucksaw_env::sim;
use bucksaw_fixtures::service_messages::{
    ServiceAttribute, ServiceBatch, ServiceBatchReply, ServiceCountReply, ServiceQueryReply, ServiceRecord,
    ServiceSearch,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::PATH;
use crate::fixtures::{NOW_MS, app_with};
use crate::server::serve_grpc;
use crate::{App, Config};

/// A limit of waits; none depends on it.
const WAIT_MAX: Duration = Duration::from_secs(20);

struct ServiceNode {
    app: App,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    served: JoinHandle<()>,
}

impl ServiceNode {
    async fn start(config: Config) -> Self {
        let clock = Arc::new(sim::Clock::at_unix_ms(NOW_MS));
        let app = app_with(&sim::Fs::new(), 0, clock, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, (stop, stopping)) = (listener.local_addr().unwrap(), watch::channel(false));
        let served = tokio::spawn(serve_grpc(listener, app.clone(), stopping));
        Self { app, address, stop, served }
    }

    async fn client(&self) -> ServiceClient {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        ServiceClient(sender)
    }

    async fn count(&self, client: &ServiceClient, expression: &str) -> u64 {
        let answer = client.call("Count", &[], framed(&search(expression))).await;
        assert_eq!(answer.code, 0, "{answer:?}");
        let reply = ServiceCountReply::decode(answer.messages[0].as_slice()).unwrap();
        assert!(!reply.statistics.unwrap().partial);
        reply.count
    }
}

struct ServiceClient(SendRequest<Body>);

/// The answer of a call.
#[derive(Debug)]
struct ServiceAnswer {
    code: i32,
    error: String,
    messages: Vec<Vec<u8>>,
}

impl ServiceClient {
    async fn begin(&self, method: &str, headers: &[(&str, &str)], body: Body) -> hyper::Response<Incoming> {
        let uri = format!("http://node{PATH}{method}");
        let mut request = Request::builder().method("POST").uri(uri).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.0.clone();
        sender.ready().await.unwrap();
        sender.send_request(request.body(body).unwrap()).await.unwrap()
    }

    async fn call(&self, method: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> ServiceAnswer {
        let call = async { answer(self.begin(method, headers, body.into()).await).await };
        tokio::time::timeout(WAIT_MAX, call).await.expect("the call hangs")
    }
}

/// Reads an answer to its end.
async fn answer(response: hyper::Response<Incoming>) -> ServiceAnswer {
    let (head, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    let mut headers: HeaderMap = head.headers;
    headers.extend(collected.trailers().cloned().unwrap_or_default());
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let bytes = collected.to_bytes();
    let (mut messages, mut rest) = (Vec::new(), &bytes[..]);
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
        messages.push(rest[5..5 + length].to_vec());
        rest = &rest[5 + length..];
    }
    let code = text("grpc-status").map_or(-1, |code| code.parse().unwrap());
    ServiceAnswer { code, error: text("grpc-message").unwrap_or_default(), messages }
}

fn frame(message: &[u8], flag: u8) -> Vec<u8> {
    [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

fn framed(message: &impl Message) -> Vec<u8> {
    frame(&message.encode_to_vec(), 0)
}

fn search(expression: &str) -> ServiceSearch {
    ServiceSearch { expression: expression.into(), from: "2000-01-01".to_owned(), ..ServiceSearch::default() }
}

fn batch(sequence: u64, key: &str, lines: &[&str]) -> ServiceBatch {
    let record = |line: &&str| ServiceRecord { line: line.as_bytes().to_vec(), ..ServiceRecord::default() };
    let labels = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
    let records = lines.iter().map(record).collect();
    ServiceBatch { sequence, idempotency_key: key.to_owned(), labels, records, ..ServiceBatch::default() }
}

fn replies(answer: &ServiceAnswer) -> Vec<ServiceBatchReply> {
    answer.messages.iter().map(|message| ServiceBatchReply::decode(message.as_slice()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_stored_with_all_that_they_state() {
    let node = ServiceNode::start(Config::default()).await;
    let client = node.client().await;
    let mut first = batch(7, "k1", &["one", "two\n"]);
    let attribute = ServiceAttribute { name: "trace_id".to_owned(), value: b"\xff1".to_vec() };
    first.records[0].time_unix_nano = (NOW_MS - 5_000) * 1_000_000 + 123_456;
    first.records[0].attributes = vec![attribute.clone()];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&batch(8, "", &["three"]).encode_to_vec()).unwrap();
    // The third one is the first again.
    let body = [framed(&first), frame(&gzip.finish().unwrap(), 1), framed(&first)].concat();
    let answer = client.call("Ingest", &[("grpc-encoding", "gzip")], body).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    let got: Vec<_> = replies(&answer).iter().map(|reply| (reply.sequence, reply.accepted, reply.code)).collect();
    assert_eq!(got, [(7, 2, 0), (8, 1, 0), (7, 2, 0)]);
    assert_eq!(node.count(&client, "app=shop").await, 3);
    let answer = client.call("Query", &[("grpc-timeout", "19S")], framed(&search("app=shop one"))).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    let replies: Vec<_> =
        answer.messages.iter().map(|reply| ServiceQueryReply::decode(reply.as_slice()).unwrap()).collect();
    let record = &replies[0].records[0];
    assert_eq!((record.line.as_slice(), &record.attributes), (&b"one"[..], &vec![attribute]));
    assert_eq!(record.time_unix_nano, first.records[0].time_unix_nano);
    assert_eq!(record.labels, first.labels);
    let statistics = replies.last().unwrap().statistics.as_ref().unwrap();
    assert!(statistics.matched == 1 && !statistics.partial && statistics.json.contains("bytes_scanned"));
    let answer = client.call("Query", &[], framed(&ServiceSearch { limit: 2, order: 1, ..search("") })).await;
    let replies: Vec<_> =
        answer.messages.iter().map(|reply| ServiceQueryReply::decode(reply.as_slice()).unwrap()).collect();
    let records: Vec<_> = replies.iter().flat_map(|reply| &reply.records).collect();
    assert!(records.len() == 2 && records[0].id > records[1].id, "{records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_does_not_end_the_call() {
    let node = ServiceNode::start(Config::default()).await;
    let client = node.client().await;
    let mut wrong = batch(2, "", &["x"]);
    wrong.labels.insert("a b".to_owned(), "c".to_owned());
    let mut partial = batch(4, "", &["fine", "many"]);
    let attributes = (0..300).map(|at| ServiceAttribute { name: format!("a{at}"), value: b"1".to_vec() });
    partial.records[1].attributes = attributes.collect();
    let body = [
        framed(&wrong),
        framed(&ServiceBatch { durability: 9, ..batch(3, "", &["x"]) }),
        framed(&partial),
        frame(b"\x08\x05\xff\xff", 0),
        framed(&batch(6, "key", &["last"])),
        framed(&batch(7, "key", &["another"])),
    ]
    .concat();
    let answer = client.call("Ingest", &[], body).await;
    assert_eq!(answer.code, 0, "{answer:?}");
    let replies = replies(&answer);
    let got: Vec<_> =
        replies.iter().map(|reply| (reply.sequence, reply.accepted, reply.rejected, reply.code)).collect();
    assert_eq!(got, [(2, 0, 0, 3), (3, 0, 0, 3), (4, 1, 1, 0), (5, 0, 0, 3), (6, 1, 0, 0), (7, 0, 0, 3)]);
    assert!(replies[2].first_error.contains("attributes"), "{replies:?}");
    assert!(replies.iter().all(|reply| !reply.retry), "{replies:?}");
    assert_eq!(node.count(&client, "").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_calls_are_refused() {
    let node = ServiceNode::start(Config::default()).await;
    let client = node.client().await;
    let check = async |method: &str, headers: &[(&str, &str)], body: Vec<u8>, code: i32, error: &str| {
        let answer = client.call(method, headers, body).await;
        assert!(answer.code == code && answer.error.contains(error), "{method}: {answer:?}");
    };
    // Lengths that no message has.
    for method in ["Ingest", "Query", "Count", "Tail"] {
        check(method, &[], [&[0][..], &u32::MAX.to_be_bytes(), b"x"].concat(), 3, "bytes").await;
        check(method, &[], vec![2, 0, 0, 0, 0], 3, "first byte").await;
        check(method, &[], vec![0, 0], 3, "ended").await;
        check(method, &[("grpc-timeout", "x")], vec![], 3, "grpc-timeout").await;
    }
    check("Ingest", &[], framed(&batch(1, "", &["cut off"]))[..9].to_vec(), 3, "ended early").await;
    check("Ingest", &[], frame(b"x", 1), 3, "grpc-encoding").await;
    check("Ingest", &[("grpc-encoding", "br")], vec![], 12, "compression").await;
    check("Nothing", &[], vec![], 12, "no such method").await;
    check("Query", &[], framed(&search("(")), 3, "q:").await;
    check("Query", &[], framed(&ServiceSearch { order: 5, ..search("") }), 3, "order").await;
    check("Query", &[("grpc-timeout", "1n")], framed(&search("")), 4, "grpc-timeout").await;
    // A small request that becomes a large one.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b'x'; 10 << 20]).unwrap();
    check("Count", &[("grpc-encoding", "gzip")], frame(&gzip.finish().unwrap(), 1), 3, "decompressed").await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![0; 300 << 20]).unwrap();
    let answer = client.call("Ingest", &[("grpc-encoding", "gzip")], frame(&gzip.finish().unwrap(), 1)).await;
    assert!(answer.code == 0 && replies(&answer)[0].code != 0, "{answer:?}");
    assert_eq!(node.count(&client, "").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_arrive_while_the_call_is_open_and_a_tail_shows_the_records() {
    let node = ServiceNode::start(Config::default()).await;
    let client = node.client().await;
    let tail = client.begin("Tail", &[], framed(&search("seen")).into()).await;
    let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(1);
    let stream = futures_util::stream::poll_fn(move |context| {
        chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok::<_, hyper::Error>(Frame::data(Bytes::from(chunk)))))
    });
    let mut replies = client.begin("Ingest", &[], Body::new(StreamBody::new(stream))).await.into_body();
    let whole = async {
        for number in 1..4 {
            sender.send(framed(&batch(number, "", &["seen", "other"]))).await.unwrap();
            let reply = replies.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(ServiceBatchReply::decode(&reply[5..]).unwrap().sequence, number);
        }
        let (mut body, mut bytes) = (tail.into_body(), Vec::new());
        while bytes.windows(4).filter(|window| window == b"seen").count() < 3 {
            bytes.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert!(!bytes.windows(5).any(|window| window == b"other"));
        // Both calls end with the node, and say so.
        node.stop.send_replace(true);
        for body in [body, replies] {
            let trailers = body.collect().await.unwrap().trailers().cloned().unwrap();
            assert_eq!(trailers["grpc-status"], "14");
        }
        node.served.await.unwrap();
    };
    tokio::time::timeout(WAIT_MAX, whole).await.expect("the call hangs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_no_answer_holds_little_and_frees_it_when_it_leaves() {
    let node = ServiceNode::start(Config { answers_max: 1, ..Config::default() }).await;
    let client = node.client().await;
    let line = "x".repeat(10_000);
    for _ in 0..20 {
        let answer = client.call("Ingest", &[], framed(&batch(1, "", &[line.as_str(); 50]))).await;
        assert_eq!(replies(&answer)[0].accepted, 50);
    }
    let stalled = client.begin("Query", &[], framed(&search("")).into()).await;
    let refused = client.call("Query", &[], framed(&search(""))).await;
    assert!(refused.code == 8 && refused.error.contains("answers"), "{refused:?}");
    drop(stalled);
    let freed = async {
        while node.app.answer_permits.available_permits() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, freed).await.expect("the permit is not returned");
    let answer = client.call("Query", &[], framed(&search(""))).await;
    let records: usize =
        answer.messages.iter().map(|reply| ServiceQueryReply::decode(reply.as_slice()).unwrap().records.len()).sum();
    assert_eq!((answer.code, records), (0, 1_000));
}
