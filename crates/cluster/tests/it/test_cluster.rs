//! Nodes of a simulated world that are members of one cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::{Cluster, Config, Facts, Member, MemberState, Metrics, Router};
use bucksaw_env::sim::{Host, World};
use bucksaw_record::{Id, Millis, Producer};
use prometheus_client::registry::Registry;

/// A world with nodes named `n0`, `n1` and so on.
pub(crate) struct GossipCluster {
    pub(crate) world: World,
    pub(crate) nodes: Vec<GossipNode>,
}

/// A node, and its cluster while it runs.
pub(crate) struct GossipNode {
    pub(crate) node: Host,
    pub(crate) id: Id,
    pub(crate) join: Vec<String>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    registry: Registry,
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn id(number: usize) -> Id {
    Id::new(Millis(1_000 + number as u64), Producer::new(number as u64), 0)
}

impl GossipCluster {
    /// A world with this number of nodes, none of them started. The seed of all is `n0`.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut cluster = Self { world: World::new(seed), nodes: Vec::new() };
        for number in 0..count {
            cluster.add(id(number));
        }
        cluster
    }

    /// Adds a node.
    pub(crate) fn add(&mut self, id: Id) {
        let node = self.world.add_host(&format!("n{}", self.nodes.len()));
        // No process listens at its address before it starts.
        node.kill();
        let join = vec!["n0:7659".to_owned()];
        self.nodes.push(GossipNode { node, id, join, cluster: None, registry: Registry::default() });
    }

    /// A cluster whose nodes all run and know each other.
    pub(crate) fn settled(seed: u64, count: usize) -> Self {
        let mut cluster = Self::new(seed, count);
        (0..count).for_each(|number| cluster.start(number));
        assert!(
            cluster.run_until(30, GossipCluster::all_alive),
            "they did not find each other: {}",
            cluster.describe_views()
        );
        // Until no node has anything to gossip.
        cluster.world.run_for(seconds(10));
        cluster
    }

    pub(crate) fn start(&mut self, number: usize) {
        let change = |_: &mut Config| {};
        self.start_with(number, change);
    }

    pub(crate) fn start_with(&mut self, number: usize, change: impl FnOnce(&mut Config)) {
        let GossipNode { node, id, join, cluster, registry } = &mut self.nodes[number];
        node.restart();
        let dir = PathBuf::from("/data");
        node.env().fs.create_dir_all(&dir).unwrap();
        let mut config = Config::new(dir);
        config.join = join.clone();
        change(&mut config);
        *registry = Registry::default();
        let metrics = Metrics::new(registry);
        let (facts, router) = (Facts::new(*id), Router::default());
        let started = Cluster::start(config, node.env(), node.tasks(), node.net(), facts, router, metrics);
        *cluster = Some(started.unwrap());
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.nodes[number].node.kill();
        self.nodes[number].cluster = None;
    }

    pub(crate) fn cluster(&self, number: usize) -> &Arc<Cluster> {
        self.nodes[number].cluster.as_ref().unwrap()
    }

    /// One node's view of another.
    pub(crate) fn member(&self, number: usize, other: usize) -> Option<Member> {
        let id = self.nodes[other].id;
        self.cluster(number).members().iter().find(|member| member.facts.node == id).cloned()
    }

    pub(crate) fn state(&self, number: usize, other: usize) -> Option<MemberState> {
        self.member(number, other).map(|member| member.state)
    }

    /// The nodes that run.
    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.nodes.len()).filter(|number| self.nodes[*number].cluster.is_some())
    }

    /// Whether this node has this state for all nodes that run.
    pub(crate) fn all_see(&self, other: usize, state: Option<MemberState>) -> bool {
        self.live_nodes().filter(|number| *number != other).all(|number| self.state(number, other) == state)
    }

    /// Whether all nodes that run are alive for each other.
    pub(crate) fn all_alive(&self) -> bool {
        self.live_nodes().all(|other| self.all_see(other, Some(MemberState::Alive)))
    }

    /// Runs until the condition holds, which is checked twenty times a second; returns whether it did within `at_most` seconds.
    pub(crate) fn run_until(&self, at_most: u64, is_so: impl Fn(&Self) -> bool) -> bool {
        let end = self.world.now() + seconds(at_most);
        while !is_so(self) {
            if self.world.now() >= end {
                return false;
            }
            self.world.run_for(Duration::from_millis(50));
        }
        true
    }

    /// Each node's view of each node.
    pub(crate) fn describe_views(&self) -> String {
        let row = |number: usize| {
            let word = |other| self.state(number, other).map_or("-", MemberState::name);
            let words: Vec<&str> = (0..self.nodes.len()).map(word).collect();
            format!("\n  n{number}: {}", words.join(" "))
        };
        self.live_nodes().map(row).collect()
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, number: usize, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.nodes[number].registry).unwrap();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("there is no metric {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) fn nodes(&self, numbers: &[usize]) -> Vec<&Host> {
        numbers.iter().map(|number| &self.nodes[*number].node).collect()
    }
}
