//! Updates and publishes the members.

use std::sync::Arc;

use bucksaw_record::Id;

use super::Actor;
use crate::table::{DuplicateId, PresenceChange};
use crate::{Member, MemberState};

impl Actor {
    /// Applies the live members of foca, logs changes and publishes the members.
    pub(super) fn update_liveness(&mut self) {
        let now = self.now();
        for PresenceChange { node, address, state } in self.table.update_liveness(&self.gossip.live_members(), now) {
            self.unsaved[0] = true;
            match state {
                Some(MemberState::Alive) => tracing::info!(%node, %address, "node is alive"),
                Some(MemberState::Suspect) => tracing::debug!(%node, %address, "node is suspect"),
                Some(MemberState::Down) => tracing::warn!(%node, %address, "node is down"),
                Some(MemberState::Left) => tracing::info!(%node, %address, "node has left"),
                None => tracing::info!(%node, %address, "node was removed from the member table"),
            }
        }
        let duplicates = self.table.duplicates(now);
        let is_new = |(node, _): &(&Id, &DuplicateId)| !self.duplicates.contains_key(node);
        for (node, DuplicateId { older, newer }) in duplicates.iter().filter(is_new) {
            tracing::error!(%node, %older, %newer, "duplicate node id: one data directory is a copy of the other; stop one node and remove its node.json");
        }
        self.duplicates = duplicates;
        self.publish();
        self.probe_claimants();
    }

    /// Publishes all members.
    pub(super) fn publish(&mut self) {
        let now = self.now();
        let mut members = self.table.members(now);
        let state = if self.local_facts.left { MemberState::Left } else { MemberState::Alive };
        let (node, address) = (self.local_facts.node, self.local_facts.address);
        members.push(Member {
            facts: Arc::clone(&self.local_facts),
            state,
            since: self.started.wall,
            duplicate_at: self.duplicates.get(&node).map(|duplicate| duplicate.other_address(address)),
            duplicate_suspected_at: self.table.duplicate(node).map(|duplicate| duplicate.other_address(address)),
            version_skew: None,
        });
        self.update_version_skew(&mut members);
        members.sort_unstable_by_key(|member| member.facts.node);
        for state in MemberState::ALL {
            let count = members.iter().filter(|member| member.state == state).count();
            let label = [("state", state.name())];
            self.context.metrics.members.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.context.metrics.duplicate_ids.set(i64::try_from(self.duplicates.len()).unwrap_or(i64::MAX));
        self.context.members.send_if_modified(|shown| {
            let changed = **shown != members;
            if changed {
                *shown = Arc::new(members);
            }
            changed
        });
    }
}
