//! Nodes of a simulated world that are members of one cluster and answer queries.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bucksaw_cluster as cluster;
use bucksaw_env::sim::{Host, World};
use bucksaw_ingest::{Durability, FrameRecords, Source};
use bucksaw_node::{self as node, Node, Roles};
use bucksaw_query::{Answers, Engine, QueryStats, Request, ScanPool, Scatter};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Codec, RowMeta};
use bucksaw_store::{self as store, BlockSource as _, PUT, Puller, Replication, Store as _};
use prometheus_client::registry::Registry;

/// The call by which nodes ask what stores hold.
const REPLICAS: &str = "query/replicas";

pub(crate) struct QueryCluster {
    pub(crate) world: World,
    pub(crate) nodes: Vec<QueryNode>,
}

pub(crate) struct QueryNode {
    pub(crate) node: Host,
    pub(crate) engine: Arc<Engine>,
    pub(crate) scatter: Arc<Scatter>,
    pub(crate) answers: Answers,
    pub(crate) cluster: Arc<cluster::Cluster>,
    replication: Replication,
    puller: Puller,
    /// Times that another node has asked what its store holds.
    reports: Arc<AtomicUsize>,
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

impl QueryNode {
    /// Damages the text of the first block of one of its segments, and the parity of that block.
    pub(crate) fn damage_block(&self, segment: usize) {
        let segment = Arc::clone(&self.replication.store.segments()[segment]);
        let block = &segment.footer().blocks[0];
        let bytes = block.offset + block.rows_bytes() + 9..block.offset + block.packed_bytes() + 1;
        assert!(self.node.fs().corrupt(segment.reader().path(), bytes));
    }

    /// Removes all of its stored records when it is called.
    pub(crate) fn loss_of_all(&self) -> impl FnOnce() + Send + 'static {
        let store = Arc::clone(&self.replication.store);
        move || store.segments().iter().for_each(|segment| store.withdraw(segment))
    }
}

impl QueryCluster {
    /// `count` nodes that are members of one cluster with replication factor 2.
    pub(crate) fn joined(seed: u64, count: usize) -> Self {
        let mut cluster = Self { world: World::new(seed), nodes: Vec::new() };
        (0..count).for_each(|_| cluster.start());
        let all_alive = |cluster: &Self| {
            cluster.nodes.iter().all(|node| {
                let members = node.cluster.members();
                members.len() == count && members.iter().all(|member| member.state == cluster::MemberState::Alive)
            })
        };
        assert!(cluster.world.run_until(|| all_alive(&cluster), seconds(60)), "the nodes join within a minute");
        cluster.world.run_for(seconds(5));
        cluster
    }

    /// Starts one more node, which joins the first one. It runs no tasks, so records stay where a test puts them.
    pub(crate) fn start(&mut self) {
        self.start_with(bucksaw_query::Config { period_bytes: 64 << 10, ..bucksaw_query::Config::default() });
    }

    /// The same with these settings of queries.
    pub(crate) fn start_with(&mut self, query: bucksaw_query::Config) {
        let number = self.nodes.len();
        let host = self.world.add_host(&format!("n{number}"));
        let (env, dir) = (host.env(), PathBuf::from("/data"));
        env.fs.create_dir_all(&dir).unwrap();
        let id = Id::new(Millis(1_000 + number as u64), Producer::new(number as u64), 0);
        let mut config = node::Config::new(id, Roles { ingest: true, store: true }, dir);
        config.cluster.join = vec!["n0:7659".to_owned()];
        config.has_other_seeds = number > 0;
        config.queue.segment_bytes_max = 4_000;
        config.query = query;
        // The records have times long past.
        let small = store::Config { retention_age: None, segment_bytes: 8_000, block_bytes: 2_000, ..config.store };
        let columns = Codec::ColumnsAlways(3);
        config.store = store::Config { replication_factor: 2, codec_quick: columns, codec_final: columns, ..small };
        let environment = node::Environment { env, tasks: host.tasks(), net: host.net(), pool: ScanPool::inline() };
        let metrics = node::Metrics::new(&mut Registry::default());
        let node = Node::open(config, environment, metrics).unwrap();
        let answers = node.answers();
        let Node { queue, engine, scatter, query_server, cluster, store_context, replication, .. } = node;
        let (puller, replication) = (Puller::new(store_context, Some(queue)), replication.unwrap());
        let receiver = replication.clone();
        query_server.register(&cluster.router());
        let reports = Arc::new(AtomicUsize::new(0));
        let (server, counted) = (Arc::clone(&query_server), Arc::clone(&reports));
        cluster.router().add(REPLICAS, move |body| {
            counted.fetch_add(1, Ordering::SeqCst);
            server.serve(REPLICAS, body)
        });
        cluster.router().add(PUT, move |body| {
            let receiver = receiver.clone();
            async move { receiver.answer_put(body).await }
        });
        self.nodes.push(QueryNode { node: host, engine, scatter, answers, cluster, replication, puller, reports });
    }

    /// Times that nodes have asked others what they hold.
    pub(crate) fn reports(&self) -> usize {
        self.nodes.iter().map(|node| node.reports.load(Ordering::SeqCst)).sum()
    }

    pub(crate) fn put(&self, nodes: &[usize], number: u64, line: &str) {
        self.put_in("app=web", nodes, number, line);
    }

    /// Appends a record of the stream with these labels to the queues of these nodes.
    pub(crate) fn put_in(&self, labels: &str, nodes: &[usize], number: u64, line: &str) {
        let labels = Labels::parse(labels).unwrap();
        for node in nodes {
            let engine = &self.nodes[*node].engine;
            let (id, mut row_meta) = (id(number), Vec::new());
            let layout_bits = RowMeta::default().encode(id.time(), &mut row_meta);
            let records = FrameRecords {
                source: Source::Tcp,
                labels: &labels,
                first_id: id,
                count: 1,
                accepted: id.time(),
                layout_bits,
                row_meta: &row_meta,
                text: &[line.as_bytes(), b"\n"],
            };
            engine.queue().append(Durability::Fast, &records, |_| {}).unwrap();
        }
    }

    /// Moves all records from each node's queue to its store, as columns.
    pub(crate) fn move_to_store(&self) {
        self.world.run_for(seconds(3));
        for QueryNode { engine, replication, puller, .. } in &self.nodes {
            engine.queue().tick();
            while self.world.block_on(puller.drain()) > 0 {}
            assert!(engine.queue().uncommitted_segments().is_empty());
            let segments = replication.store.segments();
            let blocks = segments
                .iter()
                .flat_map(|segment| (0..segment.footer().blocks.len()).map(|block| segment.open(block).unwrap()));
            assert!(blocks.clone().count() > 1);
            for block in blocks {
                assert!(matches!(block, SearchableBlock::Columns(_)), "a block is not columnar");
            }
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

    /// All ids and the stats of an answer.
    pub(crate) fn search_all(&self, node: usize, request: &Request) -> (Vec<Id>, QueryStats) {
        let records = self.nodes[node].answers.search(request.clone()).unwrap();
        let (records, stats) = self.world.block_on(records.write_to(Vec::new())).unwrap();
        (records.iter().map(|record| record.id).collect(), stats)
    }

    pub(crate) fn count(&self, node: usize, request: &Request) -> (u64, QueryStats) {
        self.world.block_on(self.nodes[node].answers.count(request.clone(), ())).unwrap()
    }
}
