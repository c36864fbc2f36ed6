//! A simulated cluster of whole nodes: one takes records in, the others keep them, and all answer questions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{self as cluster, Cluster, Facts, Router, State};
use bucksaw_doors::sim::{self, Loss, World};
use bucksaw_ingest::{self as ingest, Durability, Queue, Records, Source};
use bucksaw_node::{Node, Parts, Roles, balance};
use bucksaw_query::{self as query, Engine, Gossiped, Pool, Request, Scatter, Serving, Stats, Stretch};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_segment::Sides;
use bucksaw_store::{self as store, Shelf, repair};
use prometheus_client::registry::Registry;

/// A store that is gone for so long is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);

/// After so long whoever is lost has been made good: a node is taken for down within five seconds, is lost ten later, and a
/// pass over these few records takes a few more, and what was fresh is looked at again.
pub(crate) const REPAIRED: Duration = Duration::from_secs(60);

/// Which node it is that takes in. The others keep.
pub(crate) const INGEST: usize = 0;

pub(crate) struct Town {
    pub(crate) world: World,
    pub(crate) nodes: Vec<Inhabitant>,
    copies: usize,
    /// Memory for the index of the segments of stores that are started from now on.
    pub(crate) index_bytes_max: u64,
    sent: u32,
}

pub(crate) struct Inhabitant {
    pub(crate) host: sim::Node,
    pub(crate) running: Option<Running>,
}

pub(crate) struct Running {
    pub(crate) node: Node,
    scatter: Arc<Scatter>,
    _parts: Parts,
}

/// What an answer to the question for everything was.
pub(crate) struct Answer {
    pub(crate) records: usize,
    pub(crate) stats: Stats,
}

impl Town {
    /// A cluster in which nothing is stored yet.
    pub(crate) fn new(seed: u64, stores: usize, copies: usize) -> Self {
        let world = World::new(seed);
        let node = |number| Inhabitant { host: world.add_node(&format!("n{number}")), running: None };
        let nodes = (0..=stores).map(node).collect();
        let mut town = Self { world, nodes, copies, index_bytes_max: u64::MAX, sent: 0 };
        (0..=stores).for_each(|number| town.start(number));
        town.pass(Duration::from_secs(15));
        town
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.world.run_for(time);
    }

    pub(crate) fn start(&mut self, number: usize) {
        let host = &self.nodes[number].host;
        host.restart();
        let (doors, tasks, net) = (host.doors(), host.tasks(), host.net());
        let mut registry = Registry::default();
        let dir = Path::new("/data");
        let small = ingest::Config { segment_bytes_max: 4 << 10, ..ingest::Config::default() };
        let metrics = ingest::Metrics::new(&mut registry);
        let (queue, _) = Queue::open(doors.clone(), &dir.join("queue"), small, metrics).unwrap();
        let small = store::Config {
            segment_bytes: 32 << 10,
            block_bytes: 4 << 10,
            gather_age: Duration::from_secs(2),
            copies: self.copies,
            index_bytes_max: self.index_bytes_max,
            repair: repair::Config {
                lost_after: LOST_AFTER,
                margin: Duration::from_secs(15),
                period: Duration::from_secs(600),
                again: Duration::from_secs(2),
                ..repair::Config::default()
            },
            ..store::Config::default()
        };
        let metrics = store::Metrics::new(&mut registry);
        let shelf = Shelf::open(doors.clone(), &dir.join("shelf"), small, metrics).unwrap();
        shelf.reconcile(&queue);
        let (queue, shelf) = (Arc::new(queue), Arc::new(shelf));
        let id = id(number);
        let roles = Roles { ingest: number == INGEST, store: number != INGEST };
        let mut config = cluster::Config::new(dir.to_owned());
        config.join = vec!["n0:7659".to_owned(), "n1:7659".to_owned()];
        let facts = Facts { roles, ..Facts::new(id) };
        let metrics = cluster::Metrics::new(&mut registry);
        let (given, router) = (doors.clone(), Router::new());
        let cluster =
            Cluster::start(config, given, Arc::clone(&tasks), Arc::clone(&net), facts, router, metrics).unwrap();
        let metrics = query::Metrics::new(&mut registry);
        let (of, on) = (Arc::clone(&queue), Arc::clone(&shelf));
        let engine = Engine::new(of, on, Pool::inline(), doors.clone(), query::Config::default(), metrics);
        let clock = Arc::clone(&doors.clock);
        let peers = Arc::new(Gossiped::new(Arc::clone(&cluster), clock, self.copies));
        let serving = Serving::new(Arc::new(engine), Arc::clone(&tasks), peers);
        serving.register(&cluster.router());
        let scatter = Scatter::new(serving, query::Patience::default(), None);
        let patience = store::Patience::default();
        let balance = balance::Config::default();
        let node = Node { doors, tasks, net, id, roles, queue, shelf, cluster, patience, balance };
        node.answer_calls();
        let parts = Parts::start(node.clone());
        self.nodes[number].running = Some(Running { node, scatter, _parts: parts });
    }

    /// The process is killed.
    pub(crate) fn kill(&mut self, number: usize) {
        self.nodes[number].host.kill();
        self.nodes[number].running = None;
    }

    /// The machine burns.
    pub(crate) fn destroy(&mut self, number: usize) {
        self.nodes[number].host.cut_power(Loss::All);
        self.nodes[number].running = None;
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number].running.as_ref().unwrap().node
    }

    /// Takes in some records a second, for so many seconds.
    pub(crate) fn send(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let now = Millis(self.nodes[INGEST].host.doors().clock.unix_ms());
            for _ in 0..20 {
                self.put(Id::new(now, Producer::new(u64::from(self.sent % 7)), self.sent));
                self.sent += 1;
            }
            self.pass(Duration::from_secs(1));
        }
    }

    fn put(&self, id: Id) {
        let text = format!("record {} {}\n", self.sent, "x".repeat(self.sent as usize * 37 % 400));
        let mut sides = Vec::new();
        let flags = Sides::default().encode(id.at(), &mut sides);
        let records = Records {
            source: Source::Tcp,
            labels: &Labels::parse("app=web").unwrap(),
            first: id,
            count: 1,
            accepted: id.at(),
            flags,
            sides: &sides,
            text: &[text.as_bytes()],
        };
        self.node(INGEST).queue.append(Durability::Fast, &records, |_| {}).unwrap();
    }

    /// Takes in records until all stores have some, and lets them come to rest: in no queue, and no more fresh.
    pub(crate) fn fill(&mut self) {
        self.send(40);
        self.rest();
    }

    /// Until all is on the shelves, and queues do not show it any more.
    pub(crate) fn rest(&self) {
        let is_empty = || self.node(INGEST).queue.segments().is_empty();
        assert!(self.world.run_until(is_empty, Duration::from_secs(120)), "it is stored");
        self.pass(Duration::from_secs(20));
    }

    /// Asks a node for everything.
    pub(crate) fn ask(&self, number: usize) -> Answer {
        let everything = Request::new(Expr::All, Millis(0), Millis::MAX);
        let mut answer = self.nodes[number].running.as_ref().unwrap().scatter.search(&everything).unwrap();
        self.world.block_on(async {
            let mut records = 0;
            loop {
                let found = answer.next().await;
                if found.is_empty() {
                    return Answer { records, stats: answer.stats() };
                }
                records += found.iter().flat_map(Stretch::records).count();
            }
        })
    }

    /// Every node that lives says that its answer is complete, and it is.
    pub(crate) fn is_complete(&self) {
        for number in self.living() {
            let answer = self.ask(number);
            assert!(!answer.stats.is_partial(), "n{number}: {:?}", answer.stats);
            assert_eq!(answer.records, self.sent as usize, "n{number}");
        }
    }

    /// Every node that lives says that its answer is partial. How many records it has.
    pub(crate) fn is_partial(&self) -> usize {
        let answers = self.living().map(|number| (number, self.ask(number)));
        let records = answers.map(|(number, answer)| {
            assert!(answer.stats.is_partial(), "n{number}: {:?}", answer.stats);
            answer.records
        });
        records.min().unwrap()
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent as usize
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].running.is_some())
    }

    /// Whether all who live take this node for down.
    pub(crate) fn is_down(&self, number: usize) -> bool {
        let down = |of: usize| {
            let members = self.node(of).cluster.members();
            members.iter().any(|member| member.facts.node == id(number) && member.state == State::Down)
        };
        self.living().all(down)
    }

    /// Waits until all who live know that it is down.
    pub(crate) fn goes_down(&self, number: usize) {
        assert!(self.world.run_until(|| self.is_down(number), Duration::from_secs(20)), "n{number} is down");
    }

    /// Which stores this node takes for made good.
    pub(crate) fn made_good(&self, of: usize) -> Vec<usize> {
        let made_good = query::made_good(&self.node(of).cluster.members(), self.copies);
        (0..self.nodes.len()).filter(|number| made_good.contains(&id(*number))).collect()
    }

    /// Waits until all who live take these, and only these, for made good.
    pub(crate) fn until_made_good(&self, want: &[usize]) {
        let all = || self.living().all(|of| self.made_good(of) == want);
        let is_so = self.world.run_until(all, REPAIRED);
        assert!(is_so, "{want:?}: {:?}", self.living().map(|of| self.made_good(of)).collect::<Vec<_>>());
    }

    pub(crate) fn hosts(&self, numbers: &[usize]) -> Vec<&sim::Node> {
        numbers.iter().map(|number| &self.nodes[*number].host).collect()
    }
}

fn id(number: usize) -> Id {
    Id::new(Millis(1_767_225_600_000), Producer::new(1 + number as u64), 0)
}
