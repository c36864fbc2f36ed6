//! Nodes whose version this one does not work with: members that are no neighbours, and strangers. Told in the log once, in a
//! metric, and to the floors above.

use std::collections::BTreeMap;

use super::Actor;
use crate::{IncompatiblePeer, Member, Version};

impl Actor {
    /// A node of another major version is there, and is no member.
    pub(super) fn note_incompatible_peer(&mut self, stranger: IncompatiblePeer) {
        if self.incompatible_peers.observe(stranger, self.now().uptime) {
            let IncompatiblePeer { address, protocol } = stranger;
            let own = Version::OWN.major;
            tracing::warn!(?address, protocol, own, "incompatible protocol version: node is not a member");
        }
    }

    /// Finds out who this node does not work with, and tells it when that is news.
    pub(super) fn update_version_skew(&mut self, members: &mut [Member]) {
        let mut apart = BTreeMap::new();
        for member in members.iter_mut().filter(|member| member.facts.node != self.local_facts.node) {
            // Until it has told of itself nothing is known of its version.
            member.version_skew =
                self.local_facts.version_skew_with(&member.facts).filter(|_| member.facts.version > 0);
            if let Some(words) = member.version_skew.clone().filter(|_| member.is_live()) {
                let (node, address) = (member.facts.node, member.facts.address);
                if self.version_skews.get(&node) != Some(&words) {
                    tracing::warn!(%node, %address, what = %words, "version skew with a member");
                }
                apart.insert(node, words);
            }
        }
        for node in self.version_skews.keys().filter(|node| !apart.contains_key(node)) {
            tracing::info!(%node, "version skew resolved");
        }
        self.version_skews = apart;
        let strangers = self.incompatible_peers.list();
        let metric = self.version_skews.len() + strangers.len();
        self.context.metrics.version_skewed.set(i64::try_from(metric).unwrap_or(i64::MAX));
        self.context
            .incompatible_peers
            .send_if_modified(|shown| std::mem::replace(shown, strangers.clone()) != strangers);
    }
}
