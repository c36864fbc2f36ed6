//! The store's side of the lease protocol: fetches segments from another node's queue and acknowledges them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{File, with_timeout};
use bucksaw_ingest::SegmentView;
use bucksaw_ingest::lease::{ACK, AckRequest, FETCH, FetchReply, FetchRequest, FetchedSegment, QueueBacklogStatus};
use bucksaw_record::Id;
use bucksaw_rpc::{BodyRemainder, message_body, read_head, read_message};
use bucksaw_segment::queue::scan_segment;
use tracing::{debug, warn};

use crate::peers::Peer;
use crate::replication_context::{ReplicationContext, timed_out};
use crate::segment_store::SegmentStore;

/// Duration of a lease: longer than a successful batch takes. A store that fails delays its segments by this much.
const LEASE_DURATION: Duration = Duration::from_secs(60);

/// Timeout and number of attempts of an ack.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const ACK_ATTEMPTS_MAX: u32 = 3;

/// Pause after a failed ack.
const ACK_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whose queue segments come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLocation {
    Local,
    Remote(Peer),
}

/// Segments fetched from one queue.
pub(crate) struct FetchedBatch {
    pub(crate) location: QueueLocation,
    pub(crate) views: Vec<SegmentView>,
    pub(crate) backlog: QueueBacklogStatus,
    /// The local files of segments from another node.
    pub(crate) _spool_files: Vec<SpoolFile>,
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a fetched queue segment is damaged")]
    Damaged(Id),
}

/// Fetches segments from another node's queue. The error has the ids of segments that may be leased.
pub(crate) async fn fetch_from(
    context: &ReplicationContext,
    peer: Peer,
    text_bytes: u64,
) -> Result<FetchedBatch, (FetchError, Vec<Id>)> {
    let ReplicationContext { node, tasks, net, timeouts, .. } = context;
    let unknown = |error: io::Error| (FetchError::from(error), Vec::new());
    let request = FetchRequest { holder: *node, text_bytes, lease_ms: to_millis(LEASE_DURATION) };
    let call = async { read_head::<FetchReply>(net.call(peer.address, FETCH, message_body(&request)?).await?).await };
    let answer = with_timeout(tasks, timeouts.answer, call).await.ok_or_else(|| unknown(timed_out()))?;
    let (reply, mut rest) = answer.map_err(unknown)?;
    let ids: Vec<Id> = reply.segments.iter().map(|segment| segment.id).collect();
    let mut batch = FetchedBatch {
        location: QueueLocation::Remote(peer),
        views: Vec::new(),
        backlog: reply.backlog,
        _spool_files: Vec::new(),
    };
    for segment in reply.segments {
        let fetched = fetch_segment(context, &segment, &mut rest).await;
        let (view, spool) = fetched.map_err(|error| (error, ids.clone()))?;
        context.store.metrics.pulled_bytes.inc_by(segment.bytes);
        batch.views.push(view);
        batch._spool_files.push(spool);
    }
    Ok(batch)
}

/// Receives one segment into a local file, and checks it.
async fn fetch_segment(
    context: &ReplicationContext,
    segment: &FetchedSegment,
    rest: &mut BodyRemainder,
) -> Result<(SegmentView, SpoolFile), FetchError> {
    let store = Arc::clone(&context.store);
    let spool = context.run_blocking(move || SpoolFile::create(&store)).await?;
    context.append_to_file(rest, segment.bytes, &spool.file).await?;
    let (id, text_bytes) = (segment.id, segment.text_bytes);
    let (file, path) = (Arc::clone(&spool.file), spool.path().to_owned());
    let scan = context.run_blocking(move || Ok(scan_segment(&file, &path, id).map(|found| (found, file, path))));
    let Ok((found, file, path)) = scan.await? else { return Err(FetchError::Damaged(id)) };
    let has_id = bucksaw_segment::queue::read_header(&*file, &path).is_ok_and(|found| found == id);
    // A damaged file may contain less than its queue has counted, but never more.
    let is_intact = found.damage.is_empty() && found.tail_bytes == 0 && found.summary.text_bytes <= text_bytes;
    if !has_id || !is_intact {
        return Err(FetchError::Damaged(id));
    }
    Ok((SegmentView::from_scan(id, file, path, found), spool))
}

/// Acknowledges segments to another node's queue. If all attempts fail, the lease expires and the segments are fetched again.
pub(crate) async fn ack(
    context: &ReplicationContext,
    peer: Peer,
    stored: Vec<Id>,
    returned: Vec<Id>,
    unreadable: Vec<Id>,
) {
    let ReplicationContext { node, tasks, net, .. } = context;
    let request = AckRequest { holder: *node, stored, returned, unreadable };
    for _ in 0..ACK_ATTEMPTS_MAX {
        let call = async {
            read_message::<serde_json::Value>(net.call(peer.address, ACK, message_body(&request)?).await?).await
        };
        match with_timeout(tasks, ACK_TIMEOUT, call).await {
            Some(Ok(_)) => return,
            Some(Err(error)) => {
                debug!(node = %peer.node, %error, "a queue did not receive an acknowledgement");
                tasks.sleep(ACK_RETRY_DELAY).await;
            }
            None => {}
        }
    }
    if let Some(suppressed) = context.store.may_log(|errors| &errors.ack) {
        warn!(node = %peer.node, suppressed, "cannot acknowledge segments to a queue: they may be stored twice, duplicates are dropped");
    }
}

/// A local file that is removed when this is dropped.
pub(crate) struct SpoolFile {
    pub(crate) store: Arc<SegmentStore>,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
}

impl SpoolFile {
    pub(crate) fn create(store: &Arc<SegmentStore>) -> io::Result<Self> {
        let path = store.dir.join(format!("{}.tmp", store.new_id()));
        let file = store.env.fs.create(&path)?;
        Ok(Self { store: Arc::clone(store), path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.store.discard(&self.path);
    }
}

/// A duration in whole milliseconds.
pub(crate) fn to_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
