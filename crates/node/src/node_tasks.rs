//! The tasks of a node, and their orderly stop.
//!
//! The tasks are one group: when one ends, [`NodeTasks::ended`] resolves and the caller stops all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::MemberState;
use bucksaw_env::{BoxFuture, LogLimits, log_limited, run_blocking, with_timeout};
use bucksaw_record::Id;
use bucksaw_store::repair::Repair;
use bucksaw_store::{Peers as _, Puller, StoreError};
use tokio::sync::watch;
use tracing::warn;

use crate::calls;
use crate::facts::{self, FactsPublisher};
use crate::node::Node;
use crate::peers::ClusterPeers;

/// How often the queue checks the time.
const TICK: Duration = Duration::from_millis(100);

/// How often retention and compaction check for work.
const MAINTENANCE_PERIOD: Duration = Duration::from_secs(1);

/// How long maintenance waits after an error.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// How long a node that stops gives stores to fetch its queue. The next start has the rest.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a node that stops waits for its tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The running tasks of a node.
#[derive(Debug)]
pub struct NodeTasks {
    node: Node,
    puller: Arc<Puller>,
    stop: watch::Sender<bool>,
    /// True once a task has ended; closed when all have.
    ended: watch::Receiver<bool>,
}

/// How a node stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopOutcome {
    /// Stores have everything that the queue held.
    pub drained: bool,
    /// Another node has acknowledged the leave, or no other node exists.
    pub leave_acknowledged: bool,
}

/// Reports the end of a task, also after a panic.
struct TaskEndGuard(Arc<watch::Sender<bool>>);

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

type StopReceiver = watch::Receiver<bool>;

impl Node {
    /// Answers the calls of other nodes and starts the tasks.
    #[must_use]
    pub fn start(&self) -> NodeTasks {
        calls::register(self);
        NodeTasks::start(self.clone())
    }
}

impl NodeTasks {
    fn start(node: Node) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (ended_sender, ended) = watch::channel(false);
        let ended_sender = Arc::new(ended_sender);
        let puller = Arc::new(node.puller());
        let spawn = |task: BoxFuture<()>| {
            let guard = TaskEndGuard(Arc::clone(&ended_sender));
            node.tasks.spawn(Box::pin(async move {
                let _guard = guard;
                task.await;
            }));
        };
        spawn(Box::pin(commit(node.clone(), stopping.clone())));
        spawn(Box::pin(rotate_queue_files(node.clone(), stopping.clone())));
        spawn(Box::pin(tick(node.clone(), stopping.clone())));
        spawn(Box::pin(publish_facts(node.clone(), stopping.clone())));
        spawn(Box::pin(watch_members(node.clone(), stopping.clone())));
        spawn(Box::pin(spread_erasures(node.clone(), stopping.clone())));
        if !node.roles.store {
            spawn(Box::pin(sweep(node.clone(), stopping.clone())));
        }
        if node.roles.store {
            spawn(Box::pin(pull(Arc::clone(&puller), stopping.clone())));
            spawn(Box::pin(maintain(node.clone(), stopping.clone())));
        }
        if let Some(repair) = &node.repair {
            spawn(Box::pin(repair_replicas(Arc::clone(repair), stopping)));
        }
        Self { node, puller, stop, ended }
    }

    /// Resolves when a task has ended, which is a bug unless [`Self::stop`] was called.
    pub async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Stops the node in order: closes the queue, waits until stores have fetched its records, stops the tasks and
    /// leaves the cluster.
    ///
    /// The caller has stopped its listeners and set [`Facts::draining`](bucksaw_cluster::Facts::draining). Takes about half a
    /// minute at most.
    pub async fn stop(mut self) -> StopOutcome {
        let (node, queue) = (self.node.clone(), Arc::clone(&self.node.queue));
        run_blocking(&node.tasks, move || queue.close()).await;
        node.store.stop_throttling();
        self.drain().await;
        let drained = node.queue.uncommitted_segments().is_empty();
        self.stop.send_replace(true);
        let all_ended = async { while self.ended.changed().await.is_ok() {} };
        with_timeout(&node.tasks, STOP_TIMEOUT, all_ended).await;
        let leave_acknowledged = node.cluster.leave().await;
        if !leave_acknowledged {
            warn!(
                node = %node.id,
                "no other node acknowledged the leave; the others mark this node down until it returns or is forgotten"
            );
        }
        StopOutcome { drained, leave_acknowledged }
    }

    /// Lets stores, this one or others, fetch the closed queue while enough of them are live, for [`DRAIN_TIMEOUT`] at most.
    async fn drain(&self) {
        let node = &self.node;
        let drain = async {
            let has_segments = || !node.queue.uncommitted_segments().is_empty();
            while has_segments() && has_enough_stores(node) {
                let fetched = if node.roles.store { self.puller.drain().await } else { 0 };
                // Another store has the segments under a lease, or storing them failed.
                if fetched == 0 && has_segments() {
                    node.tasks.sleep(TICK).await;
                }
            }
        };
        with_timeout(&node.tasks, DRAIN_TIMEOUT, drain).await;
        // Other nodes remember these facts while this node is away; the leave publishes them.
        FactsPublisher::new(node).publish(node);
    }
}

/// Whether as many stores are live as the replication factor.
fn has_enough_stores(node: &Node) -> bool {
    let own = usize::from(node.roles.store);
    ClusterPeers(Arc::clone(&node.cluster)).stores().len() + own >= node.store.replication_factor()
}

fn is_stopping(stopping: &StopReceiver) -> bool {
    // The sender is gone when the group is dropped without a stop.
    *stopping.borrow() || stopping.has_changed().is_err()
}

/// The output of a future; `None` when the stop comes first.
async fn unless_stopped<T>(stopping: &mut StopReceiver, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => None,
        output = future => Some(output),
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

async fn rotate_queue_files(node: Node, mut stopping: StopReceiver) {
    while unless_stopped(&mut stopping, node.queue.wait_rotation()).await.is_some() {
        let queue = Arc::clone(&node.queue);
        if run_blocking(&node.tasks, move || queue.rotate_files()).await.is_none() {
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
            // A batch is not cancelled at a stop: the next start would have to store it again.
            puller.store_batch(due).await;
        }
    }
}

async fn maintain(node: Node, mut stopping: StopReceiver) {
    let (context, log_limits) = (&node.store_context, LogLimits::new(Arc::clone(&node.env.clock)));
    while !is_stopping(&stopping) {
        let (store, queue) = (Arc::clone(&node.store), Arc::clone(&node.queue));
        if run_blocking(&node.tasks, move || store.retain(&queue)).await.is_none() {
            return;
        }
        let (store, queue, stopped) = (Arc::clone(&node.store), Arc::clone(&node.queue), stopping.clone());
        let merged = context.run_blocking_low_priority(move || store.maintain(&queue, &|| is_stopping(&stopped)));
        let Some(merged) = merged.await else { return };
        match merged {
            Ok(0) => pause(&node, MAINTENANCE_PERIOD, &mut stopping).await,
            Ok(_) => {}
            // The node stops, or retention has work.
            Err(StoreError::Stopped) => pause(&node, TICK, &mut stopping).await,
            Err(error) => {
                log_limited!(log_limits, error, %error, "cannot merge segments; retrying");
                pause(&node, RETRY_PAUSE, &mut stopping).await;
            }
        }
    }
}

/// Exchanges erasures with the other nodes.
async fn spread_erasures(node: Node, mut stopping: StopReceiver) {
    while unless_stopped(&mut stopping, node.erasures.run_step()).await.is_some() {}
}

/// Removes erased records from the files of a node without the store role, which has no other maintenance.
async fn sweep(node: Node, mut stopping: StopReceiver) {
    let (context, log_limits) = (&node.store_context, LogLimits::new(Arc::clone(&node.env.clock)));
    while !is_stopping(&stopping) {
        let (store, queue, stopped) = (Arc::clone(&node.store), Arc::clone(&node.queue), stopping.clone());
        let swept = context.run_blocking_low_priority(move || store.sweep_erasures(&queue, &|| is_stopping(&stopped)));
        let Some(swept) = swept.await else { return };
        match swept {
            Ok(0) | Err(StoreError::Stopped) => pause(&node, MAINTENANCE_PERIOD, &mut stopping).await,
            Ok(_) => {}
            Err(error) => {
                log_limited!(log_limits, error, %error, "cannot erase records; retrying");
                pause(&node, RETRY_PAUSE, &mut stopping).await;
            }
        }
    }
}

/// Re-replicates records. A step is cancelled at a stop and repeated after the next start.
async fn repair_replicas(repair: Arc<Repair>, mut stopping: StopReceiver) {
    while unless_stopped(&mut stopping, repair.run_step()).await.is_some() {}
}

async fn publish_facts(node: Node, mut stopping: StopReceiver) {
    let mut publisher = FactsPublisher::new(&node);
    while !is_stopping(&stopping) {
        publisher.publish(&node);
        pause(&node, facts::PUBLISH_PERIOD, &mut stopping).await;
    }
}

fn has_other_members(node: &Node) -> bool {
    node.cluster.members().iter().any(|member| member.facts.node != node.id && member.state != MemberState::Left)
}

/// Releases the leases of nodes that departed or restarted: they no longer have the fetched records.
async fn watch_members(node: Node, mut stopping: StopReceiver) {
    let mut changed = node.cluster.subscribe();
    let mut incarnations: BTreeMap<Id, Id> = BTreeMap::new();
    loop {
        for member in node.cluster.members().iter() {
            let (id, incarnation) = (member.facts.node, member.facts.incarnation);
            let departed = matches!(member.state, MemberState::Down | MemberState::Left);
            let previous = if departed { incarnations.remove(&id) } else { incarnations.insert(id, incarnation) };
            if previous.is_some_and(|previous| departed || previous != incarnation) {
                node.queue.release_leases_of(id);
            }
        }
        // A node that is down may return at any moment, so it counts.
        node.queue.set_has_remote_stores(has_other_members(&node));
        let Some(Ok(())) = unless_stopped(&mut stopping, changed.changed()).await else { return };
    }
}
