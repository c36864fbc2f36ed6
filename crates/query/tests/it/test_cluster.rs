//! Nodes of a simulated world that are members of one cluster and answer questions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster as cluster;
use bucksaw_env::sim::{Host, World};
use bucksaw_ingest::{self as ingest, Durability, FrameRecords, Queue, Source};
use bucksaw_query::{
    BatchSlice, Config, Engine, GossipPeers, Metrics, QueryServer, QueryStats, ReplyTimeouts, Request, ScanPool,
    Scatter,
};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_segment::RowMeta;
use bucksaw_store::{self as store, SegmentStore};
use prometheus_client::registry::Registry;

pub(crate) struct TestCluster {
    pub(crate) world: World,
    pub(crate) nodes: Vec<TestNode>,
}

pub(crate) struct TestNode {
    pub(crate) node: Host,
    pub(crate) engine: Arc<Engine>,
    pub(crate) scatter: Arc<Scatter>,
    pub(crate) cluster: Arc<cluster::Cluster>,
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn id(number: u64) -> Id {
    Id::new(Millis(1_700_000_000_000 + number), Producer::new(7), number as u32)
}

pub(crate) fn request_all() -> Request {
    Request::new(Expr::All, Millis(0), Millis::MAX)
}

impl TestCluster {
    /// A world with so many nodes that know each other and keep two copies of each record.
    pub(crate) fn joined(seed: u64, count: usize) -> Self {
        let mut town = Self { world: World::new(seed), nodes: Vec::new() };
        (0..count).for_each(|_| town.start());
        let known = |town: &Self| {
            town.nodes.iter().all(|one| {
                let members = one.cluster.members();
                members.len() == count && members.iter().all(|member| member.state == cluster::MemberState::Alive)
            })
        };
        assert!(town.world.run_until(|| known(&town), seconds(60)), "they did not find each other");
        town.world.run_for(seconds(5));
        town
    }

    /// Starts one more node, which joins the first one.
    pub(crate) fn start(&mut self) {
        let number = self.nodes.len();
        let node = self.world.add_host(&format!("n{number}"));
        let env = node.env();
        let mut registry = Registry::default();
        let dir = PathBuf::from("/data");
        env.fs.create_dir_all(&dir).unwrap();
        let small = ingest::Config { segment_bytes_max: 4_000, ..ingest::Config::default() };
        let metrics = ingest::Metrics::new(&mut registry);
        let (queue, _) = Queue::open(env.clone(), Path::new("/data/queue"), small, metrics).unwrap();
        // Its records are of a time of their own, long past.
        let store = store::Config { retention_age: None, ..store::Config::default() };
        let small = store::Config { segment_bytes: 8_000, block_bytes: 2_000, ..store };
        let metrics = store::Metrics::new(&mut registry);
        let store = SegmentStore::open(env.clone(), Path::new("/data/store"), small, metrics).unwrap();
        let metrics = Metrics::new(&mut registry);
        let (queue, store) = (Arc::new(queue), Arc::new(store));
        let engine = Engine::new(queue, store, ScanPool::inline(), env.clone(), Config::default(), metrics);
        let engine = Arc::new(engine);
        let mut config = cluster::Config::new(dir);
        config.join = vec!["n0:7659".to_owned()];
        let mut facts = cluster::Facts::new(Id::new(Millis(1_000 + number as u64), Producer::new(number as u64), 0));
        facts.roles = cluster::Roles { ingest: true, store: true };
        let router = cluster::Router::new();
        let metrics = cluster::Metrics::new(&mut registry);
        let cluster =
            cluster::Cluster::start(config, env.clone(), node.tasks(), node.net(), facts, router, metrics).unwrap();
        let gossiped = GossipPeers::new(Arc::clone(&cluster), Arc::clone(&env.clock), 2);
        let gossiped = if number > 0 { gossiped.with_join_targets() } else { gossiped };
        let server = QueryServer::new(Arc::clone(&engine), node.tasks(), Arc::new(gossiped));
        server.register(&cluster.router());
        let scatter = Scatter::new(server, ReplyTimeouts::default(), None);
        self.nodes.push(TestNode { node, engine, scatter, cluster });
    }

    pub(crate) fn put(&self, nodes: &[usize], number: u64, line: &str) {
        let labels = Labels::parse("app=web").unwrap();
        for node in nodes {
            let engine = &self.nodes[*node].engine;
            let (id, mut sides) = (id(number), Vec::new());
            let flags = RowMeta::default().encode(id.time(), &mut sides);
            let records = FrameRecords {
                source: Source::Tcp,
                labels: &labels,
                first_id: id,
                count: 1,
                accepted: id.time(),
                layout_bits: flags,
                row_meta: &sides,
                text: &[line.as_bytes(), b"\n"],
            };
            engine.queue().append(Durability::Fast, &records, |_| {}).unwrap();
        }
    }

    /// Records with these numbers, each on two nodes.
    pub(crate) fn fill(&self, numbers: std::ops::Range<u64>, bytes: usize) {
        let count = self.nodes.len();
        for number in numbers {
            let first = number as usize % count;
            self.put(&[first, (first + 1) % count], number, &format!("line {number} {}", "x".repeat(bytes)));
        }
    }

    /// The whole answer that a node gives.
    pub(crate) fn search_all(&self, node: usize, request: &Request) -> (Vec<Id>, QueryStats) {
        let mut answer = self.nodes[node].scatter.search(request).unwrap();
        self.world.block_on(async {
            let mut ids = Vec::new();
            loop {
                let records = answer.next().await;
                if records.is_empty() {
                    return (ids, answer.stats());
                }
                ids.extend(records.iter().flat_map(BatchSlice::records).map(|record| record.id));
            }
        })
    }

    pub(crate) fn count(&self, node: usize, request: &Request) -> (u64, QueryStats) {
        self.world.block_on(self.nodes[node].scatter.count(request)).unwrap()
    }
}
