//! A simulated cluster of whole nodes: one accepts records, the others store them, and all answer queries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::MemberState;
use bucksaw_env::Env;
use bucksaw_env::sim::{self, PowerCutLoss, World};
use bucksaw_ingest::{Durability, FrameRecords, Queue, Source};
use bucksaw_node::{Config, Environment, Metrics, Node, NodeTasks, OpenStore, Roles};
use bucksaw_query::{self as query, QueryStats, Request, ScanPool};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_segment::{Codec, RowMeta};
use bucksaw_store::{self as store, repair};
use prometheus_client::registry::Registry;

use crate::memory_store::MemoryStore;

/// A store that has been down for this time is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);

/// A lost store is re-replicated within this time: a node is down after at most five seconds and lost ten seconds later, and
/// a pass over few records, with another one for recent records, takes some seconds more.
pub(crate) const REPAIR_TIME_MAX: Duration = Duration::from_secs(60);

/// The ingest node. The others are stores.
pub(crate) const INGEST: usize = 0;

pub(crate) struct WholeCluster {
    pub(crate) world: World,
    pub(crate) nodes: Vec<WholeNode>,
    replication_factor: usize,
    has_memory_stores: bool,
    /// Memory for the index of the segments of stores that are started from now on.
    pub(crate) index_bytes_max: u64,
    sent: u32,
}

pub(crate) struct WholeNode {
    pub(crate) host: sim::Host,
    pub(crate) running: Option<RunningNode>,
}

pub(crate) struct RunningNode {
    pub(crate) node: Node,
    _tasks: NodeTasks,
}

/// What an answer to the question for everything was.
pub(crate) struct QueryOutcome {
    pub(crate) records: usize,
    pub(crate) stats: QueryStats,
}

impl WholeCluster {
    /// A cluster in which nothing is stored yet.
    pub(crate) fn new(seed: u64, stores: usize, copies: usize) -> Self {
        Self::create(seed, stores, copies, false)
    }

    /// The same, with stores in memory.
    pub(crate) fn with_memory_stores(seed: u64, stores: usize) -> Self {
        Self::create(seed, stores, 1, true)
    }

    fn create(seed: u64, stores: usize, copies: usize, has_memory_stores: bool) -> Self {
        let world = World::new(seed);
        let node = |number| WholeNode { host: world.add_host(&format!("n{number}")), running: None };
        let nodes = (0..=stores).map(node).collect();
        let (replication_factor, index_bytes_max) = (copies, u64::MAX);
        let mut cluster = Self { world, nodes, replication_factor, has_memory_stores, index_bytes_max, sent: 0 };
        (0..=stores).for_each(|number| cluster.start(number));
        cluster.run_for(Duration::from_secs(15));
        cluster
    }

    pub(crate) fn run_for(&self, time: Duration) {
        self.world.run_for(time);
    }

    pub(crate) fn start(&mut self, number: usize) {
        let host = &self.nodes[number].host;
        host.restart();
        let roles = Roles { ingest: number == INGEST, store: number != INGEST };
        let mut config = Config::new(id(number), roles, PathBuf::from("/data"));
        config.cluster.join = vec!["n0:7659".to_owned(), "n1:7659".to_owned()];
        config.queue.segment_bytes_max = 4 << 10;
        config.store = store::Config {
            segment_bytes: 32 << 10,
            block_bytes: 4 << 10,
            codec_quick: Codec::ColumnsAlways(3),
            codec_final: Codec::ColumnsAlways(3),
            gather_age: Duration::from_secs(2),
            replication_factor: self.replication_factor,
            replica_group_age: Duration::from_secs(1),
            index_bytes_max: self.index_bytes_max,
            repair: repair::Config {
                lost_after: LOST_AFTER,
                fresh_age_max: Duration::from_secs(15),
                pass_interval: Duration::from_secs(600),
                retry_delay: Duration::from_secs(2),
                ..repair::Config::default()
            },
            ..config.store
        };
        let environment =
            Environment { env: host.env(), tasks: host.tasks(), net: host.net(), pool: ScanPool::inline() };
        let metrics = Metrics::new(&mut Registry::default());
        let node = if self.has_memory_stores {
            let open = |env: &Env, _: &Queue| Ok(OpenStore::Other(Arc::new(MemoryStore::new(env.clone()))));
            Node::open_with(config, environment, metrics, open).unwrap()
        } else {
            Node::open(config, environment, metrics).unwrap()
        };
        let tasks = node.start();
        self.nodes[number].running = Some(RunningNode { node, _tasks: tasks });
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self, number: usize) {
        self.nodes[number].host.kill();
        self.nodes[number].running = None;
    }

    /// The machine and its disk are lost.
    pub(crate) fn destroy(&mut self, number: usize) {
        self.nodes[number].host.cut_power(PowerCutLoss::All);
        self.nodes[number].running = None;
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number].running.as_ref().unwrap().node
    }

    /// Appends some records in each of `seconds` seconds.
    pub(crate) fn send(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let now = Millis(self.nodes[INGEST].host.env().clock.unix_ms());
            for _ in 0..20 {
                self.append(Id::new(now, Producer::new(u64::from(self.sent % 7)), self.sent));
                self.sent += 1;
            }
            self.run_for(Duration::from_secs(1));
        }
    }

    fn append(&self, id: Id) {
        let text = format!("record {} {}\n", self.sent, "x".repeat(self.sent as usize * 37 % 400));
        let mut row_meta = Vec::new();
        let flags = RowMeta::default().encode(id.time(), &mut row_meta);
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &Labels::parse("app=web").unwrap(),
            first_id: id,
            count: 1,
            accepted: id.time(),
            layout_bits: flags,
            row_meta: &row_meta,
            text: &[text.as_bytes()],
        };
        self.node(INGEST).queue.append(Durability::Fast, &records, |_| {}).unwrap();
    }

    /// Takes in records until all stores have some, and lets them come to rest: in no queue, and no more fresh.
    pub(crate) fn fill(&mut self) {
        self.send(40);
        self.run_until_stored();
    }

    /// Runs until all records are stored and committed segments are removed from the queues.
    pub(crate) fn run_until_stored(&self) {
        let is_empty = || self.node(INGEST).queue.uncommitted_segments().is_empty();
        assert!(self.world.run_until(is_empty, Duration::from_secs(120)), "it is stored");
        self.run_for(Duration::from_secs(20));
    }

    /// Queries a node for all records.
    pub(crate) fn query_all(&self, number: usize) -> QueryOutcome {
        let everything = Request::new(Expr::All, Millis(0), Millis::MAX);
        let answers = self.nodes[number].running.as_ref().unwrap().node.answers();
        let records = answers.search(everything).unwrap();
        let (records, stats) = self.world.block_on(records.write_to(Vec::new())).unwrap();
        QueryOutcome { records: records.len(), stats }
    }

    /// Asserts that the answer of each live node is complete and says so.
    pub(crate) fn assert_complete(&self) {
        for number in self.live_nodes() {
            let answer = self.query_all(number);
            assert!(!answer.stats.is_partial(), "n{number}: {:?}", answer.stats);
            assert_eq!(answer.records, self.sent as usize, "n{number}");
        }
    }

    /// Asserts that the answer of each live node is partial. Returns the least number of records in one.
    pub(crate) fn assert_partial(&self) -> usize {
        let answers = self.live_nodes().map(|number| (number, self.query_all(number)));
        let records = answers.map(|(number, answer)| {
            assert!(answer.stats.is_partial(), "n{number}: {:?}", answer.stats);
            answer.records
        });
        records.min().unwrap()
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent as usize
    }

    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].running.is_some())
    }

    /// Whether all who live take this node for down.
    pub(crate) fn is_down(&self, number: usize) -> bool {
        let down = |of: usize| {
            let members = self.node(of).cluster.members();
            members.iter().any(|member| member.facts.node == id(number) && member.state == MemberState::Down)
        };
        self.live_nodes().all(down)
    }

    /// Waits until all live nodes list it as down.
    pub(crate) fn wait_down(&self, number: usize) {
        assert!(self.world.run_until(|| self.is_down(number), Duration::from_secs(20)), "n{number} is down");
    }

    /// The stores that are re-replicated according to this node.
    pub(crate) fn re_replicated(&self, of: usize) -> Vec<usize> {
        let stores = query::re_replicated_stores(&self.node(of).cluster.members(), self.replication_factor);
        (0..self.nodes.len()).filter(|number| stores.contains(&id(*number))).collect()
    }

    /// Waits until exactly these are re-replicated according to all live nodes.
    pub(crate) fn wait_re_replicated(&self, want: &[usize]) {
        let all = || self.live_nodes().all(|of| self.re_replicated(of) == want);
        let is_so = self.world.run_until(all, REPAIR_TIME_MAX);
        assert!(is_so, "{want:?}: {:?}", self.live_nodes().map(|of| self.re_replicated(of)).collect::<Vec<_>>());
    }

    pub(crate) fn hosts(&self, numbers: &[usize]) -> Vec<&sim::Host> {
        numbers.iter().map(|number| &self.nodes[*number].host).collect()
    }
}

fn id(number: usize) -> Id {
    Id::new(Millis(1_767_225_600_000), Producer::new(1 + number as u64), 0)
}
