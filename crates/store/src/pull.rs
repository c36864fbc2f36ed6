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

use bucksaw_doors::{Repeats, run, within};
use bucksaw_ingest::handover::{WAIT, Wait, Waits, message, read_message};
use bucksaw_ingest::{Backlog, Queue, View};
use bucksaw_record::Id;
use futures_util::future::{join_all, select_all};
use tracing::{debug, warn};

use crate::gather::Packed;
use crate::haul::{Haul, Origin, TakeError, ms, take_from, tell};
use crate::linked::Linked;
use crate::replicate::Replicate;
use crate::shelf::StoreError;

/// A wait is begun anew so often, for nodes come and go.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// After a gathering nothing is taken for as long as it took, and no longer than this, so that more of what clients wait for
/// goes into the next segment: each costs syncs, and is merged again.
const LINGER_MAX: Duration = Duration::from_millis(20);

/// How long nothing is done when stores are missing, or when something failed.
const REST: Duration = Duration::from_secs(1);

/// Pulls, one gathering after the other.
#[derive(Debug)]
pub struct Puller {
    linked: Linked,
    /// The node's own queue, if it has one.
    queue: Option<Arc<Queue>>,
    replicate: Replicate,
    errors: Errors,
}

/// Errors that occur again at each try. Each is logged at most once a minute.
#[derive(Debug, Default)]
struct Errors {
    take: Repeats,
    store: Repeats,
    copies: Repeats,
}

/// A queue in which something is due.
#[derive(Clone, Copy, Debug)]
pub struct Due(Origin);

impl Puller {
    /// A puller for a store, and the node's own queue, if it has one; [`Self::wait`] and [`Self::bring`] have to be called
    /// again and again.
    #[must_use]
    pub fn new(linked: Linked, queue: Option<Arc<Queue>>) -> Self {
        Self { replicate: Replicate(linked.clone()), linked, queue, errors: Errors::default() }
    }

    /// Waits until something is due in a queue; `None` when nothing was for a while, when too few stores are there to keep
    /// it, or when the memory for what is known of segments is used up.
    pub async fn wait(&self) -> Option<Due> {
        // Queues keep what the shelf has no memory for.
        if self.copies_missing() > 0 || self.linked.shelf.index.is_full() {
            self.linked.tasks.sleep(REST).await;
            return None;
        }
        self.first_due().await.map(Due)
    }

    /// Takes what is due, and what waits elsewhere, to the shelf, and has it kept by as many stores as wanted. Returns the
    /// bytes of text that are.
    pub async fn bring(&self, due: Due) -> u64 {
        let clock = &self.linked.shelf.doors.clock;
        let begun = clock.uptime();
        let hauls = self.take_all(due.0).await;
        if hauls.is_empty() {
            // Another store was faster.
            self.linked.tasks.sleep(REST / 20).await;
            return 0;
        }
        let text_bytes = self.keep(hauls).await;
        let linger = clock.uptime().saturating_sub(begun).min(LINGER_MAX);
        self.linked.tasks.sleep(if text_bytes == 0 { REST } else { linger }).await;
        text_bytes
    }

    /// Brings what is left in this node's queue, due or not. Returns the bytes of text that were stored as often as wanted;
    /// 0 when there is nothing left, or when it failed.
    pub async fn drain(&self) -> u64 {
        if self.copies_missing() > 0 || self.linked.shelf.index.is_full() {
            return 0;
        }
        let Some(haul) = self.take(Origin::Here, self.linked.shelf.room_for_gathering()).await else { return 0 };
        self.keep(vec![haul]).await
    }

    async fn keep(&self, hauls: Vec<Haul>) -> u64 {
        let (hauls, stored) = self.store(hauls).await;
        self.settle(&hauls, &stored).await;
        match stored {
            Stored::Kept { text_bytes } => text_bytes,
            Stored::Failed { .. } => 0,
        }
    }

    /// How many stores there are too few.
    fn copies_missing(&self) -> usize {
        let missing = self.linked.shelf.copies().saturating_sub(self.linked.peers.stores().len() + 1);
        self.linked.shelf.metrics.copies_missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
        missing
    }

    /// The queues of other nodes; none while their records would make too many files.
    fn others(&self) -> Vec<Origin> {
        if self.linked.shelf.is_crowded() {
            return Vec::new();
        }
        self.linked.peers.queues().into_iter().map(Origin::There).collect()
    }

    /// Where something is due; `None` when nothing was for a while.
    async fn first_due(&self) -> Option<Origin> {
        let mut waits: Vec<_> = self.others().into_iter().map(|origin| self.wait_for(origin)).collect();
        if self.queue.is_some() {
            waits.push(self.wait_for(Origin::Here));
        }
        let started = self.linked.shelf.doors.clock.uptime();
        while !waits.is_empty() {
            let (due, _, rest) = select_all(waits).await;
            if due.is_some() {
                return due;
            }
            waits = rest;
        }
        if self.linked.shelf.doors.clock.uptime().saturating_sub(started) < WAIT_MAX {
            // Nobody could be asked.
            self.linked.tasks.sleep(REST).await;
        }
        None
    }

    /// The origin, when something is due there.
    fn wait_for(&self, origin: Origin) -> bucksaw_doors::Waiting<Option<Origin>> {
        let (tasks, net, due) = (Arc::clone(&self.linked.tasks), Arc::clone(&self.linked.net), self.linked.shelf.due());
        let (queue, answer) = (self.queue.clone(), self.linked.patience.answer);
        Box::pin(async move {
            let is_due = match (origin, queue) {
                (Origin::Here, Some(queue)) => queue.wait_due(&tasks, due, WAIT_MAX).await,
                (Origin::Here, None) => false,
                (Origin::There(peer), _) => {
                    let wait = Wait { text_bytes: due.text_bytes, age_ms: ms(due.age), wait_ms: ms(WAIT_MAX) };
                    let call =
                        async { read_message::<Waits>(net.call(peer.address, WAIT, message(&wait)?).await?).await };
                    match within(&tasks, WAIT_MAX + answer, call).await {
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
    async fn take_all(&self, due: Origin) -> Vec<Haul> {
        let mut left = self.linked.shelf.room_for_gathering();
        let mut others = self.others();
        if self.queue.is_some() {
            others.push(Origin::Here);
        }
        others.retain(|origin| *origin != due);
        let mut hauls = Vec::new();
        let mut next = Some(due);
        while let Some(origin) = next {
            if let Some(haul) = self.take(origin, left).await {
                left = left.saturating_sub(haul.views.iter().map(|view| view.reach.text_bytes).sum());
                hauls.push(haul);
            }
            next = None;
            if left > 0 && !others.is_empty() {
                let at = self.linked.shelf.doors.entropy.next_u64() % others.len() as u64;
                next = Some(others.swap_remove(at as usize));
            }
        }
        hauls
    }

    /// How many lines of a kind were suppressed, when one may be logged now.
    fn may_log(&self, error: &Repeats) -> Option<u64> {
        error.pass(self.linked.shelf.doors.clock.uptime())
    }

    /// Takes from a queue; `None` when nothing came of it.
    async fn take(&self, origin: Origin, text_bytes: u64) -> Option<Haul> {
        let haul = match (origin, &self.queue) {
            (Origin::Here, Some(queue)) => {
                let waits = Waits::from(queue.backlog());
                Haul { origin, views: queue.reserve(text_bytes), waits, _spools: Vec::new() }
            }
            (Origin::Here, None) => return None,
            (Origin::There(peer), _) => match take_from(&self.linked, peer, text_bytes).await {
                Ok(haul) => haul,
                Err((error, ids)) => {
                    if let Some(suppressed) = self.may_log(&self.errors.take) {
                        warn!(node = %peer.node, %error, suppressed, "cannot take segments from a queue: they are taken again");
                    }
                    let unreadable = match error {
                        TakeError::Damaged(id) => vec![id],
                        TakeError::Io(_) => Vec::new(),
                    };
                    tell(&self.linked, peer, Vec::new(), ids, unreadable).await;
                    return None;
                }
            },
        };
        (!haul.views.is_empty()).then_some(haul)
    }

    /// Packs what was taken, and has it kept by others.
    async fn store(&self, hauls: Vec<Haul>) -> (Vec<Haul>, Stored) {
        let (shelf, queue) = (Arc::clone(&self.linked.shelf), self.queue.clone());
        let packed = self.linked.away_modestly(move || {
            let views: Vec<View> = hauls.iter().flat_map(|haul| haul.views.iter().cloned()).collect();
            let packed = shelf.pack(&views, backlog(&hauls), queue.as_deref());
            (hauls, packed)
        });
        let Some((hauls, packed)) = packed.await else {
            // The reservations end by themselves.
            return (Vec::new(), Stored::Failed { unreadable: None });
        };
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                if let Some(suppressed) = self.may_log(&self.errors.store) {
                    warn!(%error, suppressed, "cannot store what was taken from the queues: it is taken again");
                }
                let unreadable = match error {
                    StoreError::Input { segment, .. } => Some(segment),
                    _ => None,
                };
                return (hauls, Stored::Failed { unreadable });
            }
        };
        let stored = self.copy(packed).await;
        (hauls, stored)
    }

    async fn copy(&self, packed: Packed) -> Stored {
        let Packed { text_bytes, stored } = packed;
        let Some(stored) = stored else { return Stored::Kept { text_bytes } };
        let copies = self.linked.shelf.copies();
        let kept = self.replicate.to_others(&stored, self.linked.peers.stores(), copies - 1).await;
        if kept + 1 >= copies {
            return Stored::Kept { text_bytes };
        }
        if let Some(suppressed) = self.may_log(&self.errors.copies) {
            warn!(segment = %stored.id(), kept, wanted = copies, suppressed, "too few stores keep a copy: the records stay in the queues");
        }
        if kept == 0 {
            // Nobody else has it, and its records will be stored anew.
            let shelf = Arc::clone(&self.linked.shelf);
            run(&self.linked.tasks, move || shelf.withdraw(&stored)).await;
        }
        Stored::Failed { unreadable: None }
    }

    /// Tells all queues what came of their segments.
    async fn settle(&self, hauls: &[Haul], stored: &Stored) {
        let settled = hauls.iter().map(|haul| async {
            let ids: Vec<Id> = haul.views.iter().map(|view| view.id).collect();
            let (kept, returned, unreadable) = match stored {
                Stored::Kept { .. } => (ids, Vec::new(), Vec::new()),
                Stored::Failed { unreadable } => {
                    let unreadable = unreadable.iter().filter(|id| ids.contains(id)).copied().collect();
                    (Vec::new(), ids, unreadable)
                }
            };
            match haul.origin {
                Origin::There(peer) => tell(&self.linked, peer, kept, returned, unreadable).await,
                Origin::Here => {
                    let Some(queue) = self.queue.clone() else { return };
                    let settle = move || {
                        queue.commit(&kept);
                        unreadable.iter().for_each(|id| queue.unreadable(*id));
                        queue.release(&returned);
                    };
                    run(&self.linked.tasks, settle).await;
                }
            }
        });
        join_all(settled).await;
    }
}

/// What came of a gathering.
enum Stored {
    /// As many stores as wanted keep it.
    Kept { text_bytes: u64 },
    /// It goes back.
    Failed { unreadable: Option<Id> },
}

/// What waited in all queues together.
fn backlog(hauls: &[Haul]) -> Backlog {
    hauls.iter().fold(Backlog::default(), |sum, Haul { waits, .. }| Backlog {
        segments: sum.segments + waits.segments,
        text_bytes: sum.text_bytes + waits.text_bytes,
        oldest: sum.oldest.max(Duration::from_millis(waits.oldest_ms)),
        awaited: sum.awaited || waits.awaited,
    })
}
