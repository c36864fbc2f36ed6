//! The path from the queues of all nodes to the store: fetches segments, stores them as one, replicates it, and acknowledges.
//!
//! ```text
//!   wait ──► fetch ──► append ──► replicate ──► ack
//!    │         │         │           │           └ the queues commit fully replicated segments
//!    │         │         │           └ to `replication_factor − 1` other stores
//!    │         │         └ merged by id, durable, searchable
//!    │         └ oldest first, from the queue that is due, then from random others until the batch is full
//!    └ until a queue is due, the local one or another node's
//! ```
//! After any failure the queues have their segments back: by an ack if they can be reached, otherwise when the lease
//! expires. If an acknowledgement may be lost, the records stay stored; if they are fetched again, answers drop the
//! duplicates.
//!
//! Invariant: a queue commits only what as many stores as the replication factor have, durable and searchable. While stores
//! are missing nothing is fetched, and queries find the records in the queues.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogLimits, log_limited, run_blocking, set_gauge, to_millis};
use bucksaw_ingest::lease::{AckRequest, QueueBacklogStatus, WAIT, WaitRequest};
use bucksaw_ingest::{Queue, QueueBacklog, SegmentView};
use bucksaw_record::Id;
use bucksaw_rpc::call_message;
use futures_util::future::{join_all, select_all};
use tracing::debug;

use crate::error::StoreError;
use crate::fetch::{FetchError, FetchedBatch, QueueLocation, ack, fetch_from};
use crate::peers::Peer;
use crate::replicate::Replicator;
use crate::store::{StoreBatch, StoredBatch};
use crate::store_context::StoreContext;

/// Maximum duration of one wait; the next one takes new nodes into account.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum pause after a batch. The pause is as long as the batch took, so that the next segment collects more records that
/// clients wait for: each segment costs syncs, and is merged again.
const BATCH_DELAY_MAX: Duration = Duration::from_millis(20);

/// Pause while stores are missing, and after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Moves batches from the queues to the store.
#[derive(Debug)]
pub struct Puller {
    context: StoreContext,
    /// The local queue, if the node has one.
    queue: Option<Arc<Queue>>,
    replicator: Replicator,
    log_limits: LogLimits,
}

impl Puller {
    /// A puller for the store of `context`. `queue` is the local queue, if the node has one. The caller alternates
    /// [`Self::wait`] and [`Self::store_batch`].
    pub fn new(context: StoreContext, queue: Option<Arc<Queue>>) -> Self {
        let log_limits = LogLimits::new(Arc::clone(&context.env.clock));
        Self { replicator: Replicator::new(context.clone()), context, queue, log_limits }
    }

    /// Waits until a queue is due. `None` after five seconds, while stores are missing, and while the store is full.
    pub async fn wait(&self) -> Option<QueueLocation> {
        // Other stores and retention take segments from the queue too.
        self.update_backlog();
        if self.missing_stores() > 0 || self.takes_nothing() {
            self.context.tasks.sleep(RETRY_DELAY).await;
            return None;
        }
        self.first_due().await
    }

    fn takes_nothing(&self) -> bool {
        self.context.store.is_full() || self.context.store.is_paused()
    }

    fn update_backlog(&self) {
        let queued_bytes = self.queue.as_ref().map_or(0, |queue| queue.backlog().text_bytes);
        self.context.store.set_queued_bytes(queued_bytes);
    }

    /// Stores a batch from the due queue and from others. Returns its bytes of text, or 0 if it failed or found nothing.
    pub async fn store_batch(&self, due: QueueLocation) -> u64 {
        let clock = &self.context.env.clock;
        let begun = clock.uptime();
        let batches = self.fetch_all(due).await;
        if batches.is_empty() {
            // Another store has fetched the segments.
            self.context.tasks.sleep(RETRY_DELAY / 20).await;
            return 0;
        }
        let text_bytes = self.store_and_ack(batches).await;
        let linger = clock.uptime().saturating_sub(begun).min(BATCH_DELAY_MAX);
        self.context.tasks.sleep(if text_bytes == 0 { RETRY_DELAY } else { linger }).await;
        text_bytes
    }

    /// Stores a batch from the local queue, due or not. Returns its bytes of text, or 0 if it failed or the queue is empty.
    pub async fn drain(&self) -> u64 {
        if self.missing_stores() > 0 || self.takes_nothing() {
            return 0;
        }
        let Some(batch) = self.fetch(QueueLocation::Local, self.context.store.batch_bytes_max()).await else {
            return 0;
        };
        self.store_and_ack(vec![batch]).await
    }

    async fn store_and_ack(&self, batches: Vec<FetchedBatch>) -> u64 {
        let (batches, stored) = self.write_and_replicate(batches).await;
        self.ack_all(&batches, &stored).await;
        self.update_backlog();
        stored.unwrap_or(0)
    }

    fn missing_stores(&self) -> usize {
        let missing = self.context.store.replication_factor().saturating_sub(self.context.peers.stores().len() + 1);
        set_gauge(&self.context.metrics.missing_stores, missing as u64);
        missing
    }

    /// The queues of other nodes; none while the node is short of descriptors.
    fn remote_queues(&self) -> Vec<QueueLocation> {
        if self.context.is_short_of_descriptors() {
            return Vec::new();
        }
        self.context.peers.queues().into_iter().map(QueueLocation::Remote).collect()
    }

    /// The first queue that is due; `None` after [`WAIT_MAX`].
    async fn first_due(&self) -> Option<QueueLocation> {
        let mut waits: Vec<_> = self.remote_queues().into_iter().map(|origin| self.wait_for(origin)).collect();
        if self.queue.is_some() {
            waits.push(self.wait_for(QueueLocation::Local));
        }
        let started = self.context.env.clock.uptime();
        while !waits.is_empty() {
            let (due, _, rest) = select_all(waits).await;
            if due.is_some() {
                return due;
            }
            waits = rest;
        }
        if self.context.env.clock.uptime().saturating_sub(started) < WAIT_MAX {
            // No queue could be reached.
            self.context.tasks.sleep(RETRY_DELAY).await;
        }
        None
    }

    /// `origin`, once that queue is due.
    fn wait_for(&self, origin: QueueLocation) -> bucksaw_env::BoxFuture<Option<QueueLocation>> {
        let (tasks, net, due) =
            (Arc::clone(&self.context.tasks), Arc::clone(&self.context.net), self.context.store.fetch_threshold());
        let (queue, answer) = (self.queue.clone(), self.context.timeouts.answer);
        Box::pin(async move {
            let is_due = match (origin, queue) {
                (QueueLocation::Local, Some(queue)) => queue.wait_due(&tasks, due, WAIT_MAX).await,
                (QueueLocation::Local, None) => false,
                (QueueLocation::Remote(peer), _) => {
                    let wait = WaitRequest {
                        text_bytes: due.text_bytes_min,
                        age_ms: to_millis(due.age_min),
                        wait_ms: to_millis(WAIT_MAX),
                    };
                    let reply = call_message(&tasks, &*net, peer.address, WAIT, &wait, WAIT_MAX + answer).await;
                    reply.map(|backlog: QueueBacklogStatus| backlog.due).unwrap_or_else(|error| {
                        debug!(node = %peer.node, %error, "cannot wait for a queue");
                        false
                    })
                }
            };
            is_due.then_some(origin)
        })
    }

    /// Fetches from the due queue, then from random others, until the batch is full.
    async fn fetch_all(&self, due: QueueLocation) -> Vec<FetchedBatch> {
        let mut left = self.context.store.batch_bytes_max();
        let mut others = self.remote_queues();
        if self.queue.is_some() {
            others.push(QueueLocation::Local);
        }
        others.retain(|origin| *origin != due);
        let mut batches = Vec::new();
        let mut next = Some(due);
        while let Some(origin) = next {
            if let Some(batch) = self.fetch(origin, left).await {
                left = left.saturating_sub(batch.views.iter().map(|view| view.reach.text_bytes).sum());
                batches.push(batch);
            }
            next = None;
            if left > 0 && !others.is_empty() {
                let at = self.context.env.entropy.next_u64() % others.len() as u64;
                next = Some(others.swap_remove(at as usize));
            }
        }
        batches
    }

    /// Fetches from a queue; `None` if that failed or there is nothing.
    async fn fetch(&self, origin: QueueLocation, text_bytes: u64) -> Option<FetchedBatch> {
        let batch = match (origin, &self.queue) {
            (QueueLocation::Local, Some(queue)) => {
                let waits = QueueBacklogStatus::from(queue.backlog());
                FetchedBatch { location: origin, views: queue.reserve(text_bytes), backlog: waits, _files: Vec::new() }
            }
            (QueueLocation::Local, None) => return None,
            (QueueLocation::Remote(peer), _) => match fetch_from(&self.context, peer, text_bytes).await {
                Ok(batch) => batch,
                Err((error, ids)) => {
                    log_limited!(self.log_limits, warn, node = %peer.node, %error, "cannot fetch segments from a queue: will retry");
                    let unreadable = match error {
                        FetchError::Damaged(id) => vec![id],
                        FetchError::Io(_) => Vec::new(),
                    };
                    self.ack(peer, Vec::new(), ids, unreadable).await;
                    return None;
                }
            },
        };
        (!batch.views.is_empty()).then_some(batch)
    }

    /// Appends batches to the store and replicates the segment.
    async fn write_and_replicate(&self, batches: Vec<FetchedBatch>) -> (Vec<FetchedBatch>, StoreOutcome) {
        let (store, queue) = (Arc::clone(&self.context.store), self.queue.clone());
        let targets = self.replicator.targets(self.context.peers.stores());
        let group = self.replicator.group(&targets, self.context.store.replication_factor());
        let packed = self.context.run_blocking_low_priority(move || {
            let views: Vec<SegmentView> = batches.iter().flat_map(|batch| batch.views.iter().cloned()).collect();
            let packed = store.append(&StoreBatch {
                segments: &views,
                backlog: total_backlog(&batches),
                queue: queue.as_deref(),
                group,
            });
            (batches, packed)
        });
        let Some((batches, packed)) = packed.await else {
            // The leases expire.
            return (Vec::new(), Err(None));
        };
        let stored = match packed {
            Ok(stored) => self.replicate(stored, targets).await,
            Err(error) => {
                log_limited!(self.log_limits, warn, %error, "cannot store a fetched batch: will retry");
                match error {
                    StoreError::Input { segment, .. } => Err(Some(segment)),
                    _ => Err(None),
                }
            }
        };
        (batches, stored)
    }

    async fn replicate(&self, batch: StoredBatch, targets: Vec<Peer>) -> StoreOutcome {
        let StoredBatch { text_bytes, segment } = batch;
        let Some(stored) = segment else { return Ok(text_bytes) };
        let copies = self.context.store.replication_factor();
        let kept = self.replicator.replicate(&stored, targets, copies - 1).await;
        if kept + 1 >= copies {
            return Ok(text_bytes);
        }
        log_limited!(self.log_limits, warn, segment = %stored.id(), kept, wanted = copies, "too few replicas: the records stay in the queues");
        if kept == 0 {
            // No other store has it, and its records will be stored again.
            let store = Arc::clone(&self.context.store);
            run_blocking(&self.context.tasks, move || store.withdraw(&stored)).await;
        }
        Err(None)
    }

    /// Acknowledges the segments to their queues: as stored, or as returned.
    async fn ack_all(&self, batches: &[FetchedBatch], stored: &StoreOutcome) {
        let acks = batches.iter().map(|batch| async {
            let ids: Vec<Id> = batch.views.iter().map(|view| view.id).collect();
            let (kept, returned, unreadable) = match stored {
                Ok(_) => (ids, Vec::new(), Vec::new()),
                Err(unreadable) => {
                    let unreadable = unreadable.iter().filter(|id| ids.contains(id)).copied().collect();
                    (Vec::new(), ids, unreadable)
                }
            };
            match batch.location {
                QueueLocation::Remote(peer) => self.ack(peer, kept, returned, unreadable).await,
                QueueLocation::Local => {
                    let Some(queue) = self.queue.clone() else { return };
                    let apply = move || {
                        queue.commit(&kept);
                        unreadable.iter().for_each(|id| queue.record_unreadable(*id));
                        queue.release(&returned);
                    };
                    run_blocking(&self.context.tasks, apply).await;
                }
            }
        });
        join_all(acks).await;
    }

    /// Acknowledges segments to another node's queue. If that fails, the lease expires and the segments are fetched again.
    async fn ack(&self, peer: Peer, stored: Vec<Id>, returned: Vec<Id>, unreadable: Vec<Id>) {
        let request = AckRequest { holder: self.context.node, stored, returned, unreadable };
        if !ack(&self.context, peer, request).await {
            log_limited!(self.log_limits, warn, node = %peer.node, "cannot acknowledge segments to a queue: they may be stored twice, duplicates are dropped");
        }
    }
}

/// The bytes of text of a batch that is on as many stores as the replication factor. Otherwise its segments return to their
/// queues, and one of them may be unreadable.
type StoreOutcome = Result<u64, Option<Id>>;

/// The sum of the backlogs of all queues.
fn total_backlog(batches: &[FetchedBatch]) -> QueueBacklog {
    batches.iter().fold(QueueBacklog::default(), |sum, FetchedBatch { backlog, .. }| QueueBacklog {
        segments: sum.segments + backlog.segments,
        text_bytes: sum.text_bytes + backlog.text_bytes,
        oldest_age: sum.oldest_age.max(Duration::from_millis(backlog.oldest_ms)),
        has_waiting_client: sum.has_waiting_client || backlog.has_waiting_client,
    })
}
