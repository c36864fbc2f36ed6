//! The goodbye.
//!
//! Whoever hears it tells the others, so it is enough that one has, and has written it. Datagrams go to all; a few are
//! called, again and again, until they have heard. Meanwhile this node goes on: it answers others, who may be saying
//! goodbye as well.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Net, Tasks, run_blocking, with_timeout};
use tokio::sync::oneshot;

use super::{Actor, ActorCommand};
use crate::entry::Entry;
use crate::exchange_schedule::exchange_once;
use crate::sampling;

/// How many are to have heard a goodbye by a call, where there are so many, and how long each may take.
const LEAVE_TARGETS: usize = 3;
const LEAVE_CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// When nobody has heard it yet it is said again after so long.
const LEAVE_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Nobody waits longer for a node that stops.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

impl Actor {
    /// Tells everyone by datagram, and some so that they surely have heard it.
    pub(super) fn start_leave(&mut self, reply: oneshot::Sender<bool>) {
        // What changed a moment ago is told first, whenever the last was: that the queue is empty, say.
        self.facts_sent_at = None;
        self.refresh_local_facts();
        Arc::make_mut(&mut self.local_facts).left = true;
        self.publish_local_facts();
        let others = self.leave_targets();
        let own = self.local_entry();
        let (tasks, net, commands) =
            (self.context.tasks.clone(), self.context.net.clone(), self.context.commands.clone());
        self.context.tasks.spawn(Box::pin(async move {
            let heard = others.iter().all(Vec::is_empty) || send_leave(&tasks, &net, &others, own).await;
            // The task that it is told ends by it.
            let _ = commands.send(ActorCommand::LeaveSent { acknowledged: heard, reply }).await;
        }));
    }

    /// Some of those who are there, and some who seem not to be: it may be this node that is cut off.
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

    /// Goes, and writes the list a last time.
    pub(super) async fn finish_leave(&mut self) {
        self.gossip.leave();
        self.flush();
        self.has_left = true;
        let (keep, kept, entries) = (self.member_file.clone(), self.persisted_members(), self.entries());
        match run_blocking(&self.context.tasks, move || keep.write(&kept)).await {
            Some(Err(error)) => tracing::warn!(%error, "cannot write members.json"),
            // Others that leave now were heard, too.
            Some(Ok(())) => self.leave_replies.drain(..).for_each(|reply| drop(reply.send(entries.clone()))),
            None => {}
        }
    }
}

/// Calls them one after the other, and again while nobody has heard it; whether anybody has.
async fn send_leave(tasks: &Arc<dyn Tasks>, net: &Arc<dyn Net>, others: &[Vec<SocketAddr>; 2], own: Entry) -> bool {
    let (mut heard, own) = (false, [own]);
    let calls = async {
        loop {
            for some in others {
                for address in some {
                    match exchange_once(tasks, net, *address, &own, LEAVE_CALL_TIMEOUT).await {
                        Ok(_) => heard = true,
                        Err(error) => tracing::debug!(%address, %error, "leave message not delivered"),
                    }
                }
                if heard {
                    return;
                }
            }
            tasks.sleep(LEAVE_RETRY_PAUSE).await;
        }
    };
    with_timeout(tasks, LEAVE_TIMEOUT, calls).await;
    heard
}
