//! The goodbye.

use std::time::Duration;

use bucksaw_doors::run;

use super::Actor;
use crate::pick;
use crate::reach::one;

/// Who is told of a goodbye by a call, and how long each may take to hear it.
const GOODBYES: usize = 3;
const GOODBYE_TIME: Duration = Duration::from_millis(500);

impl Actor {
    /// Tells everyone by datagram, and some so that they surely have heard it; and writes the list a last time.
    pub(super) async fn leave(&mut self) {
        // What changed a moment ago is told first, whenever the last was: that the queue is empty, say.
        self.told = None;
        self.own_facts();
        self.own.left = true;
        self.own_up();
        let me = self.gossip.me().address;
        let live = self.gossip.seen().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        let own = [self.own_entry()];
        for address in pick::some(self.given.doors.entropy.as_ref(), live.collect(), GOODBYES) {
            if let Err(error) = one(&self.given.tasks, &self.given.net, address, &own, GOODBYE_TIME).await {
                tracing::debug!(%address, %error, "a goodbye was not heard");
            }
        }
        self.gossip.leave();
        self.flush();
        self.left = true;
        let (keep, kept) = (self.keep.clone(), self.kept());
        if let Some(Err(error)) = run(&self.given.tasks, move || keep.write(&kept)).await {
            tracing::warn!(%error, "the list of nodes could not be written");
        }
    }
}
