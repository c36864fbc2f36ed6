//! Receives and sends datagrams, and executes the actions of foca.

use std::net::SocketAddr;

use super::start::without_scope;
use super::{Actor, ActorTimer};
use crate::entry::Entry;
use crate::incompatible::IncompatiblePeer;
use crate::packet::{self, Packet, PacketError};
use crate::sampling;

/// Maximum recipients of a broadcast; in larger clusters the others learn it by digest exchanges.
const BROADCAST_MAX: usize = 64;

/// Maximum suspicion notices at once: in a partition, half of all members may be suspect.
const SUSPICION_NOTICES_MAX: usize = 16;

impl Actor {
    pub(super) fn handle_datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.context.metrics.packets_received.inc();
        match Packet::parse(bytes) {
            Ok(Packet::Gossip(packet)) => {
                if let Some(rival) = self.gossip.later_incarnation(&packet) {
                    self.raise_incarnation(rival.base_incarnation());
                }
                if !self.gossip.receive(&packet, self.now().uptime) {
                    self.context.metrics.packets_malformed.inc();
                }
            }
            Ok(Packet::Facts(entry)) => {
                self.merge_entries([*entry]);
            }
            Err(PacketError::UnknownKind) => drop(self.context.metrics.packets_unknown_kind.inc()),
            Err(PacketError::Malformed) => drop(self.context.metrics.packets_malformed.inc()),
            Err(PacketError::Version(protocol)) => {
                self.context.metrics.packets_incompatible.inc();
                self.note_incompatible_peer(IncompatiblePeer {
                    address: Some(without_scope(from)),
                    protocol: protocol.into(),
                });
            }
        }
        self.flush();
    }

    /// Executes the actions of foca.
    pub(super) fn flush(&mut self) {
        let now = self.now().uptime;
        let actions = self.gossip.take_actions(now);
        for (after, timer) in actions.timers {
            self.timers.add(now + after, ActorTimer::Gossip(timer));
        }
        for (to, datagram) in actions.send {
            self.send(to, datagram);
        }
        if actions.changed {
            self.update_liveness();
        }
        if actions.renewed {
            self.publish_local_facts();
        }
        if actions.defunct && !self.local_facts.left {
            self.raise_incarnation(self.local_facts.incarnation);
        }
        if !actions.up.is_empty()
            && let Some(datagram) = packet::facts(&self.local_entry())
        {
            for identity in actions.up {
                self.send(identity.address, datagram.clone());
            }
        }
    }

    pub(super) fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        self.context.metrics.packets_sent.inc();
        self.context.net.send(to, datagram);
    }

    /// Sends suspicion notices at the interval of probes.
    pub(super) fn notify_suspects(&mut self) {
        let time = self.now().uptime;
        if time.saturating_sub(self.suspects_notified_at) < self.context.config.probe_period {
            return;
        }
        self.suspects_notified_at = time;
        for (to, datagram) in
            sampling::sample(self.context.env.entropy.as_ref(), self.gossip.suspicion_notices(), SUSPICION_NOTICES_MAX)
        {
            self.send(to, datagram);
        }
    }

    /// Sends an entry to all live members, up to the maximum.
    pub(super) fn broadcast(&self, entry: &Entry) {
        let Some(datagram) = packet::facts(entry) else { return };
        let me = self.gossip.me().address;
        let others =
            self.gossip.live_members().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        for address in sampling::sample(self.context.env.entropy.as_ref(), others.collect(), BROADCAST_MAX) {
            self.send(address, datagram.clone());
        }
    }
}
