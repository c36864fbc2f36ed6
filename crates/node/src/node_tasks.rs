//! What goes on in a node as time goes by.
//!
//! The parts are one group: when one ends, all are to be stopped, and whoever started them hears of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::MemberState;
use bucksaw_env::{Body, BoxFuture, LogRateLimiter, run_blocking, with_timeout};
use bucksaw_record::Id;
use bucksaw_store::repair::{PASS_STATUS, Repair};
use bucksaw_store::{Peers as _, Puller, StoreError};
use tokio::sync::watch;
use tracing::error;

use crate::facts::{self, FactsPublisher};
use crate::node::Node;
use crate::peers::ClusterPeers;

/// How often the queue looks at the time.
const TICK: Duration = Duration::from_millis(100);

/// How often retention and compaction are looked at when there is nothing to do.
const MAINTENANCE_PERIOD: Duration = Duration::from_secs(1);

/// How long work that failed is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// The parts that run.
#[derive(Debug)]
pub struct NodeTasks {
    node: Node,
    puller: Arc<Puller>,
    repair: Option<Arc<Repair>>,
    stop: watch::Sender<bool>,
    /// Whether one has ended; closed when all have.
    ended: watch::Receiver<bool>,
}

/// Tells of the end of a part, also when it is one by a bug.
struct TaskEndGuard(Arc<watch::Sender<bool>>);

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

type StopReceiver = watch::Receiver<bool>;

impl NodeTasks {
    /// Starts them.
    #[must_use]
    pub fn start(node: Node) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (tell, ended) = watch::channel(false);
        let tell = Arc::new(tell);
        let puller = Arc::new(node.puller());
        let repair = node.roles.store.then(|| Arc::new(node.repair()));
        let spawn = |part: BoxFuture<()>| {
            let running = TaskEndGuard(Arc::clone(&tell));
            node.tasks.spawn(Box::pin(async move {
                let _running = running;
                part.await;
            }));
        };
        spawn(Box::pin(commit(node.clone(), stopping.clone())));
        spawn(Box::pin(tick(node.clone(), stopping.clone())));
        spawn(Box::pin(publish_facts(node.clone(), repair.clone(), stopping.clone())));
        spawn(Box::pin(watch_members(node.clone(), stopping.clone())));
        if node.roles.store {
            spawn(Box::pin(pull(Arc::clone(&puller), stopping.clone())));
            spawn(Box::pin(maintain(node.clone(), stopping.clone())));
        }
        if let Some(repair) = &repair {
            let answering = Arc::clone(repair);
            node.cluster.router().add(PASS_STATUS, move |body: Body| answer_repair_pass(Arc::clone(&answering), body));
            spawn(Box::pin(repair_replicas(Arc::clone(repair), stopping)));
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
            let is_left = || !node.queue.uncommitted_segments().is_empty();
            while is_left() && has_enough_stores(node) {
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
        with_timeout(&node.tasks, time, drain).await;
        // What others remember of it while it is gone: a goodbye tells it first.
        FactsPublisher::new(node).publish(node, self.repair.as_deref());
    }

    /// Ends them, and waits for at most `time` for what they are doing.
    pub async fn stop(mut self, time: Duration) {
        self.stop.send_replace(true);
        let all = async { while self.ended.changed().await.is_ok() {} };
        with_timeout(&self.node.tasks, time, all).await;
    }
}

/// Whether there are as many stores as keep each record.
fn has_enough_stores(node: &Node) -> bool {
    let own = usize::from(node.roles.store);
    ClusterPeers(Arc::clone(&node.cluster)).stores().len() + own >= node.store.replication_factor()
}

fn is_stopping(stopping: &StopReceiver) -> bool {
    // Whoever could say so is gone.
    *stopping.borrow() || stopping.has_changed().is_err()
}

/// Does what is waited for, unless a stop comes first.
async fn unless_stopped<T>(stopping: &mut StopReceiver, waiting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => None,
        done = waiting => Some(done),
    }
}

async fn pause(node: &Node, time: Duration, stopping: &mut StopReceiver) {
    unless_stopped(stopping, node.tasks.sleep(time)).await;
}

async fn commit(node: Node, mut stopping: StopReceiver) {
    while unless_stopped(&mut stopping, node.queue.wait_unsynced()).await.is_some() {
        let queue = Arc::clone(&node.queue);
        if run_blocking(&node.tasks, move || queue.commit_group()).await.is_none() {
            return;
        }
    }
}

async fn tick(node: Node, mut stopping: StopReceiver) {
    while !is_stopping(&stopping) {
        let queue = Arc::clone(&node.queue);
        if run_blocking(&node.tasks, move || queue.tick()).await.is_none() {
            return;
        }
        pause(&node, TICK, &mut stopping).await;
    }
}

async fn pull(puller: Arc<Puller>, mut stopping: StopReceiver) {
    while let Some(due) = unless_stopped(&mut stopping, puller.wait()).await {
        if let Some(due) = due {
            // What was begun is brought to its end: given up it would be done again.
            puller.store_batch(due).await;
        }
    }
}

async fn maintain(node: Node, mut stopping: StopReceiver) {
    let (linked, errors) = (node.replication_context(), LogRateLimiter::new());
    while !is_stopping(&stopping) {
        let (store, queue) = (Arc::clone(&node.store), Arc::clone(&node.queue));
        if run_blocking(&node.tasks, move || store.retain(&queue)).await.is_none() {
            return;
        }
        let (store, queue, stopped) = (Arc::clone(&node.store), Arc::clone(&node.queue), stopping.clone());
        let merged =
            linked.run_blocking_low_priority(move || store.compact_after_retention(&queue, &|| is_stopping(&stopped)));
        let Some(merged) = merged.await else { return };
        match merged {
            Ok(0) => pause(&node, MAINTENANCE_PERIOD, &mut stopping).await,
            Ok(_) => {}
            // The node stops, or retention goes first.
            Err(StoreError::Stopped) => pause(&node, TICK, &mut stopping).await,
            Err(error) => {
                if let Some(suppressed) = errors.check(node.env.clock.uptime()) {
                    error!(%error, suppressed, "cannot merge segments; retrying");
                }
                pause(&node, RETRY_PAUSE, &mut stopping).await;
            }
        }
    }
}

/// Restores copies that are missing. What was begun is given up at a stop, and done again.
async fn repair_replicas(repair: Arc<Repair>, mut stopping: StopReceiver) {
    while unless_stopped(&mut stopping, repair.run_step()).await.is_some() {}
}

async fn answer_repair_pass(repair: Arc<Repair>, body: Body) -> std::io::Result<Body> {
    repair.answer_pass_status(body).await
}

async fn publish_facts(node: Node, repair: Option<Arc<Repair>>, mut stopping: StopReceiver) {
    let mut teller = FactsPublisher::new(&node);
    while !is_stopping(&stopping) {
        teller.publish(&node, repair.as_deref());
        pause(&node, facts::PUBLISH_PERIOD, &mut stopping).await;
    }
}

fn has_other_members(node: &Node) -> bool {
    node.cluster.members().iter().any(|member| member.facts.node != node.id && member.state != MemberState::Left)
}

/// Nodes that are gone, or have started anew, know nothing of what they had reserved.
async fn watch_members(node: Node, mut stopping: StopReceiver) {
    let mut changed = node.cluster.subscribe();
    let mut known: BTreeMap<Id, Id> = BTreeMap::new();
    loop {
        for member in node.cluster.members().iter() {
            let (id, incarnation) = (member.facts.node, member.facts.incarnation);
            let gone = matches!(member.state, MemberState::Down | MemberState::Left);
            let before = if gone { known.remove(&id) } else { known.insert(id, incarnation) };
            if before.is_some_and(|before| gone || before != incarnation) {
                node.queue.release_leases_of(id);
            }
        }
        // Also those that are down may come back at any moment.
        node.queue.set_has_remote_stores(has_other_members(&node));
        let Some(Ok(())) = unless_stopped(&mut stopping, changed.changed()).await else { return };
    }
}
