//! The network as a test sees it.

use std::sync::Arc;
use std::time::Duration;

use super::executor::Executor;
use super::host::Host;
use super::link_table::LinkId;
use super::network_conditions::NetworkConditions;

/// The network of a simulated world. Conditions and faults affect one direction between two hosts; the loopback of a host is
/// always healthy.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) executor: Arc<Executor>,
}

impl Network {
    /// Sets the conditions of all links, also of those that have their own.
    pub fn set_conditions(&self, conditions: NetworkConditions) {
        let mut state = self.executor.state();
        state.links.default_conditions = conditions;
        state.links.conditions.clear();
    }

    /// Sets the conditions from one host to another.
    pub fn set_conditions_between(&self, from: &Host, to: &Host, conditions: NetworkConditions) {
        self.executor.state().links.conditions.insert((from.index, to.index), conditions);
    }

    /// Cuts the links from each of `from` to each of `to`. Datagrams are lost; calls wait until the link is healed, and new
    /// calls fail after two minutes.
    pub fn cut(&self, from: &[&Host], to: &[&Host]) {
        let mut state = self.executor.state();
        state.links.cut_links.extend(pairs(from, to));
        drop(state);
        self.executor.notify_changed();
    }

    /// [`Self::cut`] in both directions.
    pub fn partition(&self, left: &[&Host], right: &[&Host]) {
        self.cut(left, right);
        self.cut(right, left);
    }

    /// Undoes [`Self::cut`].
    pub fn heal(&self, from: &[&Host], to: &[&Host]) {
        let mut state = self.executor.state();
        for link in pairs(from, to) {
            state.links.cut_links.remove(&link);
        }
        drop(state);
        self.executor.notify_changed();
    }

    /// Undoes all cuts and clogs. Conditions stay.
    pub fn heal_all(&self) {
        let mut state = self.executor.state();
        state.links.cut_links.clear();
        state.links.clogged_until.clear();
        drop(state);
        self.executor.notify_changed();
    }

    /// Delays packets from `from` to `to` until `time` has passed, without loss.
    pub fn clog(&self, from: &[&Host], to: &[&Host], time: Duration) {
        let mut state = self.executor.state();
        let until = state.now.saturating_add(time);
        for link in pairs(from, to) {
            state.links.clogged_until.insert(link, until);
        }
    }

    /// Makes `name` resolve to the addresses of these hosts.
    pub fn register_host_name(&self, name: &str, hosts: &[&Host]) {
        let addresses = hosts.iter().map(|host| host.address()).collect();
        self.executor.state().links.register_host_name(name, addresses);
    }
}

fn pairs(from: &[&Host], to: &[&Host]) -> Vec<LinkId> {
    let links = from.iter().flat_map(|from| to.iter().map(|to| (from.index, to.index)));
    links.filter(|(from, to)| from != to).collect()
}
