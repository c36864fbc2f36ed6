//! The facts of this node, under an incarnation that other nodes accept.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_record::{Id, Millis, Producer};

use super::Actor;
use crate::Facts;
use crate::entry::{Entry, LiveIdentity};
use crate::identity::Identity;

/// Minimum interval between two incarnations.
const INCARNATION_PERIOD: Duration = Duration::from_secs(1);

/// Minimum interval between two publications of own facts.
const FACTS_PERIOD: Duration = Duration::from_secs(1);

impl Actor {
    /// Publishes changed facts, at most once per [`FACTS_PERIOD`].
    pub(super) fn refresh_local_facts(&mut self) {
        let time = self.now().uptime;
        if self.facts_sent_at.is_some_and(|sent| time.saturating_sub(sent) < FACTS_PERIOD) {
            return;
        }
        let current = &self.local_facts;
        let wanted = Facts {
            node: current.node,
            incarnation: current.incarnation,
            version: current.version,
            address: current.address,
            protocol: current.protocol,
            protocol_minor: current.protocol_minor,
            left: current.left,
            ..self.context.facts.borrow().clone()
        };
        if wanted == **current {
            return;
        }
        if !wanted.is_valid() {
            if !std::mem::replace(&mut self.is_invalid_facts_logged, true) {
                tracing::error!("node facts exceed their limits and are not published");
            }
            return;
        }
        self.local_facts = Arc::new(wanted);
        self.publish_local_facts();
    }

    /// Publishes the facts of this node with the next version.
    pub(super) fn publish_local_facts(&mut self) {
        Arc::make_mut(&mut self.local_facts).version += 1;
        self.facts_sent_at = Some(self.now().uptime);
        self.unsaved[1] = true;
        let own = Arc::clone(&self.local_facts);
        self.context.facts.send_if_modified(|facts| {
            (facts.incarnation, facts.version, facts.address) = (own.incarnation, own.version, own.address);
            (facts.protocol, facts.protocol_minor, facts.left) = (own.protocol, own.protocol_minor, own.left);
            // The change is this task's own, so it must not be notified.
            false
        });
        self.broadcast(&self.local_entry());
        self.publish();
    }

    pub(super) fn local_entry(&self) -> Entry {
        let me = self.gossip.me();
        let live =
            (!self.local_facts.left).then_some(LiveIdentity { incarnation: me.incarnation, address: me.address });
        Entry { facts: Facts::clone(&self.local_facts), departure: None, live, bootstrapping: false }
    }

    /// Raises the incarnation above `last`: another node at this address, or this node with a clock that was ahead, has used a
    /// later one, which other nodes would prefer.
    pub(super) fn raise_incarnation(&mut self, last: Id) {
        let time = self.now().uptime;
        if self.local_facts.left
            || self.incarnation_raised_at.is_some_and(|at| time.saturating_sub(at) < INCARNATION_PERIOD)
        {
            return;
        }
        let incarnation = incarnation_after(last, &self.context.env);
        if incarnation <= last {
            return;
        }
        tracing::info!(%last, %incarnation, "a later incarnation is known at this address; raising the local incarnation");
        self.incarnation_raised_at = Some(time);
        Arc::make_mut(&mut self.local_facts).incarnation = incarnation;
        self.unsaved[0] = true;
        self.gossip.change_identity(Identity { incarnation, ..self.gossip.me() });
        self.publish_local_facts();
    }
}

/// A new incarnation, at the current time but above `last`.
pub(super) fn incarnation_after(last: Id, env: &Env) -> Id {
    let at = if last == Id::MIN { Millis(0) } else { Millis(last.time().0.saturating_add(1)) };
    Id::new(at.max(Millis(env.clock.unix_ms())), Producer::random(env.entropy.next_u64()), 0)
}
