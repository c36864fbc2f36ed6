//! Leaving the cluster.
//!
//! It is enough that one node has received and persisted the leave message, because it forwards it. Datagrams are sent to all
//! members, and a few are called repeatedly until one acknowledges. Meanwhile this node still answers calls, also of other
//! nodes that leave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Net, Tasks, run_blocking, with_timeout};
use tokio::sync::oneshot;

use super::{Actor, ActorCommand};
use crate::entry::Entry;
use crate::exchange_schedule::exchange_once;
use crate::sampling;

/// Number of called members, of the live and of the other ones, and the timeout of a call.
const LEAVE_TARGETS: usize = 3;
const LEAVE_CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause before the calls are repeated.
const LEAVE_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Maximum duration of a leave.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

impl Actor {
    /// Broadcasts the leave and calls some members for an acknowledgement.
    pub(super) fn start_leave(&mut self, reply: oneshot::Sender<bool>) {
        // Pending changes of the facts are published first, such as an empty queue.
        self.facts_sent_at = None;
        self.refresh_local_facts();
        Arc::make_mut(&mut self.local_facts).left = true;
        self.publish_local_facts();
        let others = self.leave_targets();
        let own = self.local_entry();
        let (tasks, net, commands) =
            (self.context.tasks.clone(), self.context.net.clone(), self.context.commands.clone());
        self.context.tasks.spawn(Box::pin(async move {
            let is_acknowledged = others.iter().all(Vec::is_empty) || send_leave(&tasks, &net, &others, own).await;
            // The actor ends after this command.
            let _ = commands.send(ActorCommand::LeaveSent { is_acknowledged, reply }).await;
        }));
    }

    /// Some live members, and some others: this node may be the one that is cut off.
    fn leave_targets(&self) -> [Vec<SocketAddr>; 2] {
        let me = self.gossip.me().address;
        let live =
            self.gossip.live_members().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        let live: Vec<SocketAddr> = live.collect();
        let missing = self.table.unreachable().into_iter().map(|(_, address)| address);
        let missing = missing.filter(|address| !live.contains(address)).collect();
        let some = |all| sampling::sample(self.context.env.entropy.as_ref(), all, LEAVE_TARGETS);
        [some(live), some(missing)]
    }

    /// Leaves foca and writes the member file.
    pub(super) async fn finish_leave(&mut self) {
        self.gossip.leave();
        self.flush();
        self.has_left = true;
        let (file, members, entries) = (self.member_file.clone(), self.persisted_members(), self.entries());
        match run_blocking(&self.context.tasks, move || file.write(&members)).await {
            Some(Err(error)) => tracing::warn!(%error, "cannot write members.json"),
            // Nodes that leave at the same time are acknowledged.
            Some(Ok(())) => self.leave_replies.drain(..).for_each(|reply| drop(reply.send(entries.clone()))),
            None => {}
        }
    }
}

/// Calls the targets in turn until one acknowledges; returns whether one has.
async fn send_leave(tasks: &Arc<dyn Tasks>, net: &Arc<dyn Net>, others: &[Vec<SocketAddr>; 2], own: Entry) -> bool {
    let (mut is_acknowledged, own) = (false, [own]);
    let calls = async {
        loop {
            for some in others {
                for address in some {
                    match exchange_once(tasks, net, *address, &own, LEAVE_CALL_TIMEOUT).await {
                        Ok(_) => is_acknowledged = true,
                        Err(error) => tracing::debug!(%address, %error, "leave message not delivered"),
                    }
                }
                if is_acknowledged {
                    return;
                }
            }
            tasks.sleep(LEAVE_RETRY_PAUSE).await;
        }
    };
    with_timeout(tasks, LEAVE_TIMEOUT, calls).await;
    is_acknowledged
}
