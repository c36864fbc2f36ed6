//! Clusters of engines over simulated disks, with a network between them that can do wrong.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_doors::{Body, Clock as _, Tasks, Waiting, sim};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_scan::Plan;
use proptest::prelude::*;
use tokio::sync::watch;

use super::message::{Kind, message};
use super::*;
use crate::count::{Division, Histogram};
use crate::engine::Config;
use crate::hits::{Record, RecordRef};
use crate::pool::Pool;
use crate::request::{Cancel, Order};
use crate::stats::Why;
use crate::tests::Node;

/// Tasks under tokio's paused clock, in one thread.
#[derive(Debug)]
struct Paused;

impl Tasks for Paused {
    fn spawn(&self, task: Waiting<()>) {
        tokio::spawn(task);
    }

    fn sleep(&self, time: Duration) -> Waiting<()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, work: Box<dyn FnOnce() + Send>) -> Waiting<()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Down,
    Refuses,
    Unreachable,
    OtherVersion,
    /// It never begins.
    Hangs,
    /// It says nothing more after so many bytes.
    Stalls(usize),
    /// It dies after so many bytes.
    Dies(usize),
    /// Its answer ends after so many bytes as if that were all.
    EndsEarly(usize),
    /// A bit of this byte is flipped.
    Garbles(usize),
    /// It says something else.
    Babbles,
}

#[derive(Debug, Default)]
struct World {
    servings: BTreeMap<Id, Arc<Serving>>,
    faults: BTreeMap<Id, Fault>,
    queue_from: BTreeMap<Id, Option<Millis>>,
    /// Where else a node is, by the one that knows it and by its id.
    twins: BTreeMap<(Id, Id), String>,
    copies: usize,
    /// Answers that somebody reads.
    reading: usize,
}

#[derive(Clone, Debug)]
struct Others {
    own: Id,
    world: Arc<Mutex<World>>,
    changes: watch::Sender<()>,
}

impl Others {
    fn peer(&self, node: Id) -> Peer {
        let world = self.world.lock().unwrap();
        let live = world.faults.get(&node) != Some(&Fault::Down);
        let queue_from = world.queue_from.get(&node).copied().unwrap_or(Some(Millis(0)));
        let also_at = world.twins.get(&(self.own, node)).cloned();
        Peer { node, address: format!("n{}", node.bits()), live, queue_from, store: true, also_at }
    }
}

impl Peers for Others {
    fn own(&self) -> Peer {
        self.peer(self.own)
    }

    fn others(&self) -> Vec<Peer> {
        let nodes: Vec<Id> = self.world.lock().unwrap().servings.keys().copied().collect();
        nodes.into_iter().filter(|node| *node != self.own).map(|node| self.peer(node)).collect()
    }

    fn is_awaiting(&self) -> bool {
        false
    }

    fn copies(&self) -> usize {
        self.world.lock().unwrap().copies
    }

    fn changed(&self) -> Waiting<()> {
        let mut changes = self.changes.subscribe();
        Box::pin(async move { changes.changed().await.unwrap() })
    }

    fn call(&self, node: Id, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let world = Arc::clone(&self.world);
        let (serving, fault) = {
            let world = world.lock().unwrap();
            (Arc::clone(&world.servings[&node]), world.faults.get(&node).copied())
        };
        let name = name.to_owned();
        Box::pin(async move {
            match fault {
                Some(Fault::Down | Fault::Unreachable) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(Fault::Refuses) => return Err(io::Error::other("no")),
                Some(Fault::OtherVersion) => return Err(io::ErrorKind::Unsupported.into()),
                Some(Fault::Hangs) => std::future::pending().await,
                Some(Fault::Babbles) => return Ok(Body::whole(message(Kind::Batch, b"what?"))),
                _ => {}
            }
            let inner = serving.answer(&name, body).await?;
            let (writer, outer) = Body::channel();
            world.lock().unwrap().reading += 1;
            tokio::spawn(async move {
                pump(inner, writer, fault).await;
                world.lock().unwrap().reading -= 1;
            });
            Ok(outer)
        })
    }
}

/// Hands a body on, as well as the network can.
async fn pump(mut inner: Body, writer: bucksaw_doors::BodyWriter, fault: Option<Fault>) {
    let mut sent = 0;
    loop {
        let piece = tokio::select! {
            biased;
            () = writer.gone() => return,
            piece = inner.next() => piece,
        };
        let Some(piece) = piece else {
            let _ = writer.end().await;
            return;
        };
        let Ok(piece) = piece else { return };
        // The network knows no messages.
        for part in piece.chunks(1_000) {
            let mut part = part.to_vec();
            match fault {
                Some(Fault::Garbles(at)) if (sent..sent + part.len()).contains(&at) => part[at - sent] ^= 4,
                Some(Fault::Dies(at) | Fault::EndsEarly(at) | Fault::Stalls(at)) if sent + part.len() > at => {
                    part.truncate(at - sent);
                    let _ = writer.send(part).await;
                    match fault {
                        Some(Fault::EndsEarly(_)) => drop(writer.end().await),
                        Some(Fault::Stalls(_)) => writer.gone().await,
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
struct Hints(Mutex<Vec<(Id, Id)>>);

impl Repair for Hints {
    fn wanted(&self, low: Id, high: Id) {
        self.0.lock().unwrap().push((low, high));
    }
}

struct Cluster {
    nodes: Vec<Node>,
    scatters: Vec<Arc<Scatter>>,
    world: Arc<Mutex<World>>,
    changes: watch::Sender<()>,
    hints: Arc<Hints>,
}

fn node_id(number: usize) -> Id {
    Id::from_bits(number as u128 + 1)
}

fn node() -> Node {
    node_of(Config::default())
}

fn node_of(config: Config) -> Node {
    let config = Config { tail_lag_bytes_max: 2_000, ..config };
    Node::scanning(sim::Fs::new(), config, 1, Pool::inline())
}

impl Cluster {
    fn of(nodes: Vec<Node>) -> Self {
        let world = Arc::new(Mutex::new(World { copies: 2, ..World::default() }));
        let mut cluster = Self {
            nodes: Vec::new(),
            scatters: Vec::new(),
            world,
            changes: watch::Sender::new(()),
            hints: Arc::default(),
        };
        nodes.into_iter().for_each(|node| cluster.join(node));
        cluster
    }

    fn new(count: usize) -> Self {
        Self::of((0..count).map(|_| node()).collect())
    }

    fn join(&mut self, node: Node) {
        let own = node_id(self.nodes.len());
        let (world, changes) = (Arc::clone(&self.world), self.changes.clone());
        let peers = Arc::new(Others { own, world, changes });
        let serving = Serving::new(Arc::clone(&node.engine), Arc::new(Paused), peers);
        self.world.lock().unwrap().servings.insert(own, Arc::clone(&serving));
        let repair: Arc<dyn Repair> = Arc::clone(&self.hints) as _;
        self.scatters.push(Scatter::new(serving, Patience::default(), Some(repair)));
        self.nodes.push(node);
        self.changes.send_replace(());
    }

    fn fail(&self, node: usize, fault: Option<Fault>) {
        let mut world = self.world.lock().unwrap();
        match fault {
            Some(fault) => drop(world.faults.insert(node_id(node), fault)),
            None => drop(world.faults.remove(&node_id(node))),
        }
        drop(world);
        self.changes.send_replace(());
    }

    /// Puts a record on some nodes.
    fn put(&mut self, nodes: &[usize], id: Id, labels: &str, line: &str) {
        for node in nodes {
            self.nodes[*node].put_as(id, labels, line.as_bytes());
        }
    }

    fn all(&self) -> BTreeMap<Id, (Labels, Vec<u8>)> {
        self.nodes.iter().flat_map(|node| node.all.clone()).collect()
    }

    fn reading(&self) -> usize {
        self.world.lock().unwrap().reading
    }
}

fn request(expr: &str) -> Request {
    Request::new(Expr::parse(expr.as_bytes()).unwrap(), Millis(0), Millis::MAX)
}

async fn ask(scatter: &Arc<Scatter>, request: &Request) -> (Vec<Record>, Stats) {
    let mut answer = scatter.search(request).unwrap();
    let mut records = Vec::new();
    loop {
        let some = answer.next().await;
        if some.is_empty() {
            let stats = answer.stats();
            assert_eq!(stats.matched, records.len() as u64);
            return (records, stats);
        }
        records.extend(some.iter().flat_map(Stretch::records).map(crate::RecordRef::to_record));
    }
}

async fn lines(scatter: &Arc<Scatter>, request: &Request) -> Vec<String> {
    ask(scatter, request).await.0.into_iter().map(|record| String::from_utf8(record.text).unwrap()).collect()
}

async fn histogram(scatter: &Arc<Scatter>, request: &Request, division: Division) -> (Histogram, Stats) {
    scatter.histogram(request, division, &mut |_, _| {}).await.unwrap()
}

const START: u64 = 1_700_000_000_000;

fn id(number: u64) -> Id {
    Id::new(Millis(START + number), Producer::new(number % 3), number as u32)
}

/// Three nodes with forty records each on two of them, half of them on shelves, and a few more.
fn three() -> Cluster {
    let mut cluster = Cluster::new(3);
    for number in 0..60 {
        let nodes = [number as usize % 3, (number as usize + 1) % 3];
        cluster.put(&nodes, id(number), "app=web", &format!("line {number:02} level=info {}", "x".repeat(50)));
        if number == 30 {
            cluster.nodes.iter().for_each(Node::gather);
        }
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn while_one_node_knows_of_two_with_one_id_no_answer_is_complete() {
    let cluster = three();
    for (knows, twin) in [(0, 1), (2, 1), (1, 1)] {
        cluster.world.lock().unwrap().twins = [((node_id(knows), node_id(twin)), "elsewhere".to_owned())].into();
        for (asked, scatter) in cluster.scatters.iter().enumerate() {
            let (records, stats) = ask(scatter, &request("")).await;
            let (count, counted) = scatter.count(&request("line")).await.unwrap();
            assert_eq!((records.len(), count), (60, 60));
            for stats in [stats, counted] {
                let reasons = stats.partial_reasons();
                let is_told = reasons.len() == 1 && reasons[0].contains("n2") && reasons[0].contains("elsewhere");
                assert!(stats.is_partial() && is_told, "{knows} knows, {asked} is asked: {reasons:?}");
            }
        }
    }
    cluster.world.lock().unwrap().twins.clear();
    assert!(!ask(&cluster.scatters[0], &request("")).await.1.is_partial());
}

#[tokio::test(start_paused = true)]
async fn whichever_node_is_asked_the_answer_is_that_of_all() {
    let cluster = three();
    for scatter in &cluster.scatters {
        let (records, stats) = ask(scatter, &request("")).await;
        assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), (0..60).map(id).collect::<Vec<_>>());
        assert_eq!((stats.nodes.asked, stats.nodes.answered, stats.is_partial()), (3, 3, false));
        assert!(stats.segments_read > 3 && stats.bytes_scanned > 60 * 50);
        let newest = Request { order: Order::Descending, limit: Some(5), ..request("-line x") };
        assert!(lines(scatter, &newest).await.is_empty());
        let newest = Request { order: Order::Descending, limit: Some(5), ..request("line") };
        let (records, _) = ask(scatter, &newest).await;
        assert_eq!(
            records.iter().map(|record| record.id).collect::<Vec<_>>(),
            (55..60).rev().map(id).collect::<Vec<_>>()
        );
        let (count, stats) = scatter.count(&request("line")).await.unwrap();
        assert_eq!((count, stats.matched, stats.is_partial()), (60, 60, false));
        let (fields, _) = scatter.fields(request("")).await.unwrap();
        let level = fields.fields.iter().find(|field| field.name == "level").unwrap();
        assert_eq!((fields.records, fields.sampled, level.values.clone()), (60, false, vec![(b"info".to_vec(), 60)]));
        let (records, stats) = around(scatter, id(30), 3, 2).await.unwrap();
        assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), (27..33).map(id).collect::<Vec<_>>());
        assert_eq!((stats.matched, stats.nodes.answered), (6, 3));
        assert!(matches!(scatter.context(id(99), 3, 2).await, Err(RequestError::NoRecord(_))));
    }
    tokio::task::yield_now().await;
    assert_eq!(cluster.reading(), 0);
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_a_place_and_are_refused_after_some_seconds() {
    let config = Config { served_max: 1, served_tails_max: 1, ..Config::default() };
    let mut cluster = Cluster::of((0..2).map(|_| node_of(config.clone())).collect());
    (0..400).for_each(|number| cluster.put(&[0, 1], id(number), "app=web", &"x".repeat(1_000)));
    let (scatter, request) = (Arc::clone(&cluster.scatters[0]), request("x"));
    // It is begun, and holds its places: there is more than the network carries on its way.
    let mut first = scatter.search(&request).unwrap();
    assert!(!first.next().await.is_empty());
    let (records, stats) = ask(&scatter, &request).await;
    assert!(records.is_empty() && stats.is_partial(), "{stats:?}");
    assert!(
        stats.nodes.missing.iter().all(|node| format!("{:?}", node.why).contains("too many questions")),
        "{stats:?}"
    );
    // One that ends in time makes room.
    let waiting = tokio::spawn(async move { ask(&scatter, &request).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(first);
    let (records, stats) = waiting.await.unwrap();
    assert_eq!((records.len(), stats.is_partial()), (400, false), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_of_another_node_gets_all_of_a_large_look() {
    let mut cluster = Cluster::of(vec![Node::scanning(sim::Fs::new(), Config::default(), 1, Pool::inline())]);
    let mut follow = cluster.scatters[0].tail(&request("x").expr).unwrap();
    let (mut seen, mut batches) = (0, 0);
    assert!(tokio::time::timeout(Duration::from_secs(1), follow.next()).await.is_err());
    (0..500).for_each(|number| cluster.put(&[0], id(number), "app=web", &"x".repeat(1_000)));
    while seen < 500 {
        let Followed::Records(records) = follow.next().await else { panic!("no records") };
        seen += records.iter().flat_map(Stretch::records).count();
        batches += 1;
    }
    assert!((seen, batches > 5) == (500, true), "{seen} in {batches}");
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_node_is_told_of_and_takes_nothing_from_the_others() {
    let cluster = three();
    let calls = |why: &Why| why.word();
    let check = async |fault, want: &str, all: bool| {
        cluster.fail(2, Some(fault));
        let begun = tokio::time::Instant::now();
        let (records, stats) = ask(&cluster.scatters[0], &request("")).await;
        assert_eq!(
            stats.nodes.missing.iter().map(|missing| calls(&missing.why)).collect::<Vec<_>>(),
            [want],
            "{fault:?}"
        );
        assert_eq!((stats.nodes.asked, stats.nodes.answered), (3, 2));
        assert!(stats.is_partial() && stats.partial_reasons()[0].starts_with("node n3 "));
        // The other two have a copy of each.
        assert_eq!(records.len(), 60, "{fault:?}");
        let (count, stats) = cluster.scatters[0].count(&request("")).await.unwrap();
        assert_eq!((count, stats.nodes.missing.len(), stats.is_partial()), (60, 1, true), "{fault:?}");
        assert!(begun.elapsed() <= Duration::from_secs(if all { 0 } else { 80 }), "{fault:?}: {:?}", begun.elapsed());
        cluster.fail(2, None);
    };
    check(Fault::Down, "down", true).await;
    check(Fault::Unreachable, "unreachable", true).await;
    check(Fault::Refuses, "refused", true).await;
    check(Fault::OtherVersion, "other_version", true).await;
    check(Fault::Hangs, "late", false).await;
    check(Fault::Stalls(5), "late", false).await;
    check(Fault::Babbles, "senseless", true).await;
    for at in [0, 5, 200, 300] {
        check(Fault::Dies(at), "cut_off", true).await;
        check(Fault::EndsEarly(at), "cut_off", true).await;
        check(Fault::Garbles(at + 10), "senseless", true).await;
    }
    check(Fault::Stalls(300), "silent", false).await;
    cluster.fail(2, Some(Fault::Down));
    assert!(matches!(cluster.scatters[0].context(id(99), 1, 1).await, Err(RequestError::NotAllAnswered(..))));
    cluster.fail(2, None);
    assert_eq!(ask(&cluster.scatters[0], &request("")).await.1.nodes.answered, 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_node_is_whole_when_others_have_what_it_has() {
    let cluster = three();
    cluster.world.lock().unwrap().queue_from.insert(node_id(2), Some(Millis(START + 40)));
    cluster.fail(2, Some(Fault::Down));
    let until = |to| Request { to: id(to), ..request("") };
    let (records, stats) = ask(&cluster.scatters[0], &until(39)).await;
    assert_eq!((records.len(), stats.nodes.answered, stats.is_partial()), (39, 2, false));
    assert!(ask(&cluster.scatters[0], &until(41)).await.1.is_partial(), "its queue may have more");
    cluster.world.lock().unwrap().copies = 1;
    assert!(ask(&cluster.scatters[0], &until(39)).await.1.is_partial(), "its shelf may have more");
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_ends_the_work_on_all_nodes() {
    let mut nodes: Vec<Node> = (0..3).map(|_| node()).collect();
    for number in 0..3_000_u64 {
        nodes[number as usize % 3].put_as(id(number), "app=web", "x".repeat(2_000).as_bytes());
    }
    let cluster = Cluster::of(nodes);
    let mut answer = cluster.scatters[0].search(&request("")).unwrap();
    assert!(!answer.next().await.is_empty());
    assert_eq!(cluster.reading(), 2);
    drop(answer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = |cluster: &Cluster| cluster.nodes.iter().map(|node| node.engine.budget.held()).sum::<u64>();
    assert_eq!((cluster.reading(), held(&cluster)), (0, 0));
    // So does a limit.
    let mut answer = cluster.scatters[0].search(&Request { limit: Some(10), ..request("") }).unwrap();
    let mut found = 0;
    loop {
        let more = answer.next().await.iter().map(Stretch::len).sum::<usize>();
        if more == 0 {
            break;
        }
        found += more;
    }
    assert_eq!(found, 10);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((cluster.reading(), held(&cluster)), (0, 0));
    // Who stalls holds next to nothing, and gets all of it in the end.
    let mut answer = cluster.scatters[0].search(&request("")).unwrap();
    let mut found = answer.next().await.iter().map(Stretch::len).sum::<usize>();
    assert!(held(&cluster) > 0);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(held(&cluster), 0);
    loop {
        let more = answer.next().await.iter().map(Stretch::len).sum::<usize>();
        if more == 0 {
            break;
        }
        found += more;
    }
    assert_eq!((found, answer.stats().is_partial()), (3_000, false));
}

#[tokio::test(start_paused = true)]
async fn damage_is_told_of_with_its_node() {
    let mut cluster = Cluster::new(2);
    for number in 0..10 {
        cluster.put(&[1], id(number), "app=web", &format!("line {number} {}", "x".repeat(60)));
    }
    cluster.nodes[1].gather();
    let segment = Arc::clone(&cluster.nodes[1].engine.shelf().segments()[0]);
    let block = &segment.footer().blocks[1];
    cluster.nodes[1].fs.spoil(segment.reader().path(), block.at..block.at + block.packed_bytes() + 1);
    let (records, stats) = ask(&cluster.scatters[0], &request("")).await;
    assert!(!records.is_empty() && records.len() < 10 && stats.is_partial());
    assert!(stats.damaged.iter().all(|name| name.starts_with("node n2: ") && name.contains("at byte")));
    let (count, stats) = cluster.scatters[0].count(&request("")).await.unwrap();
    assert!(count == records.len() as u64 && stats.is_partial());
    let first = Request { limit: Some(records.len() as u64), ..request("") };
    assert!(ask(&cluster.scatters[0], &first).await.1.is_partial(), "also when it stops early");
}

#[tokio::test(start_paused = true)]
async fn records_in_too_few_stores_are_told_of() {
    let mut cluster = Cluster::new(3);
    for number in 0..40 {
        let nodes: &[usize] = if (10..20).contains(&number) { &[1] } else { &[0, 1] };
        cluster.put(nodes, id(number), "app=web", &format!("line {number}"));
    }
    cluster.nodes.iter().for_each(Node::gather);
    // What waits in a queue is on its way.
    cluster.put(&[2], id(50), "app=web", "in a queue");
    ask(&cluster.scatters[0], &request("")).await;
    assert_eq!(*cluster.hints.0.lock().unwrap(), [(id(10), id(19))]);
    cluster.hints.0.lock().unwrap().clear();
    ask(&cluster.scatters[0], &Request { limit: Some(10), ..request("") }).await;
    cluster.fail(1, Some(Fault::Down));
    ask(&cluster.scatters[0], &request("")).await;
    cluster.fail(1, Some(Fault::Dies(400)));
    ask(&cluster.scatters[0], &request("")).await;
    cluster.world.lock().unwrap().copies = 1;
    cluster.fail(1, None);
    ask(&cluster.scatters[0], &request("")).await;
    assert_eq!(*cluster.hints.0.lock().unwrap(), [], "nothing is known of what a lost node has");
}

#[tokio::test(start_paused = true)]
async fn histograms_fill_from_the_oldest_and_keep_little() {
    let cluster = three();
    let division = Division { buckets: 6, by_level: true };
    let request = Request::new(Expr::All, Millis(START), Millis(START + 60));
    let (histogram, stats) = histogram(&cluster.scatters[1], &request, division).await;
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [10; 6]);
    let levels = histogram.buckets.iter().map(|bucket| bucket.levels.unwrap().iter().sum::<u64>());
    assert_eq!(levels.collect::<Vec<_>>(), [10; 6]);
    assert_eq!((stats.matched, stats.nodes.answered), (60, 3));
    assert!(cluster.nodes.iter().all(|node| node.engine.budget.held() == 0));
}

#[tokio::test(start_paused = true)]
async fn expressions_that_cannot_be_asked_are_refused() {
    let cluster = three();
    let long = Expr::literal("\"".repeat(INPUT_BYTES_MAX - 10));
    let request = Request { expr: long, ..request("") };
    assert!(matches!(cluster.scatters[0].search(&request), Err(RequestError::Long)));
    let bad = Request { expr: Expr::regex("("), ..request };
    assert!(matches!(cluster.scatters[0].search(&bad), Err(RequestError::Expression(_))));
}

/// What a follower sees until nothing comes for a second.
async fn follow(tail: &mut Follow) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut notices) = (Vec::new(), Vec::new());
    while let Ok(followed) = tokio::time::timeout(Duration::from_secs(1), tail.next()).await {
        match followed {
            Followed::Records(records) => {
                let text = |record: crate::RecordRef<'_>| String::from_utf8(record.text.to_vec()).unwrap();
                lines.extend(records.iter().flat_map(Stretch::records).map(text));
            }
            Followed::Skipped { address, .. } => notices.push(format!("{address} skipped")),
            Followed::Lost { address, why } => notices.push(format!("{address} {}", why.word())),
            Followed::Joined { address } => notices.push(format!("{address} joined")),
        }
    }
    lines.sort();
    (lines, notices)
}

#[tokio::test(start_paused = true)]
async fn followers_see_what_any_node_accepts_once() {
    let mut cluster = Cluster::new(2);
    cluster.put(&[0], id(1), "app=web", "before");
    let mut tail = cluster.scatters[0].tail(&Expr::parse(b"-quiet").unwrap()).unwrap();
    assert_eq!(follow(&mut tail).await, (vec![], vec![]));
    cluster.put(&[0, 1], id(2), "app=web", "on both");
    cluster.put(&[1], id(3), "app=web", "quiet");
    cluster.put(&[1], id(4), "app=web", "on one");
    assert_eq!(follow(&mut tail).await, (vec!["on both".to_owned(), "on one".to_owned()], vec![]));
    cluster.join(node());
    assert_eq!(follow(&mut tail).await, (vec![], vec!["n3 joined".to_owned()]));
    cluster.put(&[2], id(5), "app=web", "on the new one");
    cluster.put(&[0], id(2), "app=web", "on both");
    assert_eq!(follow(&mut tail).await, (vec!["on the new one".to_owned()], vec![]));
    drop(tail);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.reading(), 0);
    let head = message(Kind::Head, &question::Told::default().encode()).len();
    cluster.fail(1, Some(Fault::Dies(head + 10)));
    let mut tail = cluster.scatters[0].tail(&Expr::All).unwrap();
    assert_eq!(follow(&mut tail).await, (vec![], vec![]));
    // It is told of once.
    cluster.put(&[1], id(6), "app=web", "unseen");
    assert_eq!(follow(&mut tail).await, (vec![], vec!["n2 cut_off".to_owned()]));
    cluster.fail(1, Some(Fault::Down));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(follow(&mut tail).await, (vec![], vec![]));
    cluster.fail(1, None);
    assert_eq!(follow(&mut tail).await, (vec![], vec!["n2 joined".to_owned()]));
    cluster.put(&[1], id(7), "app=web", "seen");
    assert_eq!(follow(&mut tail).await, (vec!["seen".to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn followers_are_told_who_is_down_when_they_begin() {
    let mut cluster = Cluster::new(2);
    cluster.fail(1, Some(Fault::Down));
    let mut tail = cluster.scatters[0].tail(&Expr::All).unwrap();
    assert_eq!(follow(&mut tail).await, (vec![], vec!["n2 down".to_owned()]));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(follow(&mut tail).await, (vec![], vec![]));
    cluster.fail(1, None);
    assert_eq!(follow(&mut tail).await, (vec![], vec!["n2 joined".to_owned()]));
    cluster.put(&[1], id(1), "app=web", "seen");
    assert_eq!(follow(&mut tail).await, (vec!["seen".to_owned()], vec![]));
}

#[tokio::test(start_paused = true)]
async fn questions_of_another_version_are_not_understood() {
    let cluster = three();
    let serving = &cluster.scatters[0].serving;
    let body = |text: &'static str| Body::whole(text.as_bytes());
    let kind = async |text| serving.answer("query/search", body(text)).await.unwrap_err().kind();
    assert_eq!(kind(r#"{"version":2,"q":""}"#).await, io::ErrorKind::Unsupported);
    assert_eq!(kind("nonsense").await, io::ErrorKind::Other);
    let error = serving.answer("query/search", body(r#"{"version":2,"q":{}}"#)).await.unwrap_err();
    let why = source::refused(&error).to_string();
    let words = "has another version of the program: it answers questions of version 1, and this one is of version 2";
    assert_eq!(why, words);
    let question = Question::new(&request("")).encode();
    let error = serving.answer("query/dance", Body::whole(question)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Wherever records and their copies lie, an answer is what a plain filter over all of them gives.
    #[test]
    fn answers_equal_the_plain_filter(
        steps in prop::collection::vec((0_u8..8, 0_u64..3_000, "[ab =x]{0,12}", 0_u64..9_000, 0_usize..3), 1..50),
        expr in prop::sample::select(vec!["", "a", "a b", "a OR x", "-a", "/a.?b/", "a=x", "app=s1", "app!=s0 a"]),
        (from, to, limit) in (0_u64..60_000, 0_u64..60_000, 1_u64..40),
        asked in 0_usize..3,
    ) {
        let mut cluster = Cluster::new(3);
        for (number, (what, wait, line, late, node)) in (1_u32..).zip(steps) {
            match what {
                0 => cluster.nodes[node].gather(),
                1 => cluster.nodes.iter().for_each(|node| node.pass(wait)),
                2 => drop(cluster.nodes[node].engine.shelf().compact(&|| false)),
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
        let wanted = all.iter().filter(|(id, (labels, line))| request.wants(**id) && plan.matches(labels, line));
        let want: Vec<(Id, Vec<u8>)> = wanted.map(|(id, (_, line))| (*id, line.clone())).collect();
        // One node with all of it.
        let mut single = node();
        all.iter().for_each(|(id, (labels, line))| single.put_as(*id, &labels.to_string(), line));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scatter = &cluster.scatters[asked];
            let got = async |request: &Request| -> Vec<(Id, Vec<u8>)> {
                let (records, stats) = ask(scatter, request).await;
                assert_eq!((stats.nodes.answered, stats.is_partial()), (3, false));
                records.into_iter().map(|record| (record.id, record.text)).collect()
            };
            assert_eq!(got(&request).await, want);
            let oldest = Request { limit: Some(limit), ..request.clone() };
            assert_eq!(got(&oldest).await, want.iter().take(limit as usize).cloned().collect::<Vec<_>>());
            let newest = Request { order: Order::Descending, limit: Some(limit), ..request.clone() };
            assert_eq!(got(&newest).await, want.iter().rev().take(limit as usize).cloned().collect::<Vec<_>>());
            assert_eq!(scatter.count(&request).await.unwrap().0, want.len() as u64);
            for by_level in [false, true] {
                let division = Division { buckets: 13, by_level };
                let (own, _) =
                    single.engine.histogram(&request, &Cancel::default(), division, &mut |_, _| {}).unwrap();
                assert_eq!(histogram(scatter, &request, division).await.0, own);
            }
            let (fields, _) = scatter.fields(request.clone()).await.unwrap();
            let (own, _) = single.engine.fields(request.clone(), Cancel::default()).unwrap();
            assert_eq!(format!("{fields:?}"), format!("{own:?}"));
            if let Some((middle, _)) = want.get(want.len() / 2) {
                let (around, _) = around(scatter, *middle, 3, 4).await.unwrap();
                let (own, _) = crate::tests::around(&single.engine, *middle, 3, 4).unwrap();
                let ids = |records: &[Record]| records.iter().map(|record| record.id).collect::<Vec<_>>();
                assert_eq!(ids(&around), ids(&own));
            }
        });
    }
}

/// The records around one.
async fn around(scatter: &Arc<Scatter>, id: Id, before: u64, after: u64) -> Result<(Vec<Record>, Stats), RequestError> {
    let mut context = scatter.context(id, before, after).await?;
    let mut records = Vec::new();
    loop {
        let found = context.next().await?;
        if found.is_empty() {
            return Ok((records, context.stats().clone()));
        }
        records.extend(found.iter().flat_map(Stretch::records).map(RecordRef::to_record));
    }
}

#[test]
fn records_tell_whether_they_are_on_the_shelf() {
    let mut node = node();
    (0..10).for_each(|number| node.put_as(id(number), "app=web", b"x"));
    let stored = |node: &Node| {
        let mut search = node.engine.search(request(""), Cancel::default()).unwrap();
        let mut stored = Vec::new();
        let mut see = |record: crate::RecordRef<'_>| {
            stored.push(record.stored);
            ControlFlow::Continue(())
        };
        while search.show_batch(&mut see) > 0 {}
        stored
    };
    assert_eq!(stored(&node), [false; 10]);
    node.gather();
    assert_eq!(stored(&node), [true; 10]);
}
