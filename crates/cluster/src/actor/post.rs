//! What comes in by datagrams, what foca wants done, and what goes out.

use std::net::SocketAddr;

use super::start::plain;
use super::{Actor, Alarm};
use crate::entry::Entry;
use crate::packet::{self, Bad, Packet};
use crate::pick;
use crate::strange::Stranger;

/// Own facts are told to so many at once; in larger clusters the others hear of them by comparing lists.
const TELL_MAX: usize = 64;

/// So many of those who are suspected are told of it at once: in the largest partition they are half of all.
const DOUBTS_MAX: usize = 16;

impl Actor {
    pub(super) fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.given.metrics.packets_received.inc();
        match Packet::parse(bytes) {
            Ok(Packet::Gossip(packet)) => {
                if let Some(rival) = self.gossip.rival(&packet) {
                    self.succeed(rival.boot());
                }
                if !self.gossip.receive(&packet, self.now().uptime) {
                    self.given.metrics.packets_bad.inc();
                }
            }
            Ok(Packet::Facts(entry)) => {
                self.hear([*entry]);
            }
            Err(Bad::Newer) => {
                self.given.metrics.packets_of_later_kinds.inc();
            }
            Err(Bad::Malformed) => {
                self.given.metrics.packets_bad.inc();
            }
            Err(Bad::Version(protocol)) => {
                self.given.metrics.packets_of_other_version.inc();
                self.strange(Stranger { address: Some(plain(from)), protocol: protocol.into() });
            }
        }
        self.flush();
    }

    /// Does what foca wants done.
    pub(super) fn flush(&mut self) {
        let now = self.now().uptime;
        let todo = self.gossip.todo(now);
        for (after, timer) in todo.timers {
            self.timers.add(now + after, Alarm::Gossip(timer));
        }
        for (to, datagram) in todo.send {
            self.send(to, datagram);
        }
        if todo.changed {
            self.settle();
        }
        if todo.renewed {
            self.own_up();
        }
        if todo.defunct && !self.own.left {
            self.succeed(self.own.incarnation);
        }
        if !todo.up.is_empty()
            && let Some(datagram) = packet::facts(&self.own_entry())
        {
            for identity in todo.up {
                self.send(identity.address, datagram.clone());
            }
        }
    }

    pub(super) fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        self.given.metrics.packets_sent.inc();
        self.given.net.send(to, datagram);
    }

    /// Says to those who are suspected that they are, as often as somebody is probed.
    pub(super) fn doubt(&mut self) {
        let time = self.now().uptime;
        if time.saturating_sub(self.doubted) < self.given.config.probe_period {
            return;
        }
        self.doubted = time;
        for (to, datagram) in pick::some(self.given.doors.entropy.as_ref(), self.gossip.doubts(), DOUBTS_MAX) {
            self.send(to, datagram);
        }
    }

    /// Tells everyone of a node.
    pub(super) fn tell(&self, entry: &Entry) {
        let Some(datagram) = packet::facts(entry) else { return };
        let me = self.gossip.me().address;
        let others = self.gossip.seen().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        for address in pick::some(self.given.doors.entropy.as_ref(), others.collect(), TELL_MAX) {
            self.send(address, datagram.clone());
        }
    }
}
