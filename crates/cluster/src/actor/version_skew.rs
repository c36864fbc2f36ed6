//! Version skew: members of incompatible versions, and incompatible peers. Reported in the log, a metric and the members.

use std::collections::BTreeMap;

use super::Actor;
use crate::{ClusterVersion, IncompatiblePeer, Member};

impl Actor {
    /// A packet of an incompatible peer has arrived.
    pub(super) fn note_incompatible_peer(&mut self, peer: IncompatiblePeer) {
        if self.incompatible_peers.observe(peer, self.now().uptime) {
            let IncompatiblePeer { address, protocol } = peer;
            let own = ClusterVersion::OWN.major;
            tracing::warn!(?address, protocol, own, "incompatible protocol version: node is not a member");
        }
    }

    /// Updates the version skew of all members, and logs changes.
    pub(super) fn update_version_skew(&mut self, members: &mut [Member]) {
        let mut skews = BTreeMap::new();
        for member in members.iter_mut().filter(|member| member.facts.node != self.local_facts.node) {
            // The version is unknown before the first facts.
            member.version_skew =
                self.local_facts.version_skew_with(&member.facts).filter(|_| member.facts.version > 0);
            if let Some(words) = member.version_skew.clone().filter(|_| member.is_live()) {
                let (node, address) = (member.facts.node, member.facts.address);
                if self.version_skews.get(&node) != Some(&words) {
                    tracing::warn!(%node, %address, what = %words, "version skew with a member");
                }
                skews.insert(node, words);
            }
        }
        for node in self.version_skews.keys().filter(|node| !skews.contains_key(node)) {
            tracing::info!(%node, "version skew resolved");
        }
        self.version_skews = skews;
        let peers = self.incompatible_peers.list();
        let count = self.version_skews.len() + peers.len();
        self.context.metrics.version_skewed_nodes.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.context.incompatible_peers.send_if_modified(|shown| std::mem::replace(shown, peers.clone()) != peers);
    }
}
