//! What goes on in a node as time goes by.
//!
//! The parts are one group: when one ends, all are to be stopped, and whoever started them hears of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::State;
use bucksaw_doors::{Body, Repeats, Waiting, run, within};
use bucksaw_record::Id;
use bucksaw_store::repair::{Repair, WALKED};
use bucksaw_store::{Peers as _, Puller, StoreError};
use tokio::sync::watch;
use tracing::error;

use crate::facts::{self, Teller};
use crate::node::Node;
use crate::peers::Others;

/// How often the queue looks at the time.
const TICK: Duration = Duration::from_millis(100);

/// How often retention and compaction are looked at when there is nothing to do.
const TIDY_LOOK: Duration = Duration::from_secs(1);

/// How long work that failed is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The parts that run.
#[derive(Debug)]
pub struct Parts {
    node: Node,
    puller: Arc<Puller>,
    repair: Option<Arc<Repair>>,
    stop: watch::Sender<bool>,
    /// Whether one has ended; closed when all have.
    ended: watch::Receiver<bool>,
}

/// Tells of the end of a part, also when it is one by a bug.
struct Running(Arc<watch::Sender<bool>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

type Stopping = watch::Receiver<bool>;

impl Parts {
    /// Starts them.
    #[must_use]
    pub fn start(node: Node) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (tell, ended) = watch::channel(false);
        let tell = Arc::new(tell);
        let puller = Arc::new(node.puller());
        let repair = node.roles.store.then(|| Arc::new(node.repair()));
        let spawn = |part: Waiting<()>| {
            let running = Running(Arc::clone(&tell));
            node.tasks.spawn(Box::pin(async move {
                let _running = running;
                part.await;
            }));
        };
        spawn(Box::pin(commit(node.clone(), stopping.clone())));
        spawn(Box::pin(tick(node.clone(), stopping.clone())));
        spawn(Box::pin(tell_facts(node.clone(), repair.clone(), stopping.clone())));
        spawn(Box::pin(watch_members(node.clone(), stopping.clone())));
        if node.roles.store {
            spawn(Box::pin(pull(Arc::clone(&puller), stopping.clone())));
            spawn(Box::pin(tidy(node.clone(), stopping.clone())));
        }
        if let Some(repair) = &repair {
            let answering = Arc::clone(repair);
            node.cluster.router().add(WALKED, move |body: Body| walked(Arc::clone(&answering), body));
            spawn(Box::pin(restore(Arc::clone(repair), stopping)));
        }
        Self { node, puller, repair, stop, ended }
    }

    /// What restores copies, where records are kept: to be told where some are missing, and to be asked how it is getting on.
    #[must_use]
    pub fn repair(&self) -> Option<&Arc<Repair>> {
        self.repair.as_ref()
    }

    /// Resolves when one of them has ended, which is a bug unless they were stopped.
    pub async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Gives what is left in the queue to the stores, this one or others, for at most `time`, and no longer than there are
    /// enough of them; the rest is there at the next start. The queue is closed before.
    pub async fn drain(&self, time: Duration) {
        let node = &self.node;
        let drain = async {
            let is_left = || !node.queue.segments().is_empty();
            while is_left() && has_stores(node) {
                if node.roles.store {
                    if self.puller.drain().await == 0 && is_left() {
                        // Another store has it reserved, or it failed.
                        node.tasks.sleep(TICK).await;
                    }
                } else {
                    node.tasks.sleep(TICK).await;
                }
            }
        };
        within(&node.tasks, time, drain).await;
        // What others remember of it while it is gone: a goodbye tells it first.
        Teller::new(node).tell(node, self.repair.as_deref());
    }

    /// Ends them, and waits for at most `time` for what they are doing.
    pub async fn stop(mut self, time: Duration) {
        self.stop.send_replace(true);
        let all = async { while self.ended.changed().await.is_ok() {} };
        within(&self.node.tasks, time, all).await;
    }
}

/// Whether there are as many stores as keep each record.
fn has_stores(node: &Node) -> bool {
    let own = usize::from(node.roles.store);
    Others(Arc::clone(&node.cluster)).stores().len() + own >= node.shelf.copies()
}

fn is_stopping(stopping: &Stopping) -> bool {
    // Whoever could say so is gone.
    *stopping.borrow() || stopping.has_changed().is_err()
}

/// Does what is waited for, unless a stop comes first.
async fn unless_stopped<T>(stopping: &mut Stopping, waiting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => None,
        done = waiting => Some(done),
    }
}

async fn rest(node: &Node, time: Duration, stopping: &mut Stopping) {
    unless_stopped(stopping, node.tasks.sleep(time)).await;
}

async fn commit(node: Node, mut stopping: Stopping) {
    while unless_stopped(&mut stopping, node.queue.group()).await.is_some() {
        let queue = Arc::clone(&node.queue);
        if run(&node.tasks, move || queue.commit_group()).await.is_none() {
            return;
        }
    }
}

async fn tick(node: Node, mut stopping: Stopping) {
    while !is_stopping(&stopping) {
        let queue = Arc::clone(&node.queue);
        if run(&node.tasks, move || queue.tick()).await.is_none() {
            return;
        }
        rest(&node, TICK, &mut stopping).await;
    }
}

async fn pull(puller: Arc<Puller>, mut stopping: Stopping) {
    while let Some(due) = unless_stopped(&mut stopping, puller.wait()).await {
        if let Some(due) = due {
            // What was begun is brought to its end: given up it would be done again.
            puller.bring(due).await;
        }
    }
}

async fn tidy(node: Node, mut stopping: Stopping) {
    let (linked, errors) = (node.linked(), Repeats::new());
    while !is_stopping(&stopping) {
        let (shelf, queue) = (Arc::clone(&node.shelf), Arc::clone(&node.queue));
        if run(&node.tasks, move || shelf.retain(&queue)).await.is_none() {
            return;
        }
        let (shelf, queue, stopped) = (Arc::clone(&node.shelf), Arc::clone(&node.queue), stopping.clone());
        let merged = linked.away_modestly(move || shelf.compact_after_retention(&queue, &|| is_stopping(&stopped)));
        let Some(merged) = merged.await else { return };
        match merged {
            Ok(0) => rest(&node, TIDY_LOOK, &mut stopping).await,
            Ok(_) => {}
            // The node stops, or retention goes first.
            Err(StoreError::Stopped) => rest(&node, TICK, &mut stopping).await,
            Err(error) => {
                if let Some(suppressed) = errors.pass(node.doors.clock.uptime()) {
                    error!(%error, suppressed, "cannot merge segments: it is tried again");
                }
                rest(&node, AFTER_FAILURE, &mut stopping).await;
            }
        }
    }
}

/// Restores copies that are missing. What was begun is given up at a stop, and done again.
async fn restore(repair: Arc<Repair>, mut stopping: Stopping) {
    while unless_stopped(&mut stopping, repair.turn()).await.is_some() {}
}

async fn walked(repair: Arc<Repair>, body: Body) -> std::io::Result<Body> {
    repair.answer_walked(body).await
}

async fn tell_facts(node: Node, repair: Option<Arc<Repair>>, mut stopping: Stopping) {
    let mut teller = Teller::new(&node);
    while !is_stopping(&stopping) {
        teller.tell(&node, repair.as_deref());
        rest(&node, facts::PERIOD, &mut stopping).await;
    }
}

fn known_others(node: &Node) -> bool {
    node.cluster.members().iter().any(|member| member.facts.node != node.id && member.state != State::Left)
}

/// Nodes that are gone, or have started anew, know nothing of what they had reserved.
async fn watch_members(node: Node, mut stopping: Stopping) {
    let mut changed = node.cluster.changed();
    let mut known: BTreeMap<Id, Id> = BTreeMap::new();
    loop {
        for member in node.cluster.members().iter() {
            let (id, incarnation) = (member.facts.node, member.facts.incarnation);
            let gone = matches!(member.state, State::Down | State::Left);
            let before = if gone { known.remove(&id) } else { known.insert(id, incarnation) };
            if before.is_some_and(|before| gone || before != incarnation) {
                node.queue.release_all_of(id);
            }
        }
        // Also those that are down may come back at any moment.
        node.queue.share(known_others(&node));
        let Some(Ok(())) = unless_stopped(&mut stopping, changed.changed()).await else { return };
    }
}
