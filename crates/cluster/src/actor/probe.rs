//! Two processes claim one id: is each of them there?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Actor, Command};
use crate::entry::Entry;
use crate::identity::Identity;
use crate::place::{Answers, PROBE_AGAIN, PROBED_MAX, probe};

/// The probes.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// When each process was probed last.
    begun: BTreeMap<Identity, Duration>,
    under_way: BTreeSet<Identity>,
    /// Those who asked for the list meanwhile.
    waiting: Vec<oneshot::Sender<Vec<Entry>>>,
}

impl Actor {
    /// Probes those that claim an id with others, and were not probed a moment ago.
    pub(super) fn probe(&mut self) {
        let (now, me) = (self.now().uptime, self.gossip.me().address);
        self.probes.begun.retain(|_, begun| now.saturating_sub(*begun) < PROBE_AGAIN);
        let claimants = self.table.claimants().iter().filter(|identity| identity.address != me);
        let due = claimants.filter(|identity| !self.probes.begun.contains_key(identity)).copied();
        let room = PROBED_MAX.saturating_sub(self.probes.under_way.len());
        for identity in due.take(room).collect::<Vec<_>>() {
            self.probes.begun.insert(identity, now);
            self.probes.under_way.insert(identity);
            let (tasks, net) = (self.given.tasks.clone(), self.given.net.clone());
            let commands = self.given.commands.clone();
            self.given.tasks.spawn(Box::pin(async move {
                let answers = probe(&tasks, &net, identity.address).await;
                // The node may have left.
                let _ = commands.send(Command::Probed { identity, answers }).await;
            }));
        }
    }

    pub(super) fn probed(&mut self, identity: Identity, answers: Answers) {
        self.probes.under_way.remove(&identity);
        if answers.lack(identity) {
            tracing::debug!(?identity, "a process that another one with its id has replaced is not there any more");
            self.table.is_absent(identity);
            self.settle();
        }
        self.reply();
    }

    /// Tells the list, at once or when it is known which of those that claim an id are there.
    pub(super) fn reply_when_probed(&mut self, reply: oneshot::Sender<Vec<Entry>>) {
        self.probes.waiting.push(reply);
        self.reply();
    }

    fn reply(&mut self) {
        if self.probes.under_way.is_empty() {
            for reply in std::mem::take(&mut self.probes.waiting) {
                // The other may have given up.
                let _ = reply.send(self.entries());
            }
        }
    }
}
