//! What a store takes from a queue, its own or another node's: `ingest/take` and `ingest/settle`, as who calls them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{File, within};
use bucksaw_ingest::View;
use bucksaw_ingest::handover::{
    Rest, SETTLE, Settle, TAKE, Take, Taken, TakenSegment, Waits, message, read_head, read_message,
};
use bucksaw_record::Id;
use bucksaw_segment::queue::survey;
use tracing::{debug, warn};

use crate::linked::{Linked, late};
use crate::peers::Peer;
use crate::shelf::Shelf;

/// How long segments are reserved. Longer than all takes that goes well; what goes wrong holds them up for so long.
const LEASE: Duration = Duration::from_secs(60);

/// How long a call that ends a reservation may take, and how often it is tried.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const SETTLE_TRIES: u32 = 3;

/// How long nothing is done when telling failed.
const REST: Duration = Duration::from_secs(1);

/// Where segments wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Here,
    There(Peer),
}

/// What was taken from one queue.
pub(crate) struct Haul {
    pub(crate) origin: Origin,
    pub(crate) views: Vec<View>,
    pub(crate) waits: Waits,
    /// The files of what came from another node.
    pub(crate) _spools: Vec<Spool>,
}

/// Segments that came damaged over the network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a queue segment came damaged")]
    Damaged(Id),
}

/// Fetches segments. When it fails, those that may have been reserved are told.
pub(crate) async fn take_from(linked: &Linked, peer: Peer, text_bytes: u64) -> Result<Haul, (TakeError, Vec<Id>)> {
    let Linked { node, tasks, net, patience, .. } = linked;
    let unknown = |error: io::Error| (TakeError::from(error), Vec::new());
    let take = Take { holder: *node, text_bytes, lease_ms: ms(LEASE) };
    let call = async { read_head::<Taken>(net.call(peer.address, TAKE, message(&take)?).await?).await };
    let answer = within(tasks, patience.answer, call).await.ok_or_else(|| unknown(late()))?;
    let (taken, mut rest) = answer.map_err(unknown)?;
    let ids: Vec<Id> = taken.segments.iter().map(|segment| segment.id).collect();
    let mut haul = Haul { origin: Origin::There(peer), views: Vec::new(), waits: taken.waits, _spools: Vec::new() };
    for segment in taken.segments {
        let fetched = fetch(linked, &segment, &mut rest).await;
        let (view, spool) = fetched.map_err(|error| (error, ids.clone()))?;
        linked.shelf.metrics.pulled_bytes.inc_by(segment.bytes);
        haul.views.push(view);
        haul._spools.push(spool);
    }
    Ok(haul)
}

/// Brings one file here, and checks it.
async fn fetch(linked: &Linked, segment: &TakenSegment, rest: &mut Rest) -> Result<(View, Spool), TakeError> {
    let shelf = Arc::clone(&linked.shelf);
    let spool = linked.away(move || Spool::create(&shelf)).await?;
    linked.append(rest, segment.bytes, &spool.file).await?;
    let (id, text_bytes) = (segment.id, segment.text_bytes);
    let (file, path) = (Arc::clone(&spool.file), spool.path().to_owned());
    let surveyed = linked.away(move || Ok(survey(&file, &path, id).map(|found| (found, file, path))));
    let Ok((found, file, path)) = surveyed.await? else { return Err(TakeError::Damaged(id)) };
    let own = bucksaw_segment::queue::read_header(&*file, &path).is_ok_and(|own| own == id);
    // What a damaged file still holds may be less than its queue had counted, never more.
    let whole = found.damage.is_empty() && found.torn_bytes == 0 && found.reach.text_bytes <= text_bytes;
    if !own || !whole {
        return Err(TakeError::Damaged(id));
    }
    Ok((View::of_survey(id, file, path, found), spool))
}

/// Tells another node's queue. When it does not hear of it, the reservation ends and the segments are taken again.
pub(crate) async fn tell(linked: &Linked, peer: Peer, stored: Vec<Id>, returned: Vec<Id>, unreadable: Vec<Id>) {
    let Linked { node, tasks, net, .. } = linked;
    let settle = Settle { holder: *node, stored, returned, unreadable };
    for _ in 0..SETTLE_TRIES {
        let call =
            async { read_message::<serde_json::Value>(net.call(peer.address, SETTLE, message(&settle)?).await?).await };
        match within(tasks, SETTLE_MAX, call).await {
            Some(Ok(_)) => return,
            Some(Err(error)) => {
                debug!(node = %peer.node, %error, "a queue was not told what came of its segments");
                tasks.sleep(REST).await;
            }
            None => {}
        }
    }
    if let Some(suppressed) = linked.shelf.may_log(|errors| &errors.settle) {
        warn!(node = %peer.node, suppressed, "a queue cannot be told what came of its segments: they may be stored twice, which does no harm");
    }
}

/// A file from another node that is of use until this is dropped.
pub(crate) struct Spool {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
}

impl Spool {
    pub(crate) fn create(shelf: &Arc<Shelf>) -> io::Result<Self> {
        let path = shelf.dir.join(format!("{}.tmp", shelf.new_id()));
        let file = shelf.doors.fs.create(&path)?;
        Ok(Self { shelf: Arc::clone(shelf), path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shelf.discard(&self.path);
    }
}

/// A time in whole milliseconds, as calls tell it.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
