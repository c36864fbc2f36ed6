//! Proves that the records of damaged files and blocks are kept elsewhere: asks the stores, and keeps what they told.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Body, run};
use bucksaw_record::Id;
use futures_util::future::join_all;
use tracing::debug;

use super::walk::Repair;
use super::walked::{Question, Told, ask, read};
use super::window::Window;
use crate::shelf::{Shelf, lock};
use crate::stored::Broken;

/// After so long since its start a node has heard of all stores that are there, and of those that are not from its list.
pub(super) const KNOWN_AFTER: Duration = Duration::from_secs(10);

/// How often the other stores are asked.
const ASK_EVERY: Duration = Duration::from_secs(2);

impl Repair {
    /// Answers [`super::WALKED`].
    ///
    /// # Errors
    /// What is wrong with the question.
    pub async fn answer_walked(&self, body: Body) -> io::Result<Body> {
        let question = read(&self.linked, body).await?;
        Ok(Body::whole(serde_json::to_vec(&self.walked_told(question))?))
    }

    fn walked_told(&self, question: Question) -> Told {
        let told = lock(&self.state).asked(question);
        let shelf = &self.linked.shelf;
        Told { damaged: shelf.has_damage(question.window()), since_ms: shelf.keeps().since_ms, ..told }
    }

    fn is_due(&self, now: Duration) -> bool {
        let mut proved = lock(&self.proved);
        let is_due = *proved <= now;
        if is_due {
            *proved = now + ASK_EVERY;
        }
        is_due
    }

    /// Goes on with what is to be proven, now and then. Not before all other stores are known.
    pub(super) async fn prove(&self) {
        let shelf = &self.linked.shelf;
        let now = shelf.doors.clock.uptime();
        if !self.is_due(now) {
            return;
        }
        let mut open = shelf.damage();
        open.retain(|broken| !broken.is_made_good());
        if open.is_empty() {
            return;
        }
        let (own, fellows) = (self.linked.node, self.linked.peers.fellows());
        let stores: BTreeSet<Id> = fellows.iter().map(|fellow| fellow.peer.node).chain([own]).collect();
        let before = open.clone();
        open.iter_mut().for_each(|broken| broken.proof.meet(&stores));
        let question = |store: Id| {
            let wanted = open.iter().filter_map(|broken| broken.proof.wanted(store)).max_by_key(|(_, begin)| *begin);
            let (boot, begin) = wanted.unwrap_or_default();
            let from = open.iter().map(|broken| broken.low.0).min().unwrap_or_default();
            let to = open.iter().map(|broken| broken.high.0.saturating_add(1)).max().unwrap_or_default();
            Question { boot, begin, from_ms: from, to_ms: to }
        };
        let live = fellows.iter().filter(|fellow| fellow.is_live);
        let asked = live.map(|fellow| {
            let (peer, question) = (fellow.peer, question(fellow.peer.node));
            async move { (peer.node, ask(&self.linked, peer, question).await) }
        });
        let mut told = vec![(own, Ok(self.walked_told(question(own))))];
        told.extend(join_all(asked).await);
        for (store, told) in told {
            match told {
                Ok(told) => open.iter_mut().for_each(|broken| broken.proof.hear(store, told.about(broken.low))),
                Err(error) => debug!(%store, %error, "a store does not tell whether it has walked: it is asked again"),
            }
        }
        let copies = shelf.config.copies;
        open.iter_mut().for_each(|broken| broken.proof.conclude(own, copies));
        let news: Vec<Broken> =
            open.into_iter().zip(before).filter(|(now, was)| now != was).map(|(now, _)| now).collect();
        let keeping = Arc::clone(shelf);
        run(&self.linked.tasks, move || news.iter().for_each(|broken| keeping.keep(broken))).await;
    }
}

impl Shelf {
    /// Whether anything of a window is damaged here, and was not made good.
    fn has_damage(&self, window: Window) -> bool {
        let overlaps = |broken: &Broken| broken.low < window.to && window.from <= broken.high;
        self.damage().iter().any(|broken| !broken.is_made_good() && overlaps(broken))
    }
}
