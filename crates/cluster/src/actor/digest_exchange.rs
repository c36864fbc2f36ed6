//! Starts digest exchanges and merges their results.

use std::io;
use std::net::SocketAddr;

use super::{Actor, ActorCommand};
use crate::entry::Entry;
use crate::exchange_schedule::{ExchangeTarget, exchange_with};
use crate::identity::Identity;
use crate::sampling;
use crate::table::{LiveMember, MergeOutcome};

/// Targets of each kind that an isolated node tries at once.
const ISOLATED_TARGETS_MAX: usize = 4;

impl Actor {
    /// The digest, beginning with this node.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry { bootstrapping: self.bootstrap.is_bootstrapping(), ..self.local_entry() }];
        entries.extend(self.table.entries(self.now()));
        entries
    }

    /// Merges the digest of another node, which begins with its sender.
    pub(super) fn merge_digest(&mut self, entries: Vec<Entry>) {
        let live: Vec<Identity> = entries.iter().filter_map(Entry::identity).collect();
        let me = self.gossip.me();
        // An earlier process at this address, live or not, would take precedence on other nodes.
        let rivals = entries.iter().filter(|entry| entry.mentions_address(me.address)).map(Entry::highest_incarnation);
        if let Some(rival) = rivals.max().filter(|rival| *rival > me.base_incarnation()) {
            self.raise_incarnation(rival);
        }
        self.gossip.apply_live(live.iter().copied());
        if let Some(peer) = live.first().filter(|peer| peer.address != me.address)
            && !self.gossip.live_members().iter().any(|seen| seen.identity == *peer)
        {
            // It is live, but foca has declared it dead. The announcement makes it raise its incarnation.
            self.gossip.announce(*peer);
        }
        // A leave message contains the sender alone.
        let is_all =
            entries.first().is_some_and(|own| own.facts.node != me.node && !own.bootstrapping && !own.facts.left);
        self.merge_entries(entries);
        if is_all && self.bootstrap.complete() {
            self.bootstrap_completed();
        }
        self.flush();
    }

    /// Persists the end of the bootstrap at once: after a crash the seeds may be unreachable.
    fn bootstrap_completed(&mut self) {
        (self.unsaved[0], self.saved) = (true, None);
        self.save_members();
    }

    pub(super) fn merge_entries(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let now = self.now();
        let mut strongest = MergeOutcome::Unchanged;
        for entry in entries {
            match self.table.merge(entry, now) {
                MergeOutcome::Unchanged => {}
                MergeOutcome::Full => drop(self.context.metrics.members_rejected.inc()),
                outcome if strongest != MergeOutcome::Presence => strongest = outcome,
                _ => {}
            }
        }
        match strongest {
            MergeOutcome::Presence => self.update_liveness(),
            MergeOutcome::Facts => self.unsaved[1] = true,
            MergeOutcome::Unchanged | MergeOutcome::Full => {}
        }
    }

    /// Starts the exchanges that are due.
    pub(super) fn start_due_exchanges(&mut self) {
        let entropy = self.context.env.entropy.clone();
        let entropy = entropy.as_ref();
        let alone = self.gossip.is_isolated();
        let due =
            self.exchange_schedule.due(alone, self.bootstrap.is_bootstrapping(), self.now().uptime, entropy.next_u64());
        let seen = self.gossip.live_members();
        let is_live = |address: &SocketAddr| seen.iter().any(|seen| seen.identity.address == *address);
        let missing: Vec<SocketAddr> = self.table.unreachable().into_iter().map(|(_, address)| address).collect();
        let missing: Vec<SocketAddr> = missing.into_iter().filter(|address| !is_live(address)).collect();
        let hosts = self.context.config.join.clone();
        let mut goals = Vec::new();
        if due.isolated {
            goals.extend(
                sampling::sample(entropy, missing.clone(), ISOLATED_TARGETS_MAX)
                    .into_iter()
                    .map(ExchangeTarget::Address),
            );
            goals.extend(
                sampling::sample(entropy, hosts.clone(), ISOLATED_TARGETS_MAX).into_iter().map(ExchangeTarget::Host),
            );
            for identity in sampling::sample(entropy, self.gossip.down_members(), ISOLATED_TARGETS_MAX) {
                self.gossip.announce(identity);
            }
        }
        if due.seeds {
            let names = self.bootstrap.unreached_seeds().cloned().collect();
            goals.extend(sampling::sample(entropy, names, ISOLATED_TARGETS_MAX).into_iter().map(ExchangeTarget::Host));
        }
        if due.exchange {
            let me = self.gossip.me().address;
            let live = seen.iter().map(|seen| seen.identity.address).filter(|address| *address != me).collect();
            goals.extend(sampling::sample(entropy, live, 1).into_iter().map(ExchangeTarget::Address));
            goals.extend(sampling::sample(entropy, missing, 1).into_iter().map(ExchangeTarget::Address));
        }
        if due.join {
            goals.extend(sampling::sample(entropy, hosts, 1).into_iter().map(ExchangeTarget::Host));
        }
        goals.extend(self.pick_missing_facts(&seen).into_iter().map(ExchangeTarget::Address));
        for goal in goals {
            self.exchange(goal);
        }
    }

    /// The address of a random live member whose facts are missing.
    pub(super) fn pick_missing_facts(&self, seen: &[LiveMember]) -> Vec<SocketAddr> {
        let wanted = self.table.missing_facts(seen).map(|identity| identity.address).collect();
        sampling::sample(self.context.env.entropy.as_ref(), wanted, 1)
    }

    pub(super) fn exchange(&mut self, goal: ExchangeTarget) {
        if self.exchange_schedule.begin(&goal) {
            self.exchange_now(goal);
        }
    }

    pub(super) fn exchange_now(&self, goal: ExchangeTarget) {
        let entries = self.entries();
        let (tasks, net, commands) =
            (self.context.tasks.clone(), self.context.net.clone(), self.context.commands.clone());
        self.context.tasks.spawn(Box::pin(async move {
            let result = exchange_with(&tasks, &net, &goal, &entries).await;
            // The node may have left.
            let _ = commands.send(ActorCommand::Exchanged { goal, result }).await;
        }));
    }

    pub(super) fn exchanged(&mut self, goal: &ExchangeTarget, result: io::Result<Vec<Entry>>) {
        self.exchange_schedule.done(goal);
        self.context.metrics.exchanges.inc();
        match (result, goal) {
            (Ok(entries), goal) => {
                self.merge_digest(entries);
                if let ExchangeTarget::Host(host) = goal
                    && self.bootstrap.seed_reached(host)
                {
                    self.bootstrap_completed();
                }
            }
            (Err(error), goal) => {
                self.context.metrics.exchanges_failed.inc();
                let time = self.now().uptime;
                if let ExchangeTarget::Host(host) = goal
                    && let Some(suppressed) = self.exchange_schedule.unreachable_seed(host).check(time)
                {
                    let bootstrapping = self.bootstrap.is_bootstrapping();
                    tracing::warn!(host, %error, bootstrapping, suppressed, "cannot reach the seed; retrying");
                } else {
                    tracing::debug!(?goal, %error, "digest exchange failed");
                }
            }
        }
        self.announced(Some(goal));
    }
}
