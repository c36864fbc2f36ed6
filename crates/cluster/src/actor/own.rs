//! What this node says of itself: what the floors above state, under an incarnation that others believe.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::Doors;
use bucksaw_record::{Id, Millis, Producer};

use super::Actor;
use crate::Facts;
use crate::entry::{Entry, Live};
use crate::identity::Identity;

/// A node takes a later incarnation at most so often.
const SUCCEED_PERIOD: Duration = Duration::from_secs(1);

impl Actor {
    /// Takes over what the floors above say of this node, and tells it, but not too often.
    pub(super) fn own_facts(&mut self) {
        let time = self.now().uptime;
        if self.told.is_some_and(|told| time.saturating_sub(told) < self.given.config.tell_period) {
            return;
        }
        let kept = &self.own;
        let wished = Facts {
            node: kept.node,
            incarnation: kept.incarnation,
            version: kept.version,
            address: kept.address,
            protocol: kept.protocol,
            protocol_minor: kept.protocol_minor,
            left: kept.left,
            ..self.given.me.borrow().clone()
        };
        if wished == **kept {
            return;
        }
        if !wished.is_sound() {
            if !std::mem::replace(&mut self.refused, true) {
                tracing::error!("facts of this node are beyond their bounds, and others are not told of them");
            }
            return;
        }
        self.own = Arc::new(wished);
        self.own_up();
    }

    /// Says something new about this node.
    pub(super) fn own_up(&mut self) {
        Arc::make_mut(&mut self.own).version += 1;
        self.told = Some(self.now().uptime);
        self.unsaved[1] = true;
        let own = Arc::clone(&self.own);
        self.given.me.send_if_modified(|facts| {
            (facts.incarnation, facts.version, facts.address) = (own.incarnation, own.version, own.address);
            (facts.protocol, facts.protocol_minor, facts.left) = (own.protocol, own.protocol_minor, own.left);
            // It is no news to this task, and the floors above did not say it.
            false
        });
        self.tell(&self.own_entry());
        self.publish();
    }

    pub(super) fn own_entry(&self) -> Entry {
        let me = self.gossip.me();
        let live = (!self.own.left).then_some(Live { incarnation: me.incarnation, address: me.address });
        Entry { facts: Facts::clone(&self.own), gone: None, live, awaiting: false }
    }

    /// Goes on in an incarnation after this one: somebody else at this address, or this node by a clock that ran ahead, was in
    /// a later one than this, and would be believed.
    pub(super) fn succeed(&mut self, last: Id) {
        let time = self.now().uptime;
        if self.own.left || self.succeeded.is_some_and(|at| time.saturating_sub(at) < SUCCEED_PERIOD) {
            return;
        }
        let incarnation = after(last, &self.given.doors);
        if incarnation <= last {
            return;
        }
        tracing::info!(%last, %incarnation, "others know a later incarnation at this address: this node goes on in one after it");
        self.succeeded = Some(time);
        Arc::make_mut(&mut self.own).incarnation = incarnation;
        self.unsaved[0] = true;
        self.gossip.become_(Identity { incarnation, ..self.gossip.me() });
        self.own_up();
    }
}

/// An incarnation that begins now, and in any case after `last`.
pub(super) fn after(last: Id, doors: &Doors) -> Id {
    let at = if last == Id::MIN { Millis(0) } else { Millis(last.at().0.saturating_add(1)) };
    Id::new(at.max(Millis(doors.clock.unix_ms())), Producer::drawn(doors.entropy.next_u64()), 0)
}
