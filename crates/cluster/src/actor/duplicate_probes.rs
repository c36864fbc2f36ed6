//! Probes whether each of the processes that claim one node id is running.

use tokio::sync::oneshot;

use super::{Actor, ActorCommand};
use crate::entry::Entry;
use crate::identity::Identity;
use crate::join_state::{PROBE_PERIOD, RESPONDERS_MAX, Responder, identify_responder};

impl Actor {
    /// Probes the processes that share an id, each at most once per [`PROBE_PERIOD`].
    pub(super) fn probe_claimants(&mut self) {
        let (now, me) = (self.now().uptime, self.gossip.me().address);
        self.probes.started_at.retain(|_, at| now.saturating_sub(*at) < PROBE_PERIOD);
        let claimants = self.table.claimants.iter().filter(|identity| identity.address != me);
        let due = claimants.filter(|identity| !self.probes.started_at.contains_key(identity)).copied();
        let room = RESPONDERS_MAX.saturating_sub(self.probes.in_flight.len());
        for identity in due.take(room).collect::<Vec<_>>() {
            self.probes.started_at.insert(identity, now);
            self.probes.in_flight.insert(identity);
            let (tasks, net) = (self.context.tasks.clone(), self.context.net.clone());
            let commands = self.context.commands.clone();
            self.context.tasks.spawn(Box::pin(async move {
                let responder = identify_responder(&tasks, &net, identity.address).await;
                // The node may have left.
                let _ = commands.send(ActorCommand::Probed { identity, responder }).await;
            }));
        }
    }

    pub(super) fn claimant_probed(&mut self, identity: Identity, responder: Responder) {
        self.probes.in_flight.remove(&identity);
        if responder.excludes(identity) {
            tracing::debug!(?identity, "the earlier process with this node id has stopped");
            self.table.mark_absent(identity);
            self.update_liveness();
        }
        self.send_digests();
    }

    /// Replies with the digest, once no probe is in flight: at once, or after the last probe.
    pub(super) fn reply_when_probed(&mut self, reply: oneshot::Sender<Vec<Entry>>) {
        self.probes.digest_replies.push(reply);
        self.send_digests();
    }

    fn send_digests(&mut self) {
        if self.probes.in_flight.is_empty() {
            for reply in std::mem::take(&mut self.probes.digest_replies) {
                // The request may have timed out.
                let _ = reply.send(self.entries());
            }
        }
    }
}
