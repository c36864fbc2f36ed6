//! Pulling: a store takes what waits from the queues of all nodes, makes one segment of it, has it kept by as many stores as
//! it is to be, and only then tells the queues to let go.
//!
//! ```text
//!   wait ──► take ──► pack ──► replicate ──► settle
//!    │        │        │          │            └ the queues commit what was stored as often as wanted
//!    │        │        │          └ to `copies − 1` others; itself is the first
//!    │        │        └ merged by id, durable, shown
//!    │        └ oldest first, from the queue that was due, then from others by chance, until there is enough
//!    └ until something is due in a queue, its own or another's
//! ```
//! Whatever fails, the queues have their segments back: at once where they can be told, else when the reservation ends. A
//! commit that may or may not have arrived is not undone, for the records are stored then; what is taken twice is there
//! twice, and answered once.
//!
//! Invariant: a queue is told to commit only when `copies` stores hold the records, durable and shown. While fewer stores
//! are there nothing is taken, and the records stay where they are and are found there.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogRateLimiter, run_blocking, with_timeout};
use bucksaw_ingest::lease::{QueueBacklogStatus, WAIT, WaitRequest};
use bucksaw_ingest::{Queue, QueueBacklog, SegmentView};
use bucksaw_record::Id;
use bucksaw_rpc::{message_body, read_message};
use futures_util::future::{join_all, select_all};
use tracing::{debug, warn};

use crate::error::StoreError;
use crate::fetch::{FetchError, FetchedBatch, QueueLocation, ack, fetch_from, to_millis};
use crate::replicate::Replicator;
use crate::replication_context::ReplicationContext;
use crate::store::{Store, StoreBatch, StoredBatch};

/// A wait is begun anew so often, for nodes come and go.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// After a gathering nothing is taken for as long as it took, and no longer than this, so that more of what clients wait for
/// goes into the next segment: each costs syncs, and is merged again.
const BATCH_DELAY_MAX: Duration = Duration::from_millis(20);

/// How long nothing is done when stores are missing, or when something failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Pulls, one gathering after the other.
#[derive(Debug)]
pub struct Puller {
    context: ReplicationContext,
    /// Where batches are appended: the store of `context`.
    store: Arc<dyn Store>,
    /// The node's own queue, if it has one.
    queue: Option<Arc<Queue>>,
    replicator: Replicator,
    log_limits: PullLogLimits,
}

/// Errors that occur again at each try. Each is logged at most once a minute.
#[derive(Debug, Default)]
struct PullLogLimits {
    take: LogRateLimiter,
    store: LogRateLimiter,
    copies: LogRateLimiter,
}

/// A queue in which something is due.
#[derive(Clone, Copy, Debug)]
pub struct DueQueue(QueueLocation);

impl Puller {
    /// A puller for a store, and the node's own queue, if it has one; [`Self::wait`] and [`Self::bring`] have to be called
    /// again and again.
    #[must_use]
    pub fn new(context: ReplicationContext, queue: Option<Arc<Queue>>) -> Self {
        let store = Arc::clone(&context.store) as Arc<dyn Store>;
        Self { replicator: Replicator(context.clone()), context, store, queue, log_limits: PullLogLimits::default() }
    }

    /// Waits until something is due in a queue; `None` when nothing was for a while, when too few stores are there to keep
    /// it, or when the memory for what is known of segments is used up.
    pub async fn wait(&self) -> Option<DueQueue> {
        // Queues keep what the store has no memory for.
        if self.missing_stores() > 0 || self.store.is_full() {
            self.context.tasks.sleep(RETRY_DELAY).await;
            return None;
        }
        self.update_backlog();
        self.first_due().await.map(DueQueue)
    }

    /// Counts the text in the local queue as backlog of the store.
    fn update_backlog(&self) {
        let queued_bytes = self.queue.as_ref().map_or(0, |queue| queue.backlog().text_bytes);
        self.context.store.backlog.set_queued(queued_bytes);
    }

    /// Takes what is due, and what waits elsewhere, to the store, and has it kept by as many stores as wanted. Returns the
    /// bytes of text that are.
    pub async fn store_batch(&self, due: DueQueue) -> u64 {
        let clock = &self.context.store.env.clock;
        let begun = clock.uptime();
        let batches = self.fetch_all(due.0).await;
        if batches.is_empty() {
            // Another store was faster.
            self.context.tasks.sleep(RETRY_DELAY / 20).await;
            return 0;
        }
        let text_bytes = self.store_and_ack(batches).await;
        let linger = clock.uptime().saturating_sub(begun).min(BATCH_DELAY_MAX);
        self.context.tasks.sleep(if text_bytes == 0 { RETRY_DELAY } else { linger }).await;
        text_bytes
    }

    /// Brings what is left in this node's queue, due or not. Returns the bytes of text that were stored as often as wanted;
    /// 0 when there is nothing left, or when it failed.
    pub async fn drain(&self) -> u64 {
        if self.missing_stores() > 0 || self.store.is_full() {
            return 0;
        }
        let Some(batch) = self.fetch(QueueLocation::Local, self.store.batch_bytes_max()).await else {
            return 0;
        };
        self.store_and_ack(vec![batch]).await
    }

    async fn store_and_ack(&self, batches: Vec<FetchedBatch>) -> u64 {
        let (batches, stored) = self.write_and_replicate(batches).await;
        self.ack_all(&batches, &stored).await;
        self.update_backlog();
        match stored {
            StoreOutcome::Replicated { text_bytes } => text_bytes,
            StoreOutcome::Failed { .. } => 0,
        }
    }

    /// How many stores there are too few.
    fn missing_stores(&self) -> usize {
        let missing = self.context.store.replication_factor().saturating_sub(self.context.peers.stores().len() + 1);
        self.context.store.metrics.missing_stores.set(i64::try_from(missing).unwrap_or(i64::MAX));
        missing
    }

    /// The queues of other nodes; none while their records would make too many files.
    fn remote_queues(&self) -> Vec<QueueLocation> {
        if self.context.store.is_short_of_descriptors() {
            return Vec::new();
        }
        self.context.peers.queues().into_iter().map(QueueLocation::Remote).collect()
    }

    /// Where something is due; `None` when nothing was for a while.
    async fn first_due(&self) -> Option<QueueLocation> {
        let mut waits: Vec<_> = self.remote_queues().into_iter().map(|origin| self.wait_for(origin)).collect();
        if self.queue.is_some() {
            waits.push(self.wait_for(QueueLocation::Local));
        }
        let started = self.context.store.env.clock.uptime();
        while !waits.is_empty() {
            let (due, _, rest) = select_all(waits).await;
            if due.is_some() {
                return due;
            }
            waits = rest;
        }
        if self.context.store.env.clock.uptime().saturating_sub(started) < WAIT_MAX {
            // Nobody could be asked.
            self.context.tasks.sleep(RETRY_DELAY).await;
        }
        None
    }

    /// The origin, when something is due there.
    fn wait_for(&self, origin: QueueLocation) -> bucksaw_env::BoxFuture<Option<QueueLocation>> {
        let (tasks, net, due) =
            (Arc::clone(&self.context.tasks), Arc::clone(&self.context.net), self.store.fetch_threshold());
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
                    let call = async {
                        read_message::<QueueBacklogStatus>(net.call(peer.address, WAIT, message_body(&wait)?).await?)
                            .await
                    };
                    match with_timeout(&tasks, WAIT_MAX + answer, call).await {
                        Some(Ok(waits)) => waits.due,
                        Some(Err(error)) => {
                            debug!(node = %peer.node, %error, "a queue cannot be asked what waits");
                            false
                        }
                        None => false,
                    }
                }
            };
            is_due.then_some(origin)
        })
    }

    /// Takes from the queue that is due, then from others, until there is enough.
    async fn fetch_all(&self, due: QueueLocation) -> Vec<FetchedBatch> {
        let mut left = self.store.batch_bytes_max();
        let mut others = self.remote_queues();
        if self.queue.is_some() {
            others.push(QueueLocation::Local);
        }
        others.retain(|origin| *origin != due);
        let mut batches = Vec::new();
        let mut next = Some(due);
        while let Some(origin) = next {
            if let Some(haul) = self.fetch(origin, left).await {
                left = left.saturating_sub(haul.views.iter().map(|view| view.reach.text_bytes).sum());
                batches.push(haul);
            }
            next = None;
            if left > 0 && !others.is_empty() {
                let at = self.context.store.env.entropy.next_u64() % others.len() as u64;
                next = Some(others.swap_remove(at as usize));
            }
        }
        batches
    }

    /// How many lines of a kind were suppressed, when one may be logged now.
    fn may_log(&self, error: &LogRateLimiter) -> Option<u64> {
        error.check(self.context.store.env.clock.uptime())
    }

    /// Takes from a queue; `None` when nothing came of it.
    async fn fetch(&self, origin: QueueLocation, text_bytes: u64) -> Option<FetchedBatch> {
        let batch = match (origin, &self.queue) {
            (QueueLocation::Local, Some(queue)) => {
                let waits = QueueBacklogStatus::from(queue.backlog());
                FetchedBatch {
                    location: origin,
                    views: queue.reserve(text_bytes),
                    backlog: waits,
                    _spool_files: Vec::new(),
                }
            }
            (QueueLocation::Local, None) => return None,
            (QueueLocation::Remote(peer), _) => match fetch_from(&self.context, peer, text_bytes).await {
                Ok(haul) => haul,
                Err((error, ids)) => {
                    if let Some(suppressed) = self.may_log(&self.log_limits.take) {
                        warn!(node = %peer.node, %error, suppressed, "cannot fetch segments from a queue: will retry");
                    }
                    let unreadable = match error {
                        FetchError::Damaged(id) => vec![id],
                        FetchError::Io(_) => Vec::new(),
                    };
                    ack(&self.context, peer, Vec::new(), ids, unreadable).await;
                    return None;
                }
            },
        };
        (!batch.views.is_empty()).then_some(batch)
    }

    /// Packs what was taken, and has it kept by others.
    async fn write_and_replicate(&self, batches: Vec<FetchedBatch>) -> (Vec<FetchedBatch>, StoreOutcome) {
        let (store, queue) = (Arc::clone(&self.store), self.queue.clone());
        let packed = self.context.run_blocking_low_priority(move || {
            let views: Vec<SegmentView> = batches.iter().flat_map(|haul| haul.views.iter().cloned()).collect();
            let packed = store.append(&StoreBatch {
                segments: &views,
                backlog: total_backlog(&batches),
                queue: queue.as_deref(),
            });
            (batches, packed)
        });
        let Some((batches, packed)) = packed.await else {
            // The reservations end by themselves.
            return (Vec::new(), StoreOutcome::Failed { unreadable: None });
        };
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                if let Some(suppressed) = self.may_log(&self.log_limits.store) {
                    warn!(%error, suppressed, "cannot store a fetched batch: will retry");
                }
                let unreadable = match error {
                    StoreError::Input { segment, .. } => Some(segment),
                    _ => None,
                };
                return (batches, StoreOutcome::Failed { unreadable });
            }
        };
        let stored = self.replicate(packed).await;
        (batches, stored)
    }

    async fn replicate(&self, batch: StoredBatch) -> StoreOutcome {
        let StoredBatch { text_bytes, segment } = batch;
        let Some(stored) = segment else { return StoreOutcome::Replicated { text_bytes } };
        let copies = self.context.store.replication_factor();
        let kept = self.replicator.replicate(&stored, self.context.peers.stores(), copies - 1).await;
        if kept + 1 >= copies {
            return StoreOutcome::Replicated { text_bytes };
        }
        if let Some(suppressed) = self.may_log(&self.log_limits.copies) {
            warn!(segment = %stored.id(), kept, wanted = copies, suppressed, "too few replicas: the records stay in the queues");
        }
        if kept == 0 {
            // Nobody else has it, and its records will be stored anew.
            let store = Arc::clone(&self.context.store);
            run_blocking(&self.context.tasks, move || store.remove_segment(&stored)).await;
        }
        StoreOutcome::Failed { unreadable: None }
    }

    /// Tells all queues what came of their segments.
    async fn ack_all(&self, batches: &[FetchedBatch], stored: &StoreOutcome) {
        let settled = batches.iter().map(|haul| async {
            let ids: Vec<Id> = haul.views.iter().map(|view| view.id).collect();
            let (kept, returned, unreadable) = match stored {
                StoreOutcome::Replicated { .. } => (ids, Vec::new(), Vec::new()),
                StoreOutcome::Failed { unreadable } => {
                    let unreadable = unreadable.iter().filter(|id| ids.contains(id)).copied().collect();
                    (Vec::new(), ids, unreadable)
                }
            };
            match haul.location {
                QueueLocation::Remote(peer) => ack(&self.context, peer, kept, returned, unreadable).await,
                QueueLocation::Local => {
                    let Some(queue) = self.queue.clone() else { return };
                    let settle = move || {
                        queue.commit(&kept);
                        unreadable.iter().for_each(|id| queue.record_unreadable(*id));
                        queue.release(&returned);
                    };
                    run_blocking(&self.context.tasks, settle).await;
                }
            }
        });
        join_all(settled).await;
    }
}

/// What came of a gathering.
enum StoreOutcome {
    /// As many stores as wanted keep it.
    Replicated { text_bytes: u64 },
    /// It goes back.
    Failed { unreadable: Option<Id> },
}

/// What waited in all queues together.
fn total_backlog(batches: &[FetchedBatch]) -> QueueBacklog {
    batches.iter().fold(QueueBacklog::default(), |sum, FetchedBatch { backlog: waits, .. }| QueueBacklog {
        segments: sum.segments + waits.segments,
        text_bytes: sum.text_bytes + waits.text_bytes,
        oldest_age: sum.oldest_age.max(Duration::from_millis(waits.oldest_ms)),
        has_waiting_client: sum.has_waiting_client || waits.has_waiting_client,
    })
}
