//! What lies between the nodes, each direction of each pair by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::executor::{Shared, State};
use super::node::Node;
use super::weather::Weather;

/// From one node to another, by their indices.
pub(super) type Way = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct Links {
    usual: Weather,
    weather: BTreeMap<Way, Weather>,
    cut: BTreeSet<Way>,
    clogged_until: BTreeMap<Way, Duration>,
    names: BTreeMap<String, Vec<SocketAddr>>,
}

impl Links {
    pub(super) fn weather(&self, way: Way) -> &Weather {
        if way.0 == way.1 { &Weather::INSIDE } else { self.weather.get(&way).unwrap_or(&self.usual) }
    }

    pub(super) fn is_cut(&self, way: Way) -> bool {
        self.cut.contains(&way)
    }

    pub(super) fn name(&mut self, name: &str, addresses: Vec<SocketAddr>) {
        self.names.insert(name.to_owned(), addresses);
    }

    pub(super) fn addresses(&self, name: &str) -> Option<&[SocketAddr]> {
        self.names.get(name).map(Vec::as_slice)
    }
}

impl State {
    /// How long something is under way that is sent now.
    pub(super) fn delay(&self, way: Way) -> Duration {
        let clogged = self.links.clogged_until.get(&way).copied().unwrap_or_default();
        self.links.weather(way).delay.draw(&self.dice) + clogged.saturating_sub(self.now)
    }

    /// Whether something arrives that is sent once.
    pub(super) fn passes(&self, way: Way) -> bool {
        !self.links.is_cut(way) && !self.dice.chance(self.links.weather(way).loss)
    }
}

/// The network of a simulated world in a test's hands. All is one-way: what is done to one direction leaves the other as it
/// is. The way from a node to itself is always calm.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) shared: Arc<Shared>,
}

impl Network {
    /// Sets the weather between all nodes, also where another was set for a pair.
    pub fn set_weather(&self, weather: Weather) {
        let mut state = self.shared.state();
        state.links.usual = weather;
        state.links.weather.clear();
    }

    /// Sets the weather from one node to another.
    pub fn set_weather_between(&self, from: &Node, to: &Node, weather: Weather) {
        self.shared.state().links.weather.insert((from.index, to.index), weather);
    }

    /// Lets nothing pass any more from any of some nodes to any of others. Datagrams are lost; calls wait until the way is
    /// healed, and new ones fail after two minutes.
    pub fn cut(&self, from: &[&Node], to: &[&Node]) {
        let mut state = self.shared.state();
        for (from, to) in pairs(from, to) {
            state.links.cut.insert((from, to));
        }
        drop(state);
        self.shared.changed();
    }

    /// [`Self::cut`] both ways.
    pub fn part(&self, some: &[&Node], others: &[&Node]) {
        self.cut(some, others);
        self.cut(others, some);
    }

    /// Undoes [`Self::cut`].
    pub fn heal(&self, from: &[&Node], to: &[&Node]) {
        let mut state = self.shared.state();
        for way in pairs(from, to) {
            state.links.cut.remove(&way);
        }
        drop(state);
        self.shared.changed();
    }

    /// Undoes all that was cut or clogged. The weather stays.
    pub fn heal_all(&self) {
        let mut state = self.shared.state();
        state.links.cut.clear();
        state.links.clogged_until.clear();
        drop(state);
        self.shared.changed();
    }

    /// Holds up for this time what is sent from some nodes to others. Nothing is lost by that.
    pub fn clog(&self, from: &[&Node], to: &[&Node], time: Duration) {
        let mut state = self.shared.state();
        let until = state.now.saturating_add(time);
        for way in pairs(from, to) {
            state.links.clogged_until.insert(way, until);
        }
    }

    /// Makes a host name stand for these nodes, with each port.
    pub fn name(&self, name: &str, nodes: &[&Node]) {
        let addresses = nodes.iter().map(|node| node.address()).collect();
        self.shared.state().links.name(name, addresses);
    }
}

fn pairs(from: &[&Node], to: &[&Node]) -> Vec<Way> {
    let to = |from: usize| to.iter().map(move |to| (from, to.index));
    from.iter().flat_map(|node| to(node.index)).filter(|(from, to)| from != to).collect()
}
