//! Computes the load level of a node once a second, publishes it, and sets the redirect policy.
//!
//! ```text
//!   load sample ─► level bounds ─► load level ─► facts ─► gossip ─► other nodes
//!                                    │              │
//!                                    ▼              ▼
//!                    refusal quota: may it refuse? rebalancer: redirect budget ─► LoadShedder ─► listeners
//! ```
//! The rebalancer also redirects clients of nodes that are not busy, by the difference of ingest rates.

pub mod level;
pub mod load_sample;
pub mod rebalancer;
pub mod refusal_quota;
mod smoothed_load;

use std::time::Duration;

use bucksaw_cluster::{Cluster, Load, Member};
use bucksaw_ingest::Queue;
use bucksaw_ingest::load_shedder::{LoadShedder, RedirectPolicy, RedirectTarget};
use bucksaw_record::Id;

use level::LoadLevel;
use load_sample::LoadSample;
use rebalancer::{ClusterLoad, Rebalancer};
use refusal_quota::NodeLoad;
use smoothed_load::{SmoothedLoad, smoothed};

/// The published rate moves by this part of the way per second.
const SMOOTHING_DIVISOR: i128 = 4;

/// The settings of load control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Below this ingest rate a node is never busy, whatever the rates of other nodes. Below a
    /// [`BUSY_FRACTION`](rebalancer::BUSY_FRACTION)th of it no clients are redirected.
    pub busy_bytes_per_second: u64,
    /// One in this number of live ingest nodes may refuse clients at once; at least 3.
    pub refusing_one_in: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { busy_bytes_per_second: 16 << 20, refusing_one_in: 3 }
    }
}

/// The load of a node, second by second.
#[derive(Debug, Default)]
pub(crate) struct LoadController {
    config: Config,
    accepted_bytes: u64,
    refused_appends: u64,
    oldest_wait: Duration,
    bytes_per_second: u64,
    level: LoadLevel,
    /// Seconds for which the node has been within the refusal quota.
    may_refuse_seconds: u32,
    smoothed_load: SmoothedLoad,
    rebalancer: Rebalancer,
}

impl LoadController {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Evaluates the last second: sets the redirect policy and budget, and returns the load to publish.
    pub(crate) fn step(&mut self, queue: &Queue, cluster: &Cluster) -> Load {
        let me = cluster.node_id();
        let members = cluster.members();
        let others: Vec<&Member> =
            members.iter().filter(|member| member.facts.node != me && accepts_clients(member)).collect();
        self.update_rate(queue);
        let all = others.iter().map(|member| member.facts.load.bytes_per_second).chain([self.bytes_per_second]);
        let sum = all.map(u128::from).sum::<u128>();
        let mean = u64::try_from(sum / (others.len() as u128 + 1)).unwrap_or(u64::MAX);
        let sample = self.sample(queue, mean).level_bounds(self.config.busy_bytes_per_second);
        let level = self.level.step(sample);
        let shedder = queue.load_shedder();
        let load = Load { bytes_per_second: self.bytes_per_second, connections: shedder.connections(), level };

        let standings = others.iter().map(|member| node_load(member.facts.node, &member.facts.load));
        let standings: Vec<NodeLoad> = standings.chain([node_load(me, &load)]).collect();
        let among = refusal_quota::may_refuse(me, &standings, self.config.refusing_one_in);
        self.may_refuse_seconds = if among { self.may_refuse_seconds.saturating_add(1) } else { 0 };
        let refuses = self.may_refuse_seconds >= refusal_quota::REFUSE_AFTER_SECONDS;
        let loads = others.iter().map(|member| (member.facts.node, &member.facts.load));
        self.smoothed_load.step(loads.clone().chain([(me, &load)]).map(|(node, load)| (node, load.bytes_per_second)));
        let idle = loads.filter(|(_, load)| load.level <= level);
        let least = idle.clone().map(|(_, load)| load.bytes_per_second).min();
        let least_calm = idle.map(|(node, _)| self.smoothed_load.rate(node)).min();
        let own = self.smoothed_load.rate(me);
        let excess = self.bytes_per_second.saturating_sub(mean).min(own.saturating_sub(self.smoothed_load.mean()));
        let lasting = least_calm.map_or(0, |least| own.saturating_sub(least));
        let advice = RedirectPolicy {
            level,
            may_refuse: refuses,
            bytes_per_second: load.bytes_per_second,
            connections: load.connections,
            targets: others.iter().map(|member| redirect_target(member, mean)).collect(),
        };
        shedder.set_policy(advice);
        let distress = (level >= 1)
            .then(|| if level >= 3 && refuses { bytes_per_client(self.bytes_per_second, shedder) } else { 0 });
        let scene = ClusterLoad {
            own: load.bytes_per_second,
            mean,
            least_loaded: least,
            excess,
            smoothed_excess: lasting,
            offer_min: distress,
        };
        if let Some(bytes_per_second) =
            self.rebalancer.step(scene, self.config.busy_bytes_per_second, shedder.is_budget_spent_without_redirect())
        {
            shedder.set_redirect_budget(bytes_per_second);
        }
        load
    }

    fn update_rate(&mut self, queue: &Queue) {
        let accepted = queue.metrics().accepted_bytes();
        let new = accepted.saturating_sub(self.accepted_bytes);
        self.accepted_bytes = accepted;
        self.bytes_per_second = smoothed(self.bytes_per_second, new, SMOOTHING_DIVISOR);
    }

    fn sample(&mut self, queue: &Queue, mean_bytes_per_second: u64) -> LoadSample {
        let refused = queue.metrics().refused();
        let waiting = queue.backlog().oldest_age;
        let sample = LoadSample {
            bytes_per_second: self.bytes_per_second,
            mean_bytes_per_second,
            refused: refused.saturating_sub(self.refused_appends),
            oldest_wait: waiting,
            is_wait_growing: waiting > self.oldest_wait,
            free_bytes: queue.free_bytes(),
            free_bytes_min: queue.free_bytes_min(),
            is_halted: queue.is_halted(),
        };
        (self.refused_appends, self.oldest_wait) = (refused, waiting);
        sample
    }
}

/// The mean client rate, at least 1, so that an overloaded node disconnects at least one client.
fn bytes_per_client(bytes_per_second: u64, shedder: &LoadShedder) -> u64 {
    (bytes_per_second / shedder.redirectable_connections().max(1)).max(1)
}

/// Whether clients may be redirected to a node.
fn accepts_clients(member: &Member) -> bool {
    member.is_live() && member.facts.roles.ingest && !member.facts.draining && !member.facts.left
}

fn node_load(node: Id, load: &Load) -> NodeLoad {
    NodeLoad { node, level: load.level, bytes_per_second: load.bytes_per_second }
}

/// Another node as a redirect target. Its spare capacity is its distance below the mean rate, plus a sixteenth of the mean so
/// that every node has some weight.
fn redirect_target(member: &Member, mean: u64) -> RedirectTarget {
    let clients = &member.facts.clients;
    let spare = mean.saturating_sub(member.facts.load.bytes_per_second).saturating_add(mean / 16 + 1);
    RedirectTarget {
        level: member.facts.load.level,
        bytes_per_second: member.facts.load.bytes_per_second,
        connections: member.facts.load.connections,
        spare_capacity: spare,
        http: clients.http.clone(),
        fast: clients.fast.clone(),
        durable: clients.durable.clone(),
        bulk: clients.bulk.clone(),
    }
}
