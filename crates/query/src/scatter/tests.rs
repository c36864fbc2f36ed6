//! Clusters of engines on simulated disks, with faults between them.
#![allow(clippy::disallowed_methods, reason = "waits by tokio's paused clock, in no real time")]

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Body, BoxFuture, Clock as _, Tasks, sim};
use bucksaw_record::expr::INPUT_BYTES_MAX;
use bucksaw_record::{Expr, Id, Labels, Millis, Producer, RecordView};
use bucksaw_scan::Plan;
use proptest::prelude::*;
use tokio::sync::watch;

use super::message::MessageKind;
use super::request::ScatterRequest;
use super::*;
use crate::answers::Answers;
use crate::count::{Bucketing, Histogram};
use crate::engine::Config;
use crate::group_sample::GroupBy;
use crate::grouping::Grouping;
use crate::match_buffer::OwnedRecord;
use crate::pool::ScanPool;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::stats::QueryStats;
use crate::tail_event::TailEvent;
use crate::tests::{TestEngine, counted, groupings, naive_groups};
use bucksaw_rpc::stream_message;

mod golden;
mod tenants;

/// Tasks under tokio's paused clock, in one thread.
#[derive(Debug)]
struct Paused;

impl Tasks for Paused {
    fn spawn(&self, task: BoxFuture<()>) {
        tokio::spawn(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

/// The fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerFault {
    Down,
    Refuses,
    Unreachable,
    OtherVersion,
    /// Never starts a reply.
    Hangs,
    /// Sends nothing after this many bytes.
    Stalls(usize),
    /// Disconnects after this many bytes.
    Dies(usize),
    /// Ends its reply properly after this many bytes.
    EndsEarly(usize),
    /// Flips a bit of this byte.
    FlipsBit(usize),
    /// Sends a batch without a head.
    SendsInvalidReply,
}

#[derive(Debug, Default)]
struct TestNetwork {
    servers: BTreeMap<Id, Arc<QueryServer>>,
    faults: BTreeMap<Id, PeerFault>,
    queue_from: BTreeMap<Id, Option<Millis>>,
    /// The second address of a node id, by the node that knows it and by the id.
    duplicate_addresses: BTreeMap<(Id, Id), String>,
    replication_factor: usize,
    /// Replies with a reader.
    open_replies: usize,
}

#[derive(Clone, Debug)]
struct TestPeers {
    own: Id,
    network: Arc<Mutex<TestNetwork>>,
    changes: watch::Sender<()>,
}

impl TestPeers {
    fn peer(&self, node: Id) -> QueryPeer {
        let network = self.network.lock().unwrap();
        let is_live = network.faults.get(&node) != Some(&PeerFault::Down);
        let queue_oldest = network.queue_from.get(&node).copied().unwrap_or(Some(Millis(0)));
        let duplicate_address = network.duplicate_addresses.get(&(self.own, node)).cloned();
        QueryPeer {
            node,
            address: format!("n{}", node.bits()),
            is_live,
            queue_oldest,
            is_store: true,
            duplicate_address,
        }
    }
}

impl QueryPeers for TestPeers {
    fn local_peer(&self) -> QueryPeer {
        self.peer(self.own)
    }

    fn remote_peers(&self) -> Vec<QueryPeer> {
        let nodes: Vec<Id> = self.network.lock().unwrap().servers.keys().copied().collect();
        nodes.into_iter().filter(|node| *node != self.own).map(|node| self.peer(node)).collect()
    }

    fn is_joining(&self) -> bool {
        false
    }

    fn replication_factor(&self) -> usize {
        self.network.lock().unwrap().replication_factor
    }

    fn changed(&self) -> BoxFuture<()> {
        let mut changes = self.changes.subscribe();
        Box::pin(async move { changes.changed().await.unwrap() })
    }

    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let network = Arc::clone(&self.network);
        let (server, fault) = {
            let network = network.lock().unwrap();
            (Arc::clone(&network.servers[&node]), network.faults.get(&node).copied())
        };
        let name = name.to_owned();
        Box::pin(async move {
            match fault {
                Some(PeerFault::Down | PeerFault::Unreachable) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(PeerFault::Refuses) => return Err(io::Error::other("no")),
                Some(PeerFault::OtherVersion) => return Err(io::ErrorKind::Unsupported.into()),
                Some(PeerFault::Hangs) => std::future::pending().await,
                Some(PeerFault::SendsInvalidReply) => {
                    return Ok(Body::whole(stream_message(MessageKind::Batch, b"what?")));
                }
                _ => {}
            }
            let inner = server.serve(&name, body).await?;
            let (writer, outer) = Body::channel();
            network.lock().unwrap().open_replies += 1;
            tokio::spawn(async move {
                forward_body(inner, writer, fault).await;
                network.lock().unwrap().open_replies -= 1;
            });
            Ok(outer)
        })
    }
}

/// Forwards a body with the fault of its sender.
async fn forward_body(mut inner: Body, writer: bucksaw_env::BodyWriter, fault: Option<PeerFault>) {
    let mut sent = 0;
    loop {
        let piece = tokio::select! {
            biased;
            () = writer.closed() => return,
            piece = inner.next() => piece,
        };
        let Some(piece) = piece else {
            let _ = writer.end().await;
            return;
        };
        let Ok(piece) = piece else { return };
        // The network splits messages anywhere.
        for part in piece.chunks(1_000) {
            let mut part = part.to_vec();
            match fault {
                Some(PeerFault::FlipsBit(at)) if (sent..sent + part.len()).contains(&at) => part[at - sent] ^= 4,
                Some(PeerFault::Dies(at) | PeerFault::EndsEarly(at) | PeerFault::Stalls(at))
                    if sent + part.len() > at =>
                {
                    part.truncate(at - sent);
                    let _ = writer.send(part).await;
                    match fault {
                        Some(PeerFault::EndsEarly(_)) => drop(writer.end().await),
                        Some(PeerFault::Stalls(_)) => writer.closed().await,
                        _ => drop(writer),
                    }
                    return;
                }
                _ => {}
            }
            sent += part.len();
            if writer.send(part).await.is_err() {
                return;
            }
        }
    }
}

#[derive(Debug, Default)]
struct RecordedHints(Mutex<Vec<(Id, Id)>>);

impl RepairHints for RecordedHints {
    fn on_under_replicated(&self, low: Id, high: Id) {
        self.0.lock().unwrap().push((low, high));
    }
}

struct EngineCluster {
    nodes: Vec<TestEngine>,
    scatters: Vec<Arc<Scatter>>,
    network: Arc<Mutex<TestNetwork>>,
    changes: watch::Sender<()>,
    hints: Arc<RecordedHints>,
}

fn node_id(number: usize) -> Id {
    Id::from_bits(number as u128 + 1)
}

fn node() -> TestEngine {
    node_of(Config::default())
}

fn node_of(config: Config) -> TestEngine {
    let config = Config { tail_lag_bytes_max: 2_000, ..config };
    TestEngine::with_pool(sim::Fs::new(), config, 1, ScanPool::inline())
}

impl EngineCluster {
    fn of(nodes: Vec<TestEngine>) -> Self {
        let network = Arc::new(Mutex::new(TestNetwork { replication_factor: 2, ..TestNetwork::default() }));
        let mut cluster = Self {
            nodes: Vec::new(),
            scatters: Vec::new(),
            network,
            changes: watch::Sender::new(()),
            hints: Arc::default(),
        };
        nodes.into_iter().for_each(|node| cluster.join(node));
        cluster
    }

    fn new(count: usize) -> Self {
        Self::of((0..count).map(|_| node()).collect())
    }

    fn join(&mut self, node: TestEngine) {
        let own = node_id(self.nodes.len());
        let (network, changes) = (Arc::clone(&self.network), self.changes.clone());
        let peers = Arc::new(TestPeers { own, network, changes });
        let server = QueryServer::new(Arc::clone(&node.engine), Arc::new(Paused), peers);
        self.network.lock().unwrap().servers.insert(own, Arc::clone(&server));
        let hints: Arc<dyn RepairHints> = Arc::clone(&self.hints) as _;
        self.scatters.push(Scatter::new(server, ReplyTimeouts::default(), Some(hints)));
        self.nodes.push(node);
        self.changes.send_replace(());
    }

    fn set_fault(&self, node: usize, fault: Option<PeerFault>) {
        let mut network = self.network.lock().unwrap();
        match fault {
            Some(fault) => drop(network.faults.insert(node_id(node), fault)),
            None => drop(network.faults.remove(&node_id(node))),
        }
        drop(network);
        self.changes.send_replace(());
    }

    /// Appends a record to some nodes.
    fn put(&mut self, nodes: &[usize], id: Id, labels: &str, line: &str) {
        for node in nodes {
            self.nodes[*node].put_as(id, labels, line.as_bytes());
        }
    }

    fn all(&self) -> BTreeMap<Id, (Labels, Vec<u8>)> {
        self.nodes.iter().flat_map(|node| node.accepted.clone()).collect()
    }

    fn open_replies(&self) -> usize {
        self.network.lock().unwrap().open_replies
    }
}

fn request(expr: &str) -> Request {
    Request::new(Expr::parse(expr.as_bytes()).unwrap(), Millis(0), Millis::MAX)
}

async fn search_all(scatter: &Arc<Scatter>, request: &Request) -> (Vec<OwnedRecord>, QueryStats) {
    let mut answer = scatter.search(request).unwrap();
    let mut records = Vec::new();
    loop {
        let some = answer.next().await;
        if some.is_empty() {
            let stats = answer.stats();
            assert_eq!(stats.matched, records.len() as u64);
            return (records, stats);
        }
        records.extend(some.iter().flat_map(BatchSlice::records).map(crate::RecordRef::to_owned_record));
    }
}

async fn lines(scatter: &Arc<Scatter>, request: &Request) -> Vec<String> {
    search_all(scatter, request).await.0.into_iter().map(|record| String::from_utf8(record.text).unwrap()).collect()
}

/// Answers of one node for the cluster.
fn answers(scatter: &Arc<Scatter>) -> Answers {
    Answers::new(Arc::clone(scatter.engine()), Arc::new(Paused)).with_scatter(Arc::clone(scatter))
}

/// The records around one.
async fn context_records(
    scatter: &Arc<Scatter>,
    id: Id,
    before: u64,
    after: u64,
) -> Result<(Vec<OwnedRecord>, QueryStats), RequestError> {
    let records = answers(scatter).context(id, before, after, None).await?;
    Ok(records.write_to(Vec::new()).await.unwrap())
}

async fn histogram(scatter: &Arc<Scatter>, request: &Request, bucketing: Bucketing) -> (Histogram, QueryStats) {
    scatter.histogram(request, bucketing, &mut |_, _| {}).await.unwrap()
}

const START: u64 = 1_700_000_000_000;

fn id(number: u64) -> Id {
    Id::new(Millis(START + number), Producer::new(number % 3), number as u32)
}

/// Three nodes with sixty records, each on two nodes, the first half of them stored.
fn three_nodes() -> EngineCluster {
    let mut cluster = EngineCluster::new(3);
    for number in 0..60 {
        let nodes = [number as usize % 3, (number as usize + 1) % 3];
        cluster.put(&nodes, id(number), "app=web", &format!("line {number:02} level=info {}", "x".repeat(50)));
        if number == 30 {
            cluster.nodes.iter().for_each(TestEngine::move_to_store);
        }
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_known_duplicate_node_id_makes_answers_partial() {
    let cluster = three_nodes();
    for (knowing, duplicate) in [(0, 1), (2, 1), (1, 1)] {
        cluster.network.lock().unwrap().duplicate_addresses =
            [((node_id(knowing), node_id(duplicate)), "elsewhere".to_owned())].into();
        for (asked, scatter) in cluster.scatters.iter().enumerate() {
            let (records, stats) = search_all(scatter, &request("")).await;
            let (count, counted) = answers(scatter).count(request("line"), ()).await.unwrap();
            assert_eq!((records.len(), count), (60, 60));
            for stats in [stats, counted] {
                let reasons = stats.partial_reasons();
                let is_reported = reasons.len() == 1 && reasons[0].contains("n2") && reasons[0].contains("elsewhere");
                assert!(stats.is_partial() && is_reported, "{knowing} knows it, {asked} is queried: {reasons:?}");
            }
        }
    }
    cluster.network.lock().unwrap().duplicate_addresses.clear();
    assert!(!search_all(&cluster.scatters[0], &request("")).await.1.is_partial());
}

#[tokio::test(start_paused = true)]
async fn each_node_gives_the_answer_of_all() {
    let cluster = three_nodes();
    for scatter in &cluster.scatters {
        let (records, stats) = search_all(scatter, &request("")).await;
        assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), (0..60).map(id).collect::<Vec<_>>());
        assert_eq!((stats.nodes.asked, stats.nodes.answered, stats.is_partial()), (3, 3, false));
        assert!(stats.segments_read > 3 && stats.bytes_scanned > 60 * 50);
        let newest = Request { order: Order::Descending, limit: Some(5), ..request("-line x") };
        assert!(lines(scatter, &newest).await.is_empty());
        let newest = Request { order: Order::Descending, limit: Some(5), ..request("line") };
        let (records, _) = search_all(scatter, &newest).await;
        assert_eq!(
            records.iter().map(|record| record.id).collect::<Vec<_>>(),
            (55..60).rev().map(id).collect::<Vec<_>>()
        );
        let (count, stats) = answers(scatter).count(request("line"), ()).await.unwrap();
        assert_eq!((count, stats.matched, stats.is_partial()), (60, 60, false));
        let (fields, _) = answers(scatter).fields(request(""), ()).await.unwrap();
        let level = fields.fields.iter().find(|field| field.name == "level").unwrap();
        assert_eq!((fields.records, fields.is_sampled, counted(level)), (60, false, vec![("info", 60)]));
        let (records, stats) = context_records(scatter, id(30), 3, 2).await.unwrap();
        assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), (27..33).map(id).collect::<Vec<_>>());
        assert_eq!((stats.matched, stats.nodes.answered), (6, 3));
        let context = context_records(scatter, id(99), 3, 2).await;
        assert!(matches!(context, Err(RequestError::RecordNotFound(_))));
    }
    tokio::task::yield_now().await;
    assert_eq!(cluster.open_replies(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_permit_and_are_refused_after_some_seconds() {
    let config = Config { served_max: 1, served_tails_max: 1, ..Config::default() };
    let mut cluster = EngineCluster::of((0..2).map(|_| node_of(config.clone())).collect());
    (0..400).for_each(|number| cluster.put(&[0, 1], id(number), "app=web", &"x".repeat(1_000)));
    let (scatter, request) = (Arc::clone(&cluster.scatters[0]), request("x"));
    // It holds its permits, since it has more records than the network buffers.
    let mut first = scatter.search(&request).unwrap();
    assert!(!first.next().await.is_empty());
    let (records, stats) = search_all(&scatter, &request).await;
    assert!(records.is_empty() && stats.is_partial(), "{stats:?}");
    assert!(
        stats.nodes.missing.iter().all(|node| format!("{:?}", node.reason).contains("too many concurrent requests")),
        "{stats:?}"
    );
    // A request that ends in time frees its permits.
    let waiting = tokio::spawn(async move { search_all(&scatter, &request).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(first);
    let (records, stats) = waiting.await.unwrap();
    assert_eq!((records.len(), stats.is_partial()), (400, false), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_poll_of_a_tail_is_sent_in_batches() {
    let mut cluster =
        EngineCluster::of(vec![TestEngine::with_pool(sim::Fs::new(), Config::default(), 1, ScanPool::inline())]);
    let mut tail = cluster.scatters[0].tail(&request("x")).unwrap();
    let (mut seen, mut batches) = (0, 0);
    assert!(tokio::time::timeout(Duration::from_secs(1), tail.next()).await.is_err());
    (0..500).for_each(|number| cluster.put(&[0], id(number), "app=web", &"x".repeat(1_000)));
    while seen < 500 {
        let TailEvent::Records(mut records) = tail.next().await else { panic!("no records") };
        seen += std::iter::from_fn(|| records.visit_next(|_| ())).count();
        batches += 1;
    }
    assert!((seen, batches > 5) == (500, true), "{seen} in {batches}");
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_node_is_reported_and_the_others_answer() {
    let cluster = three_nodes();
    let labels =
        |stats: &QueryStats| stats.nodes.missing.iter().map(|missing| missing.reason.label()).collect::<Vec<_>>();
    let check = async |fault, want: &str, all: bool| {
        cluster.set_fault(2, Some(fault));
        let started = tokio::time::Instant::now();
        let (records, stats) = search_all(&cluster.scatters[0], &request("")).await;
        assert_eq!(labels(&stats), [want], "{fault:?}");
        assert_eq!((stats.nodes.asked, stats.nodes.answered), (3, 2));
        assert!(stats.is_partial() && stats.partial_reasons()[0].starts_with("node n3 "));
        // The other two have a replica of each.
        assert_eq!(records.len(), 60, "{fault:?}");
        let (count, stats) = answers(&cluster.scatters[0]).count(request(""), ()).await.unwrap();
        assert_eq!((count, stats.nodes.missing.len(), stats.is_partial()), (60, 1, true), "{fault:?}");
        assert!(
            started.elapsed() <= Duration::from_secs(if all { 0 } else { 80 }),
            "{fault:?}: {:?}",
            started.elapsed()
        );
        cluster.set_fault(2, None);
    };
    check(PeerFault::Down, "down", true).await;
    check(PeerFault::Unreachable, "unreachable", true).await;
    check(PeerFault::Refuses, "refused", true).await;
    check(PeerFault::OtherVersion, "version_mismatch", true).await;
    check(PeerFault::Hangs, "start_timeout", false).await;
    check(PeerFault::Stalls(5), "start_timeout", false).await;
    check(PeerFault::SendsInvalidReply, "invalid_reply", true).await;
    for at in [0, 5, 200, 300] {
        check(PeerFault::Dies(at), "truncated", true).await;
        check(PeerFault::EndsEarly(at), "truncated", true).await;
        check(PeerFault::FlipsBit(at + 10), "invalid_reply", true).await;
    }
    check(PeerFault::Stalls(300), "idle_timeout", false).await;
    cluster.set_fault(2, Some(PeerFault::Down));
    let context = context_records(&cluster.scatters[0], id(99), 1, 1).await;
    assert!(matches!(context, Err(RequestError::RecordMaybeMissing(..))));
    cluster.set_fault(2, None);
    assert_eq!(search_all(&cluster.scatters[0], &request("")).await.1.nodes.answered, 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_node_is_complete_if_others_hold_its_records() {
    let cluster = three_nodes();
    cluster.network.lock().unwrap().queue_from.insert(node_id(2), Some(Millis(START + 40)));
    cluster.set_fault(2, Some(PeerFault::Down));
    let until = |to| Request { to: id(to), ..request("") };
    let (records, stats) = search_all(&cluster.scatters[0], &until(39)).await;
    assert_eq!((records.len(), stats.nodes.answered, stats.is_partial()), (39, 2, false));
    assert!(search_all(&cluster.scatters[0], &until(41)).await.1.is_partial(), "its queue may have more");
    cluster.network.lock().unwrap().replication_factor = 1;
    assert!(search_all(&cluster.scatters[0], &until(39)).await.1.is_partial(), "its store may have more");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_search_ends_the_work_on_all_nodes() {
    let mut nodes: Vec<TestEngine> = (0..3).map(|_| node()).collect();
    for number in 0..3_000_u64 {
        nodes[number as usize % 3].put_as(id(number), "app=web", "x".repeat(2_000).as_bytes());
    }
    let cluster = EngineCluster::of(nodes);
    let mut answer = cluster.scatters[0].search(&request("")).unwrap();
    assert!(!answer.next().await.is_empty());
    assert_eq!(cluster.open_replies(), 2);
    drop(answer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reserved = |cluster: &EngineCluster| {
        cluster.nodes.iter().map(|node| node.engine.result_budget.reserved_bytes()).sum::<u64>()
    };
    assert_eq!((cluster.open_replies(), reserved(&cluster)), (0, 0));
    // So does a limit.
    let mut answer = cluster.scatters[0].search(&Request { limit: Some(10), ..request("") }).unwrap();
    let mut found = 0;
    loop {
        let more = answer.next().await.iter().map(BatchSlice::len).sum::<usize>();
        if more == 0 {
            break;
        }
        found += more;
    }
    assert_eq!(found, 10);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((cluster.open_replies(), reserved(&cluster)), (0, 0));
    // A stalled reader reserves nothing, and still receives all records.
    let mut answer = cluster.scatters[0].search(&request("")).unwrap();
    let mut found = answer.next().await.iter().map(BatchSlice::len).sum::<usize>();
    assert!(reserved(&cluster) > 0);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(reserved(&cluster), 0);
    loop {
        let more = answer.next().await.iter().map(BatchSlice::len).sum::<usize>();
        if more == 0 {
            break;
        }
        found += more;
    }
    assert_eq!((found, answer.stats().is_partial()), (3_000, false));
}

#[tokio::test(start_paused = true)]
async fn damage_is_reported_with_its_node() {
    let mut cluster = EngineCluster::new(2);
    for number in 0..10 {
        cluster.put(&[1], id(number), "app=web", &format!("line {number} {}", "x".repeat(60)));
    }
    cluster.nodes[1].move_to_store();
    let segment = Arc::clone(&cluster.nodes[1].store.segments()[0]);
    let block = &segment.footer().blocks[1];
    cluster.nodes[1].fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    let (records, stats) = search_all(&cluster.scatters[0], &request("")).await;
    assert!(!records.is_empty() && records.len() < 10 && stats.is_partial());
    assert!(stats.damaged.iter().all(|name| name.starts_with("node n2: ") && name.contains("at byte")));
    let (count, stats) = answers(&cluster.scatters[0]).count(request(""), ()).await.unwrap();
    assert!(count == records.len() as u64 && stats.is_partial());
    let first = Request { limit: Some(records.len() as u64), ..request("") };
    assert!(search_all(&cluster.scatters[0], &first).await.1.is_partial(), "also when it stops early");
}

#[tokio::test(start_paused = true)]
async fn under_replicated_records_are_reported() {
    let mut cluster = EngineCluster::new(3);
    for number in 0..40 {
        let nodes: &[usize] = if (10..20).contains(&number) { &[1] } else { &[0, 1] };
        cluster.put(nodes, id(number), "app=web", &format!("line {number}"));
    }
    cluster.nodes.iter().for_each(TestEngine::move_to_store);
    // A record in a queue is not under-replicated yet.
    cluster.put(&[2], id(50), "app=web", "in a queue");
    search_all(&cluster.scatters[0], &request("")).await;
    assert_eq!(*cluster.hints.0.lock().unwrap(), [(id(10), id(19))]);
    cluster.hints.0.lock().unwrap().clear();
    search_all(&cluster.scatters[0], &Request { limit: Some(10), ..request("") }).await;
    cluster.set_fault(1, Some(PeerFault::Down));
    search_all(&cluster.scatters[0], &request("")).await;
    cluster.set_fault(1, Some(PeerFault::Dies(400)));
    search_all(&cluster.scatters[0], &request("")).await;
    cluster.network.lock().unwrap().replication_factor = 1;
    cluster.set_fault(1, None);
    search_all(&cluster.scatters[0], &request("")).await;
    assert_eq!(*cluster.hints.0.lock().unwrap(), [], "the records of a lost node are unknown");
}

#[tokio::test(start_paused = true)]
async fn histograms_release_the_memory_of_ids() {
    let cluster = three_nodes();
    let bucketing = Bucketing { buckets: 6, grouping: Grouping::Level };
    let request = Request::new(Expr::All, Millis(START), Millis(START + 60));
    let (histogram, stats) = histogram(&cluster.scatters[1], &request, bucketing).await;
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [10; 6]);
    let levels = histogram.buckets.iter().map(|bucket| bucket.groups.iter().sum::<u64>());
    assert_eq!(levels.collect::<Vec<_>>(), [10; 6]);
    assert_eq!((stats.matched, stats.nodes.answered), (60, 3));
    assert!(cluster.nodes.iter().all(|node| node.engine.result_budget.reserved_bytes() == 0));
}

#[tokio::test(start_paused = true)]
async fn streams_of_all_nodes_are_added_up() {
    let mut cluster = EngineCluster::new(3);
    for number in 0..60 {
        let nodes = [number as usize % 3, (number as usize + 1) % 3];
        cluster.put(&nodes, id(number), if number < 40 { "app=web" } else { "app=shop,host=a" }, "line");
    }
    cluster.nodes.iter().for_each(TestEngine::move_to_store);
    for number in 60..65 {
        cluster.put(&[2], id(number), "app=queued", "line");
    }
    let list = async |expr: &str| {
        let (streams, stats) = answers(&cluster.scatters[0]).streams(request(expr), ()).await.unwrap();
        assert!(streams.is_approximate, "replicas cannot be distinguished");
        let sizes = streams.streams.into_iter().map(|stream| (stream.labels.to_string(), stream.records));
        (sizes.collect::<Vec<_>>(), stats)
    };
    let of = |labels: &str, records| (labels.to_owned(), records);
    let (all, stats) = list("").await;
    assert_eq!(all, [of("app=web", 40), of("app=shop,host=a", 20), of("app=queued", 5)]);
    assert_eq!((stats.nodes.answered, stats.is_partial()), (3, false));
    assert_eq!(list("host=a").await.0, [of("app=shop,host=a", 20)]);
    let text = answers(&cluster.scatters[0]).streams(request("line"), ()).await;
    assert!(matches!(text, Err(RequestError::NotAboutLabels)));
    let reason = async |fault| {
        cluster.set_fault(2, Some(fault));
        let (found, stats) = list("").await;
        assert!(stats.is_partial() && found.iter().all(|(labels, _)| labels != "app=queued"));
        stats.nodes.missing[0].reason.label()
    };
    assert_eq!(reason(PeerFault::OtherVersion).await, "version_mismatch");
    assert_eq!(reason(PeerFault::Dies(10)).await, "truncated");
    assert_eq!(reason(PeerFault::Hangs).await, "start_timeout");
    assert_eq!(reason(PeerFault::SendsInvalidReply).await, "invalid_reply");
    assert!(cluster.nodes.iter().all(|node| node.engine.result_budget.reserved_bytes() == 0));
}

/// A node of the commit before knows version 1 of requests.
#[tokio::test(start_paused = true)]
async fn a_node_that_knows_no_grouping_refuses_instead_of_counting_wrongly() {
    let cluster = three_nodes();
    let field = Grouping::Field { name: "level".to_owned(), values: vec!["info".to_owned()] };
    let version = |grouping| {
        let bucketing = Bucketing { buckets: 4, grouping };
        let sent = ScatterRequest::new(&request("")).with_bucketing(bucketing).encode();
        serde_json::from_slice::<serde_json::Value>(&sent).unwrap()["version"].as_u64().unwrap()
    };
    assert_eq!([Grouping::None, Grouping::Level, field.clone()].map(version), [1, 1, 2]);
    cluster.set_fault(1, Some(PeerFault::OtherVersion));
    let bucketing = Bucketing { buckets: 4, grouping: field };
    let (_, stats) = histogram(&cluster.scatters[0], &request(""), bucketing).await;
    assert_eq!((stats.nodes.answered, stats.nodes.missing[0].reason.label()), (2, "version_mismatch"));
}

#[tokio::test(start_paused = true)]
async fn groups_are_chosen_from_the_newest_records_of_all_nodes() {
    let mut cluster = EngineCluster::new(2);
    for number in 0..30 {
        let line = format!("status={} long={}", [200, 200, 404][number as usize % 3], "x".repeat(300));
        cluster.put(&[number as usize % 2], id(number), if number < 20 { "app=web" } else { "app=shop" }, &line);
    }
    let choose = async |by| answers(&cluster.scatters[0]).choose_groups(request(""), by, ()).await.unwrap();
    let field = |name: &str, values: &[&str]| Grouping::Field {
        name: name.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let by = |name: &str| GroupBy::Field(name.to_owned());
    assert_eq!(choose(by("status")).await, field("status", &["200", "404"]));
    assert_eq!(choose(by("app")).await, field("app", &["web", "shop"]));
    assert_eq!(choose(by("long")).await, field("long", &[]), "no record has a value that is cut");
    let labels = |text| Labels::parse(text).unwrap();
    assert_eq!(choose(GroupBy::Stream).await, Grouping::Streams(vec![labels("app=web"), labels("app=shop")]));
}

#[tokio::test(start_paused = true)]
async fn expressions_that_cannot_be_sent_are_rejected() {
    let cluster = three_nodes();
    let long = Expr::literal("\"".repeat(INPUT_BYTES_MAX - 10));
    let request = Request { expr: long, ..request("") };
    assert!(matches!(cluster.scatters[0].search(&request), Err(RequestError::ExpressionTooLong)));
    let bad = Request { expr: Expr::regex("("), ..request };
    assert!(matches!(cluster.scatters[0].search(&bad), Err(RequestError::Expression(_))));
}

/// The lines and notices of a tail until it is silent for a second of virtual time.
async fn drain_tail(tail: &mut ScatterTail) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut notices) = (Vec::new(), Vec::new());
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(1), tail.next()).await {
        match event {
            TailEvent::Records(mut records) => {
                let text = |record: crate::RecordRef<'_>| String::from_utf8(record.view.line().to_vec()).unwrap();
                lines.extend(std::iter::from_fn(|| records.visit_next(text)));
            }
            TailEvent::Skipped { address, .. } => notices.push(format!("{} skipped", address.unwrap())),
            TailEvent::Lost { address, reason } => notices.push(format!("{address} {}", reason.label())),
            TailEvent::Joined { address } => notices.push(format!("{address} joined")),
        }
    }
    lines.sort();
    (lines, notices)
}

#[tokio::test(start_paused = true)]
async fn a_tail_shows_records_of_all_nodes_once() {
    let mut cluster = EngineCluster::new(2);
    cluster.put(&[0], id(1), "app=web", "before");
    let mut tail = cluster.scatters[0].tail(&request("-quiet")).unwrap();
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec![]));
    cluster.put(&[0, 1], id(2), "app=web", "on both");
    cluster.put(&[1], id(3), "app=web", "quiet");
    cluster.put(&[1], id(4), "app=web", "on one");
    assert_eq!(drain_tail(&mut tail).await, (vec!["on both".to_owned(), "on one".to_owned()], vec![]));
    cluster.join(node());
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec!["n3 joined".to_owned()]));
    cluster.put(&[2], id(5), "app=web", "on the new one");
    cluster.put(&[0], id(2), "app=web", "on both");
    assert_eq!(drain_tail(&mut tail).await, (vec!["on the new one".to_owned()], vec![]));
    drop(tail);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.open_replies(), 0);
    let head = stream_message(MessageKind::Head, &request::ReplyStatus::default().encode()).len();
    cluster.set_fault(1, Some(PeerFault::Dies(head + 10)));
    let mut tail = cluster.scatters[0].tail(&request("")).unwrap();
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec![]));
    // It is reported once.
    cluster.put(&[1], id(6), "app=web", "unseen");
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec!["n2 truncated".to_owned()]));
    cluster.set_fault(1, Some(PeerFault::Down));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec![]));
    cluster.set_fault(1, None);
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec!["n2 joined".to_owned()]));
    cluster.put(&[1], id(7), "app=web", "seen");
    assert_eq!(drain_tail(&mut tail).await, (vec!["seen".to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_tail_reports_nodes_that_are_down_at_its_start() {
    let mut cluster = EngineCluster::new(2);
    cluster.set_fault(1, Some(PeerFault::Down));
    let mut tail = cluster.scatters[0].tail(&request("")).unwrap();
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec!["n2 down".to_owned()]));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec![]));
    cluster.set_fault(1, None);
    assert_eq!(drain_tail(&mut tail).await, (vec![], vec!["n2 joined".to_owned()]));
    cluster.put(&[1], id(1), "app=web", "seen");
    assert_eq!(drain_tail(&mut tail).await, (vec!["seen".to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn requests_of_another_version_are_rejected() {
    let cluster = three_nodes();
    let server = &cluster.scatters[0].server;
    let body = |text: &'static str| Body::whole(text.as_bytes());
    let kind = async |text| server.serve("query/search", body(text)).await.unwrap_err().kind();
    assert_eq!(kind(r#"{"version":5,"q":""}"#).await, io::ErrorKind::Unsupported);
    assert_eq!(kind("nonsense").await, io::ErrorKind::Other);
    let error = server.serve("query/search", body(r#"{"version":5,"q":{}}"#)).await.unwrap_err();
    let reason = reply::call_failure(&error).to_string();
    let message =
        "has another version of the program: supports query protocol versions up to 4, the request has version 5";
    assert_eq!(reason, message);
    let encoded = ScatterRequest::new(&request("")).encode();
    let error = server.serve("query/dance", Body::whole(encoded)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Wherever records and their replicas are, an answer equals a plain filter over all records.
    #[test]
    fn answers_equal_the_plain_filter(
        steps in prop::collection::vec((0_u8..8, 0_u64..3_000, "[ab =x]{0,12}", 0_u64..9_000, 0_usize..3), 1..50),
        expr in prop::sample::select(vec!["", "a", "a b", "a OR x", "-a", "/a.?b/", "a=x", "app=s1", "app!=s0 a"]),
        (from, to, limit) in (0_u64..60_000, 0_u64..60_000, 1_u64..40),
        asked in 0_usize..3,
    ) {
        let mut cluster = EngineCluster::new(3);
        for (number, (what, wait, line, late, node)) in (1_u32..).zip(steps) {
            match what {
                0 => cluster.nodes[node].move_to_store(),
                1 => cluster.nodes.iter().for_each(|node| node.advance_clock(wait)),
                2 => drop(cluster.nodes[node].store.compact(&|| false)),
                kind => {
                    let late = if kind == 3 { late } else { 0 };
                    let now = cluster.nodes[node].clock.unix_ms();
                    let id = Id::new(Millis(now - late), Producer::new(u64::from(kind)), number);
                    let nodes = [node, (node + 1) % 3, (node + 2) % 3];
                    let nodes = &nodes[..usize::from(kind % 3) + 1];
                    cluster.put(nodes, id, &format!("app=s{}", kind % 2), &line);
                }
            }
        }
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        let span = (Millis(START - 5_000 + from), Millis(START - 5_000 + from + to));
        let request = Request::new(expr.clone(), span.0, span.1);
        let plan = Plan::compile(&expr).unwrap();
        let all = cluster.all();
        let wanted = all.iter().filter(|(id, (labels, line))| request.contains(**id) && plan.matches(labels, RecordView::line_only(line)));
        let want: Vec<(Id, Vec<u8>)> = wanted.map(|(id, (_, line))| (*id, line.clone())).collect();
        // One node with all records.
        let mut single = node();
        all.iter().for_each(|(id, (labels, line))| single.put_as(*id, &labels.to_string(), line));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scatter = &cluster.scatters[asked];
            let got = async |request: &Request| -> Vec<(Id, Vec<u8>)> {
                let (records, stats) = search_all(scatter, request).await;
                assert_eq!((stats.nodes.answered, stats.is_partial()), (3, false));
                records.into_iter().map(|record| (record.id, record.text)).collect()
            };
            assert_eq!(got(&request).await, want);
            let oldest = Request { limit: Some(limit), ..request.clone() };
            assert_eq!(got(&oldest).await, want.iter().take(limit as usize).cloned().collect::<Vec<_>>());
            let newest = Request { order: Order::Descending, limit: Some(limit), ..request.clone() };
            assert_eq!(got(&newest).await, want.iter().rev().take(limit as usize).cloned().collect::<Vec<_>>());
            assert_eq!(answers(scatter).count(request.clone(), ()).await.unwrap().0, want.len() as u64);
            for grouping in groupings() {
                let bucketing = Bucketing { buckets: 13, grouping: grouping.clone() };
                let (own, _) = single.histogram(&request, bucketing.clone());
                assert_eq!(histogram(scatter, &request, bucketing).await.0, own);
                let records = want.iter().map(|(id, line)| (*id, &all[id].0, RecordView::line_only(line)));
                let groups: Vec<Vec<u64>> = own.buckets.iter().map(|bucket| bucket.groups.clone()).collect();
                assert_eq!(groups, naive_groups(&grouping, &own.buckets, records));
            }
            let (fields, _) = answers(scatter).fields(request.clone(), ()).await.unwrap();
            let (own, _) = single.fields(request.clone());
            assert_eq!(format!("{fields:?}"), format!("{own:?}"));
            if let Some((middle, _)) = want.get(want.len() / 2) {
                let (around, _) = context_records(scatter, *middle, 3, 4).await.unwrap();
                let (own, _) = single.context(*middle, 3, 4).unwrap();
                let ids = |records: &[OwnedRecord]| records.iter().map(|record| record.id).collect::<Vec<_>>();
                assert_eq!(ids(&around), ids(&own));
            }
        });
    }
}

#[test]
fn records_state_whether_they_are_stored() {
    let mut node = node();
    (0..10).for_each(|number| node.put_as(id(number), "app=web", b"x"));
    let stored = |node: &TestEngine| {
        let mut search = node.engine.search(request(""), Cancel::default()).unwrap();
        let mut stored = Vec::new();
        let mut see = |record: crate::RecordRef<'_>| {
            stored.push(record.is_stored);
            ControlFlow::Continue(())
        };
        while search.visit_batch(&mut see) > 0 {}
        stored
    };
    assert_eq!(stored(&node), [false; 10]);
    node.move_to_store();
    assert_eq!(stored(&node), [true; 10]);
}
