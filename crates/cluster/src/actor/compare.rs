//! Comparing lists: with whom it is time to, and what comes of it.

use std::io;
use std::net::SocketAddr;

use super::{Actor, Command};
use crate::entry::Entry;
use crate::identity::Identity;
use crate::pick;
use crate::reach::{Goal, reach};
use crate::table::{Heard, Seen};

/// Those who are tried at once while nobody is there, of each kind.
const TRY_MAX: usize = 4;

impl Actor {
    /// All that is known, this node first.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry { awaiting: self.awaited.is_awaiting(), ..self.own_entry() }];
        entries.extend(self.table.entries(self.now()));
        entries
    }

    /// Takes in what another node knows. The first is about itself.
    pub(super) fn learn(&mut self, entries: Vec<Entry>) {
        let live: Vec<Identity> = entries.iter().filter_map(Entry::identity).collect();
        let me = self.gossip.me();
        // Whoever was here before, alive or not: others would go on believing that one.
        let rivals = entries.iter().filter(|entry| entry.is_at(me.address)).map(Entry::newest);
        if let Some(rival) = rivals.max().filter(|rival| *rival > me.boot()) {
            self.succeed(rival);
        }
        self.gossip.learn(live.iter().copied());
        if let Some(peer) = live.first().filter(|peer| peer.address != me.address)
            && !self.gossip.seen().iter().any(|seen| seen.identity == *peer)
        {
            // It is there, and was taken for dead; this lets it know, and it comes back under a new incarnation.
            self.gossip.announce(*peer);
        }
        // A goodbye tells of the node alone.
        let is_all = entries.first().is_some_and(|own| own.facts.node != me.node && !own.awaiting && !own.facts.left);
        self.hear(entries);
        if is_all && self.awaited.heard_all() {
            self.nothing_is_awaited();
        }
        self.flush();
    }

    /// Has it written at once: after a crash it need not be found out again, which may be impossible then.
    fn nothing_is_awaited(&mut self) {
        (self.unsaved[0], self.saved) = (true, None);
        self.save();
    }

    pub(super) fn hear(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let now = self.now();
        let mut most = Heard::Nothing;
        for entry in entries {
            match self.table.hear(entry, now) {
                Heard::Nothing => {}
                Heard::Full => {
                    self.given.metrics.strangers.inc();
                }
                heard => most = if most == Heard::Standing { most } else { heard },
            }
        }
        match most {
            Heard::Standing => self.settle(),
            Heard::Facts => self.unsaved[1] = true,
            Heard::Nothing | Heard::Full => {}
        }
    }

    /// Compares lists with those with whom it is time to.
    pub(super) fn reach_out(&mut self) {
        let entropy = self.given.doors.entropy.clone();
        let entropy = entropy.as_ref();
        let alone = self.gossip.is_alone();
        let due = self.reach.due(alone, self.awaited.is_awaiting(), self.now().uptime, entropy.next_u64());
        let seen = self.gossip.seen();
        let is_live = |address: &SocketAddr| seen.iter().any(|seen| seen.identity.address == *address);
        let missing: Vec<SocketAddr> = self.table.missing().into_iter().map(|(_, address)| address).collect();
        let missing: Vec<SocketAddr> = missing.into_iter().filter(|address| !is_live(address)).collect();
        let hosts = self.given.config.join.clone();
        let mut goals = Vec::new();
        if due.alone {
            goals.extend(pick::some(entropy, missing.clone(), TRY_MAX).into_iter().map(Goal::Address));
            goals.extend(pick::some(entropy, hosts.clone(), TRY_MAX).into_iter().map(Goal::Host));
            for identity in pick::some(entropy, self.gossip.down(), TRY_MAX) {
                self.gossip.announce(identity);
            }
        }
        if due.names {
            let names = self.awaited.names().cloned().collect();
            goals.extend(pick::some(entropy, names, TRY_MAX).into_iter().map(Goal::Host));
        }
        if due.exchange {
            let me = self.gossip.me().address;
            let live = seen.iter().map(|seen| seen.identity.address).filter(|address| *address != me).collect();
            goals.extend(pick::some(entropy, live, 1).into_iter().map(Goal::Address));
            goals.extend(pick::some(entropy, missing, 1).into_iter().map(Goal::Address));
        }
        if due.join {
            goals.extend(pick::some(entropy, hosts, 1).into_iter().map(Goal::Host));
        }
        goals.extend(self.wanted(&seen).into_iter().map(Goal::Address));
        for goal in goals {
            self.compare(goal);
        }
    }

    /// One of those who are there and whose facts are not.
    pub(super) fn wanted(&self, seen: &[Seen]) -> Vec<SocketAddr> {
        let wanted = self.table.wanted(seen).map(|identity| identity.address).collect();
        pick::some(self.given.doors.entropy.as_ref(), wanted, 1)
    }

    pub(super) fn compare(&mut self, goal: Goal) {
        if self.reach.begin(&goal) {
            self.compare_now(goal);
        }
    }

    pub(super) fn compare_now(&self, goal: Goal) {
        let entries = self.entries();
        let (tasks, net, commands) = (self.given.tasks.clone(), self.given.net.clone(), self.given.commands.clone());
        self.given.tasks.spawn(Box::pin(async move {
            let result = reach(&tasks, &net, &goal, &entries).await;
            // The node may have left.
            let _ = commands.send(Command::Compared { goal, result }).await;
        }));
    }

    pub(super) fn compared(&mut self, goal: &Goal, result: io::Result<Vec<Entry>>) {
        self.reach.done(goal);
        self.given.metrics.exchanges.inc();
        match (result, goal) {
            (Ok(entries), goal) => {
                self.learn(entries);
                if let Goal::Host(host) = goal
                    && self.awaited.reached(host)
                {
                    self.nothing_is_awaited();
                }
            }
            (Err(error), goal) => {
                self.given.metrics.exchanges_failed.inc();
                let time = self.now().uptime;
                match goal {
                    Goal::Host(host) if self.reach.warns(host, time) => {
                        let awaiting = self.awaited.is_awaiting();
                        tracing::warn!(host, %error, awaiting, "the node to join was not reached: it is tried again");
                    }
                    goal => tracing::debug!(?goal, %error, "lists could not be compared"),
                }
            }
        }
        self.told_of(Some(goal));
    }
}
