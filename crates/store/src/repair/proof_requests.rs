//! Collects the proofs for damaged files and blocks: requests the pass status of all stores and persists the results.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, lock, run_blocking, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::{call_message, message_body, read_message};
use futures_util::future::join_all;
use tracing::debug;

use super::pass_status::{PASS_STATUS, PassStatusReply, PassStatusRequest};
use super::runner::Repair;
use super::time_range::TimeRange;
use crate::peers::Peer;
use crate::segment_store::SegmentStore;
use crate::store_context::{StoreContext, timed_out};
use crate::stored_segment::DamagedSegment;

/// Interval of requests to the other stores.
const REQUEST_INTERVAL: Duration = Duration::from_secs(2);

impl Repair {
    /// Answers [`super::PASS_STATUS`].
    ///
    /// # Errors
    /// An invalid request, or a timeout.
    pub async fn answer_pass_status(&self, body: Body) -> io::Result<Body> {
        let StoreContext { tasks, timeouts, .. } = &self.context;
        let request = with_timeout(tasks, timeouts.answer, read_message(body)).await.ok_or_else(timed_out)??;
        message_body(&self.own_pass_status(request))
    }

    fn own_pass_status(&self, request: PassStatusRequest) -> PassStatusReply {
        let reply = lock(&self.state).answer_pass_status(request);
        let store = &self.store;
        PassStatusReply {
            damaged: store.has_damage(request.range()),
            since_ms: store.retention_bounds().since_ms,
            ..reply
        }
    }

    fn take_due(&self, now: Duration) -> bool {
        let mut due_at = lock(&self.proofs_due_at);
        let is_due = *due_at <= now;
        if is_due {
            *due_at = now + REQUEST_INTERVAL;
        }
        is_due
    }

    /// Updates the open proofs after each [`REQUEST_INTERVAL`], once all other stores are known.
    pub(super) async fn update_proofs(&self) {
        let store = &self.store;
        let now = store.env.clock.uptime();
        if !self.take_due(now) {
            return;
        }
        let mut open = store.damaged_segments();
        open.retain(|damage| !damage.is_re_replicated());
        if open.is_empty() {
            return;
        }
        let (own, peer_stores) = (self.context.node, self.context.peers.peer_stores());
        let stores: BTreeSet<Id> = peer_stores.iter().map(|peer_store| peer_store.peer.node).chain([own]).collect();
        let before = open.clone();
        open.iter_mut().for_each(|damage| damage.proof.add_stores(&stores));
        let request = |store: Id| {
            let awaited =
                open.iter().filter_map(|damage| damage.proof.awaited_pass(store)).max_by_key(|(_, pass)| *pass);
            let (boot, pass) = awaited.unwrap_or_default();
            let from = open.iter().map(|damage| damage.low.0).min().unwrap_or_default();
            let to = open.iter().map(|damage| damage.high.0.saturating_add(1)).max().unwrap_or_default();
            PassStatusRequest { boot, pass, from_ms: from, to_ms: to }
        };
        let live = peer_stores.iter().filter(|peer_store| peer_store.is_live);
        let replies = live.map(|peer_store| {
            let (peer, request) = (peer_store.peer, request(peer_store.peer.node));
            async move { (peer.node, request_pass_status(&self.context, peer, request).await) }
        });
        let mut statuses = vec![(own, Ok(self.own_pass_status(request(own))))];
        statuses.extend(join_all(replies).await);
        for (store, status) in statuses {
            match status {
                Ok(status) => open
                    .iter_mut()
                    .for_each(|damage| damage.proof.record_status(store, status.for_damage_from(damage.low))),
                Err(error) => debug!(%store, %error, "a store did not answer with its pass status: will retry"),
            }
        }
        let replication_factor = store.config.replication_factor;
        open.iter_mut().for_each(|damage| damage.proof.evaluate(own, replication_factor));
        let changed: Vec<DamagedSegment> =
            open.into_iter().zip(before).filter(|(now, was)| now != was).map(|(now, _)| now).collect();
        let store = Arc::clone(store);
        let persist = move || changed.iter().for_each(|damage| store.persist_damage(damage));
        run_blocking(&self.context.tasks, persist).await;
    }
}

/// Requests the pass status of another store.
async fn request_pass_status(
    context: &StoreContext,
    peer: Peer,
    request: PassStatusRequest,
) -> io::Result<PassStatusReply> {
    let StoreContext { tasks, net, timeouts, .. } = context;
    call_message(tasks, &**net, peer.address, PASS_STATUS, &request, timeouts.answer).await
}

impl SegmentStore {
    /// Whether the store has damage in a range that is not re-replicated.
    fn has_damage(&self, range: TimeRange) -> bool {
        let overlaps = |damage: &DamagedSegment| damage.low < range.to && range.from <= damage.high;
        self.damaged_segments().iter().any(|damage| !damage.is_re_replicated() && overlaps(damage))
    }
}
