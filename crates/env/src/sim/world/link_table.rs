//! The state of all links: conditions, cuts and clogs of each direction between two hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::network_conditions::NetworkConditions;
use crate::sim::Entropy;

/// The indices of the sending and the receiving host.
pub(super) type LinkId = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct LinkTable {
    pub(super) default_conditions: NetworkConditions,
    pub(super) conditions: BTreeMap<LinkId, NetworkConditions>,
    pub(super) cut_links: BTreeSet<LinkId>,
    pub(super) clogged_until: BTreeMap<LinkId, Duration>,
    names: BTreeMap<String, Vec<SocketAddr>>,
}

impl LinkTable {
    pub(super) fn conditions(&self, link: LinkId) -> &NetworkConditions {
        if link.0 == link.1 {
            &NetworkConditions::LOOPBACK
        } else {
            self.conditions.get(&link).unwrap_or(&self.default_conditions)
        }
    }

    pub(super) fn is_cut(&self, link: LinkId) -> bool {
        self.cut_links.contains(&link)
    }

    /// The delay of a packet sent at `now`.
    pub(super) fn delay(&self, link: LinkId, now: Duration, rng: &Entropy) -> Duration {
        let clogged = self.clogged_until.get(&link).copied().unwrap_or_default();
        self.conditions(link).delay.sample(rng) + clogged.saturating_sub(now)
    }

    /// Whether a packet sent once arrives.
    pub(super) fn is_delivered(&self, link: LinkId, rng: &Entropy) -> bool {
        !self.is_cut(link) && !rng.with_probability(self.conditions(link).loss)
    }

    pub(super) fn register_host_name(&mut self, name: &str, addresses: Vec<SocketAddr>) {
        self.names.insert(name.to_owned(), addresses);
    }

    pub(super) fn addresses(&self, name: &str) -> Option<&[SocketAddr]> {
        self.names.get(name).map(Vec::as_slice)
    }
}
