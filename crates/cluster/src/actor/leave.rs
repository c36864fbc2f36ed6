//! The goodbye.
//!
//! Whoever hears it tells the others, so it is enough that one has, and has written it. Datagrams go to all; a few are
//! called, again and again, until they have heard. Meanwhile this node goes on: it answers others, who may be saying
//! goodbye as well.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Net, Tasks, run, within};
use tokio::sync::oneshot;

use super::{Actor, Command};
use crate::entry::Entry;
use crate::pick;
use crate::reach::one;

/// How many are to have heard a goodbye by a call, where there are so many, and how long each may take.
const GOODBYES: usize = 3;
const GOODBYE_TIME: Duration = Duration::from_millis(500);

/// When nobody has heard it yet it is said again after so long.
const GOODBYE_AGAIN: Duration = Duration::from_millis(200);

/// Nobody waits longer for a node that stops.
const GOODBYES_TIME: Duration = Duration::from_secs(5);

impl Actor {
    /// Tells everyone by datagram, and some so that they surely have heard it.
    pub(super) fn leave(&mut self, reply: oneshot::Sender<bool>) {
        // What changed a moment ago is told first, whenever the last was: that the queue is empty, say.
        self.told = None;
        self.own_facts();
        Arc::make_mut(&mut self.own).left = true;
        self.own_up();
        let others = self.to_be_told();
        let own = self.own_entry();
        let (tasks, net, commands) = (self.given.tasks.clone(), self.given.net.clone(), self.given.commands.clone());
        self.given.tasks.spawn(Box::pin(async move {
            let heard = others.iter().all(Vec::is_empty) || say_goodbye(&tasks, &net, &others, own).await;
            // The task that it is told ends by it.
            let _ = commands.send(Command::Left { heard, reply }).await;
        }));
    }

    /// Some of those who are there, and some who seem not to be: it may be this node that is cut off.
    fn to_be_told(&self) -> [Vec<SocketAddr>; 2] {
        let me = self.gossip.me().address;
        let live = self.gossip.seen().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        let live: Vec<SocketAddr> = live.collect();
        let missing = self.table.missing().into_iter().map(|(_, address)| address);
        let missing = missing.filter(|address| !live.contains(address)).collect();
        let some = |all| pick::some(self.given.doors.entropy.as_ref(), all, GOODBYES);
        [some(live), some(missing)]
    }

    /// Goes, and writes the list a last time.
    pub(super) async fn left(&mut self) {
        self.gossip.leave();
        self.flush();
        self.left = true;
        let (keep, kept, entries) = (self.keep.clone(), self.kept(), self.entries());
        match run(&self.given.tasks, move || keep.write(&kept)).await {
            Some(Err(error)) => tracing::warn!(%error, "the list of nodes could not be written"),
            // Others that leave now were heard, too.
            Some(Ok(())) => self.goodbyes.drain(..).for_each(|reply| drop(reply.send(entries.clone()))),
            None => {}
        }
    }
}

/// Calls them one after the other, and again while nobody has heard it; whether anybody has.
async fn say_goodbye(tasks: &Arc<dyn Tasks>, net: &Arc<dyn Net>, others: &[Vec<SocketAddr>; 2], own: Entry) -> bool {
    let (mut heard, own) = (false, [own]);
    let calls = async {
        loop {
            for some in others {
                for address in some {
                    match one(tasks, net, *address, &own, GOODBYE_TIME).await {
                        Ok(_) => heard = true,
                        Err(error) => tracing::debug!(%address, %error, "a goodbye was not heard"),
                    }
                }
                if heard {
                    return;
                }
            }
            tasks.sleep(GOODBYE_AGAIN).await;
        }
    };
    within(tasks, GOODBYES_TIME, calls).await;
    heard
}
