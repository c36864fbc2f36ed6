//! What lies between the nodes, each direction of each pair by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::executor::{Executor, WorldState};
use super::host::Host;
use super::network_conditions::NetworkConditions;

/// From one node to another, by their indices.
pub(super) type LinkId = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct LinkTable {
    default_conditions: NetworkConditions,
    conditions: BTreeMap<LinkId, NetworkConditions>,
    cut_links: BTreeSet<LinkId>,
    clogged_until: BTreeMap<LinkId, Duration>,
    names: BTreeMap<String, Vec<SocketAddr>>,
}

impl LinkTable {
    pub(super) fn conditions(&self, way: LinkId) -> &NetworkConditions {
        if way.0 == way.1 {
            &NetworkConditions::LOOPBACK
        } else {
            self.conditions.get(&way).unwrap_or(&self.default_conditions)
        }
    }

    pub(super) fn is_cut(&self, way: LinkId) -> bool {
        self.cut_links.contains(&way)
    }

    pub(super) fn register_host_name(&mut self, name: &str, addresses: Vec<SocketAddr>) {
        self.names.insert(name.to_owned(), addresses);
    }

    pub(super) fn addresses(&self, name: &str) -> Option<&[SocketAddr]> {
        self.names.get(name).map(Vec::as_slice)
    }
}

impl WorldState {
    /// How long something is under way that is sent now.
    pub(super) fn delay(&self, way: LinkId) -> Duration {
        let clogged = self.links.clogged_until.get(&way).copied().unwrap_or_default();
        self.links.conditions(way).delay.sample(&self.rng) + clogged.saturating_sub(self.now)
    }

    /// Whether something arrives that is sent once.
    pub(super) fn is_delivered(&self, way: LinkId) -> bool {
        !self.links.is_cut(way) && !self.rng.with_probability(self.links.conditions(way).loss)
    }
}

/// The network of a simulated world in a test's hands. All is one-way: what is done to one direction leaves the other as it
/// is. The way from a node to itself is always calm.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) executor: Arc<Executor>,
}

impl Network {
    /// Sets the weather between all nodes, also where another was set for a pair.
    pub fn set_conditions(&self, weather: NetworkConditions) {
        let mut state = self.executor.state();
        state.links.default_conditions = weather;
        state.links.conditions.clear();
    }

    /// Sets the weather from one node to another.
    pub fn set_conditions_between(&self, from: &Host, to: &Host, weather: NetworkConditions) {
        self.executor.state().links.conditions.insert((from.index, to.index), weather);
    }

    /// Lets nothing pass any more from any of some nodes to any of others. Datagrams are lost; calls wait until the way is
    /// healed, and new ones fail after two minutes.
    pub fn cut(&self, from: &[&Host], to: &[&Host]) {
        let mut state = self.executor.state();
        for (from, to) in pairs(from, to) {
            state.links.cut_links.insert((from, to));
        }
        drop(state);
        self.executor.notify_changed();
    }

    /// [`Self::cut`] both ways.
    pub fn partition(&self, some: &[&Host], others: &[&Host]) {
        self.cut(some, others);
        self.cut(others, some);
    }

    /// Undoes [`Self::cut`].
    pub fn heal(&self, from: &[&Host], to: &[&Host]) {
        let mut state = self.executor.state();
        for way in pairs(from, to) {
            state.links.cut_links.remove(&way);
        }
        drop(state);
        self.executor.notify_changed();
    }

    /// Undoes all that was cut or clogged. The weather stays.
    pub fn heal_all(&self) {
        let mut state = self.executor.state();
        state.links.cut_links.clear();
        state.links.clogged_until.clear();
        drop(state);
        self.executor.notify_changed();
    }

    /// Holds up for this time what is sent from some nodes to others. Nothing is lost by that.
    pub fn clog(&self, from: &[&Host], to: &[&Host], time: Duration) {
        let mut state = self.executor.state();
        let until = state.now.saturating_add(time);
        for way in pairs(from, to) {
            state.links.clogged_until.insert(way, until);
        }
    }

    /// Makes a host name stand for these nodes, with each port.
    pub fn register_host_name(&self, name: &str, nodes: &[&Host]) {
        let addresses = nodes.iter().map(|node| node.address()).collect();
        self.executor.state().links.register_host_name(name, addresses);
    }
}

fn pairs(from: &[&Host], to: &[&Host]) -> Vec<LinkId> {
    let to = |from: usize| to.iter().map(move |to| (from, to.index));
    from.iter().flat_map(|node| to(node.index)).filter(|(from, to)| from != to).collect()
}
