//! What the floors above see: the conclusions from what foca knows.

use std::sync::Arc;

use super::Actor;
use crate::metrics::ByState;
use crate::table::{Change, Twins};
use crate::{Member, State};

impl Actor {
    /// Draws the conclusions from what foca knows, and shows them.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        for Change { node, address, state } in self.table.settle(&self.gossip.seen(), now) {
            self.unsaved[0] = true;
            match state {
                Some(State::Alive) => tracing::info!(%node, %address, "node is alive"),
                Some(State::Suspect) => tracing::debug!(%node, %address, "node is suspected to be down"),
                Some(State::Down) => tracing::warn!(%node, %address, "node is down"),
                Some(State::Left) => tracing::info!(%node, %address, "node has left"),
                None => tracing::info!(%node, %address, "node is known no more"),
            }
        }
        let twins = self.table.twins(now);
        for (node, Twins { older, newer }) in twins.iter().filter(|(node, _)| !self.twins.contains_key(node)) {
            tracing::error!(%node, %older, %newer, "two live nodes have the same id: the data directory of one is a copy of the other's; stop one and remove its node.json");
        }
        self.twins = twins;
        self.publish();
        self.probe();
    }

    /// Shows all nodes to the floors above.
    pub(super) fn publish(&mut self) {
        let now = self.now();
        let mut members = self.table.members(now);
        let state = if self.own.left { State::Left } else { State::Alive };
        let (node, address) = (self.own.node, self.own.address);
        let twin = self.twins.get(&node).map(|twins| twins.other_than(address));
        let also_at = self.table.both(node).map(|twins| twins.other_than(address));
        let facts = Arc::clone(&self.own);
        members.push(Member { facts, state, since: self.started.wall, twin, also_at, apart: None });
        self.tell_apart(&mut members);
        members.sort_unstable_by_key(|member| member.facts.node);
        for state in State::ALL {
            let count = members.iter().filter(|member| member.state == state).count();
            let label = ByState { state: state.word() };
            self.given.metrics.members.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.given.metrics.twins.set(i64::try_from(self.twins.len()).unwrap_or(i64::MAX));
        self.given.members.send_if_modified(|shown| {
            let changed = **shown != members;
            if changed {
                *shown = Arc::new(members);
            }
            changed
        });
    }
}
