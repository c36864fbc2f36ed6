//! Proves that the records of damaged files and blocks are kept elsewhere: asks the stores, and keeps what they told.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, run_blocking};
use bucksaw_record::Id;
use futures_util::future::join_all;
use tracing::debug;

use super::pass_status::{PassStatusReply, PassStatusRequest};
use super::pass_status_call::{read_request, request_pass_status};
use super::runner::Repair;
use super::time_range::TimeRange;
use crate::lock::lock;
use crate::segment_store::SegmentStore;
use crate::stored_segment::DamagedSegment;

/// How often the other stores are asked.
const REQUEST_INTERVAL: Duration = Duration::from_secs(2);

impl Repair {
    /// Answers [`super::WALKED`].
    ///
    /// # Errors
    /// What is wrong with the question.
    pub async fn answer_pass_status(&self, body: Body) -> io::Result<Body> {
        let question = read_request(&self.context, body).await?;
        Ok(Body::whole(serde_json::to_vec(&self.own_pass_status(question))?))
    }

    fn own_pass_status(&self, question: PassStatusRequest) -> PassStatusReply {
        let told = lock(&self.state).answer_pass_status(question);
        let store = &self.context.store;
        PassStatusReply {
            damaged: store.has_damage(question.range()),
            since_ms: store.retention_bounds().since_ms,
            ..told
        }
    }

    fn take_due(&self, now: Duration) -> bool {
        let mut proved = lock(&self.proofs_due_at);
        let is_due = *proved <= now;
        if is_due {
            *proved = now + REQUEST_INTERVAL;
        }
        is_due
    }

    /// Goes on with what is to be proven, now and then. Not before all other stores are known.
    pub(super) async fn update_proofs(&self) {
        let store = &self.context.store;
        let now = store.env.clock.uptime();
        if !self.take_due(now) {
            return;
        }
        let mut open = store.damaged_segments();
        open.retain(|broken| !broken.is_re_replicated());
        if open.is_empty() {
            return;
        }
        let (own, fellows) = (self.context.node, self.context.peers.peer_stores());
        let stores: BTreeSet<Id> = fellows.iter().map(|peer_store| peer_store.peer.node).chain([own]).collect();
        let before = open.clone();
        open.iter_mut().for_each(|broken| broken.proof.add_stores(&stores));
        let question = |store: Id| {
            let wanted =
                open.iter().filter_map(|broken| broken.proof.awaited_pass(store)).max_by_key(|(_, pass)| *pass);
            let (boot, pass) = wanted.unwrap_or_default();
            let from = open.iter().map(|broken| broken.low.0).min().unwrap_or_default();
            let to = open.iter().map(|broken| broken.high.0.saturating_add(1)).max().unwrap_or_default();
            PassStatusRequest { boot, pass, from_ms: from, to_ms: to }
        };
        let live = fellows.iter().filter(|peer_store| peer_store.is_live);
        let asked = live.map(|fellow| {
            let (peer, question) = (fellow.peer, question(fellow.peer.node));
            async move { (peer.node, request_pass_status(&self.context, peer, question).await) }
        });
        let mut told = vec![(own, Ok(self.own_pass_status(question(own))))];
        told.extend(join_all(asked).await);
        for (store, told) in told {
            match told {
                Ok(told) => open
                    .iter_mut()
                    .for_each(|broken| broken.proof.record_status(store, told.for_damage_from(broken.low))),
                Err(error) => debug!(%store, %error, "a store did not answer with its pass status: will retry"),
            }
        }
        let copies = store.config.replication_factor;
        open.iter_mut().for_each(|broken| broken.proof.evaluate(own, copies));
        let news: Vec<DamagedSegment> =
            open.into_iter().zip(before).filter(|(now, was)| now != was).map(|(now, _)| now).collect();
        let keeping = Arc::clone(store);
        run_blocking(&self.context.tasks, move || news.iter().for_each(|broken| keeping.persist_damage(broken))).await;
    }
}

impl SegmentStore {
    /// Whether anything of a window is damaged here, and was not made good.
    fn has_damage(&self, range: TimeRange) -> bool {
        let overlaps = |broken: &DamagedSegment| broken.low < range.to && range.from <= broken.high;
        self.damaged_segments().iter().any(|broken| !broken.is_re_replicated() && overlaps(broken))
    }
}
