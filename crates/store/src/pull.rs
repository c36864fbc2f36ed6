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

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Net, Tasks, run, within};
use bucksaw_ingest::handover::{
    Rest, SETTLE, Settle, TAKE, Take, Taken, TakenSegment, WAIT, Wait, Waits, message, read_head, read_message,
};
use bucksaw_ingest::{Backlog, Queue, View};
use bucksaw_record::Id;
use bucksaw_segment::queue::survey;
use futures_util::future::{join_all, select_all};
use tracing::{debug, warn};

use crate::gather::Packed;
use crate::peers::{Patience, Peer, Peers};
use crate::receive::Spool;
use crate::replicate::Replicate;
use crate::shelf::{Shelf, StoreError};

/// A wait is begun anew so often, for nodes come and go.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How long segments are reserved. Longer than all takes that goes well; what goes wrong holds them up for so long.
const LEASE: Duration = Duration::from_secs(60);

/// How long a call that ends a reservation may take, and how often it is tried.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const SETTLE_TRIES: u32 = 3;

/// How long nothing is done when stores are missing, or when something failed.
const REST: Duration = Duration::from_secs(1);

/// What pulling needs.
#[derive(Clone, Debug)]
pub struct Pull {
    /// This node.
    pub node: Id,
    /// Its store.
    pub shelf: Arc<Shelf>,
    /// Its queue, if it takes records in.
    pub queue: Option<Arc<Queue>>,
    /// The others.
    pub peers: Arc<dyn Peers>,
    /// Tasks and time.
    pub tasks: Arc<dyn Tasks>,
    /// How others are called.
    pub net: Arc<dyn Net>,
    /// How long others are waited for.
    pub patience: Patience,
    /// Does work that nobody waits for: at a lower priority, where that can be had.
    pub modestly: fn(&(dyn Fn() + Sync)),
}

/// Pulls, one gathering after the other.
#[derive(Debug)]
pub struct Puller {
    pull: Pull,
    replicate: Replicate,
}

/// A queue in which something is due.
#[derive(Clone, Copy, Debug)]
pub struct Due(Origin);

/// Where segments wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Here,
    There(Peer),
}

/// What was taken from one queue.
struct Haul {
    origin: Origin,
    views: Vec<View>,
    waits: Waits,
    /// The files of what came from another node.
    _spools: Vec<Spool>,
}

/// Segments that came damaged over the network.
#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a queue segment came damaged")]
    Damaged(Id),
}

impl Puller {
    /// A puller; [`Self::wait`] and [`Self::bring`] have to be called again and again.
    #[must_use]
    pub fn new(pull: Pull) -> Self {
        let replicate = Replicate {
            shelf: Arc::clone(&pull.shelf),
            tasks: Arc::clone(&pull.tasks),
            net: Arc::clone(&pull.net),
            patience: pull.patience,
        };
        Self { pull, replicate }
    }

    /// Waits until something is due in a queue; `None` when nothing was for a while, or when too few stores are there to
    /// keep it.
    pub async fn wait(&self) -> Option<Due> {
        if self.copies_missing() > 0 {
            self.pull.tasks.sleep(REST).await;
            return None;
        }
        self.first_due().await.map(Due)
    }

    /// Takes what is due, and what waits elsewhere, to the shelf, and has it kept by as many stores as wanted. Returns the
    /// bytes of text that are.
    pub async fn bring(&self, due: Due) -> u64 {
        let hauls = self.take_all(due.0).await;
        if hauls.is_empty() {
            // Another store was faster.
            self.pull.tasks.sleep(REST / 20).await;
            return 0;
        }
        let text_bytes = self.keep(hauls).await;
        if text_bytes == 0 {
            self.pull.tasks.sleep(REST).await;
        }
        text_bytes
    }

    /// Brings what is left in this node's queue, due or not. Returns the bytes of text that were stored as often as wanted;
    /// 0 when there is nothing left, or when it failed.
    pub async fn drain(&self) -> u64 {
        if self.copies_missing() > 0 {
            return 0;
        }
        let Some(haul) = self.take(Origin::Here, self.pull.shelf.room_for_gathering()).await else { return 0 };
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
        let missing = self.pull.shelf.copies().saturating_sub(self.pull.peers.stores().len() + 1);
        self.pull.shelf.metrics.copies_missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
        missing
    }

    /// Where something is due; `None` when nothing was for a while.
    async fn first_due(&self) -> Option<Origin> {
        let mut waits: Vec<_> =
            self.pull.peers.queues().into_iter().map(|peer| self.wait_for(Origin::There(peer))).collect();
        if self.pull.queue.is_some() {
            waits.push(self.wait_for(Origin::Here));
        }
        let started = self.pull.shelf.doors.clock.uptime();
        while !waits.is_empty() {
            let (due, _, rest) = select_all(waits).await;
            if due.is_some() {
                return due;
            }
            waits = rest;
        }
        if self.pull.shelf.doors.clock.uptime().saturating_sub(started) < WAIT_MAX {
            // Nobody could be asked.
            self.pull.tasks.sleep(REST).await;
        }
        None
    }

    /// The origin, when something is due there.
    fn wait_for(&self, origin: Origin) -> bucksaw_doors::Waiting<Option<Origin>> {
        let (tasks, net, due) = (Arc::clone(&self.pull.tasks), Arc::clone(&self.pull.net), self.pull.shelf.due());
        let (queue, answer) = (self.pull.queue.clone(), self.pull.patience.answer);
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
        let mut left = self.pull.shelf.room_for_gathering();
        let mut others: Vec<Origin> = self.pull.peers.queues().into_iter().map(Origin::There).collect();
        if self.pull.queue.is_some() {
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
                let at = self.pull.shelf.doors.entropy.next_u64() % others.len() as u64;
                next = Some(others.swap_remove(at as usize));
            }
        }
        hauls
    }

    /// Takes from a queue; `None` when nothing came of it.
    async fn take(&self, origin: Origin, text_bytes: u64) -> Option<Haul> {
        let haul = match (origin, &self.pull.queue) {
            (Origin::Here, Some(queue)) => {
                let waits = Waits::from(queue.backlog());
                Haul { origin, views: queue.reserve(text_bytes), waits, _spools: Vec::new() }
            }
            (Origin::Here, None) => return None,
            (Origin::There(peer), _) => match self.take_from(peer, text_bytes).await {
                Ok(haul) => haul,
                Err((error, ids)) => {
                    warn!(node = %peer.node, %error, "cannot take segments from a queue: they are taken again");
                    let unreadable = match error {
                        TakeError::Damaged(id) => vec![id],
                        TakeError::Io(_) => Vec::new(),
                    };
                    self.tell(peer, Vec::new(), ids, unreadable).await;
                    return None;
                }
            },
        };
        (!haul.views.is_empty()).then_some(haul)
    }

    /// Fetches segments. When it fails, those that may have been reserved are told.
    async fn take_from(&self, peer: Peer, text_bytes: u64) -> Result<Haul, (TakeError, Vec<Id>)> {
        let Pull { node, tasks, net, patience, .. } = &self.pull;
        let unknown = |error: io::Error| (TakeError::from(error), Vec::new());
        let take = Take { holder: *node, text_bytes, lease_ms: ms(LEASE) };
        let call = async { read_head::<Taken>(net.call(peer.address, TAKE, message(&take)?).await?).await };
        let answer = within(tasks, patience.answer, call).await.ok_or_else(|| unknown(late()))?;
        let (taken, mut rest) = answer.map_err(unknown)?;
        let ids: Vec<Id> = taken.segments.iter().map(|segment| segment.id).collect();
        let mut haul = Haul { origin: Origin::There(peer), views: Vec::new(), waits: taken.waits, _spools: Vec::new() };
        for segment in taken.segments {
            let fetched = self.fetch(&segment, &mut rest).await;
            let (view, spool) = fetched.map_err(|error| (error, ids.clone()))?;
            self.pull.shelf.metrics.pulled_bytes.inc_by(segment.bytes);
            haul.views.push(view);
            haul._spools.push(spool);
        }
        Ok(haul)
    }

    /// Brings one file here, and checks it.
    async fn fetch(&self, segment: &TakenSegment, rest: &mut Rest) -> Result<(View, Spool), TakeError> {
        let Pull { tasks, shelf, patience, .. } = &self.pull;
        let created = Arc::clone(shelf);
        let spool = self.away(move || Spool::create(&created)).await?;
        let mut left = segment.bytes;
        while left > 0 {
            let piece = within(tasks, patience.piece, rest.some(left)).await.ok_or_else(late)??;
            let piece = piece.ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)?;
            left -= piece.len() as u64;
            let file = Arc::clone(&spool.file);
            self.away(move || file.append(&[&piece])).await?;
        }
        let (id, text_bytes) = (segment.id, segment.text_bytes);
        let (file, path) = (Arc::clone(&spool.file), spool.path().to_owned());
        let surveyed = self.away(move || Ok(survey(&file, &path).map(|found| (found, file, path))));
        let Ok((found, file, path)) = surveyed.await? else { return Err(TakeError::Damaged(id)) };
        let own = bucksaw_segment::queue::read_header(&*file, &path).is_ok_and(|own| own == id);
        // What a damaged file still holds may be less than its queue had counted, never more.
        let whole = found.damage.is_empty() && found.torn_bytes == 0 && found.reach.text_bytes <= text_bytes;
        if !own || !whole {
            return Err(TakeError::Damaged(id));
        }
        Ok((View::of_survey(id, file, path, found), spool))
    }

    /// Packs what was taken, and has it kept by others.
    async fn store(&self, hauls: Vec<Haul>) -> (Vec<Haul>, Stored) {
        let (shelf, queue, modestly) = (Arc::clone(&self.pull.shelf), self.pull.queue.clone(), self.pull.modestly);
        let packed = run(&self.pull.tasks, move || {
            let views: Vec<View> = hauls.iter().flat_map(|haul| haul.views.iter().cloned()).collect();
            let backlog = backlog(&hauls);
            let mut packed = None;
            let slot = std::sync::Mutex::new(&mut packed);
            let work = || {
                let made = shelf.pack(&views, backlog, queue.as_deref());
                **crate::shelf::lock(&slot) = Some(made);
            };
            if shelf.is_pressed() || backlog.awaited {
                work();
            } else {
                modestly(&work);
            }
            (hauls, packed)
        });
        let Some((hauls, Some(packed))) = packed.await else {
            // The reservations end by themselves.
            return (Vec::new(), Stored::Failed { unreadable: None });
        };
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                warn!(%error, "cannot store what was taken from the queues: it is taken again");
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
        let copies = self.pull.shelf.copies();
        let kept = self.replicate.to_others(&stored, self.pull.peers.stores(), copies - 1).await;
        if kept + 1 >= copies {
            return Stored::Kept { text_bytes };
        }
        warn!(segment = %stored.id(), kept, wanted = copies, "too few stores keep a copy: the records stay in the queues");
        if kept == 0 {
            // Nobody else has it, and its records will be stored anew.
            let shelf = Arc::clone(&self.pull.shelf);
            run(&self.pull.tasks, move || shelf.withdraw(&stored)).await;
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
                Origin::There(peer) => self.tell(peer, kept, returned, unreadable).await,
                Origin::Here => {
                    let Some(queue) = self.pull.queue.clone() else { return };
                    let settle = move || {
                        queue.commit(&kept);
                        unreadable.iter().for_each(|id| queue.unreadable(*id));
                        queue.release(&returned);
                    };
                    run(&self.pull.tasks, settle).await;
                }
            }
        });
        join_all(settled).await;
    }

    /// Tells another node's queue. When it does not hear of it, the reservation ends and the segments are taken again.
    async fn tell(&self, peer: Peer, stored: Vec<Id>, returned: Vec<Id>, unreadable: Vec<Id>) {
        let Pull { node, tasks, net, .. } = &self.pull;
        let settle = Settle { holder: *node, stored, returned, unreadable };
        for _ in 0..SETTLE_TRIES {
            let call = async {
                read_message::<serde_json::Value>(net.call(peer.address, SETTLE, message(&settle)?).await?).await
            };
            match within(tasks, SETTLE_MAX, call).await {
                Some(Ok(_)) => return,
                Some(Err(error)) => {
                    debug!(node = %peer.node, %error, "a queue was not told what came of its segments");
                    tasks.sleep(REST).await;
                }
                None => {}
            }
        }
        warn!(node = %peer.node, "a queue cannot be told what came of its segments: they may be stored twice, which does no harm");
    }

    async fn away<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let done = run(&self.pull.tasks, work).await;
        done.unwrap_or_else(|| Err(io::Error::other("it was given up because of a bug")))
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

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nothing came for too long")
}
