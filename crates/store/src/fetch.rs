//! The store's side of the lease protocol: fetches segments from another node's queue and acknowledges them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{to_millis, with_timeout};
use bucksaw_ingest::SegmentView;
use bucksaw_ingest::lease::{ACK, AckRequest, FETCH, FetchReply, FetchRequest, FetchedSegment, QueueBacklogStatus};
use bucksaw_record::Id;
use bucksaw_rpc::{BodyRemainder, call_message, message_body, read_head};
use bucksaw_segment::ReadError;
use bucksaw_segment::queue::scan_segment;
use tracing::debug;

use crate::peers::Peer;
use crate::store_context::{StoreContext, timed_out};
use crate::temp_file::TempFile;

/// Duration of a lease: longer than a successful batch takes. A store that fails delays its segments by this much.
const LEASE_DURATION: Duration = Duration::from_secs(60);

/// Timeout and number of attempts of an ack.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const ACK_ATTEMPTS_MAX: u32 = 3;

/// Pause after a failed ack.
const ACK_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whose queue segments come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLocation {
    /// This node.
    Local,
    /// Another node.
    Remote(Peer),
}

pub(crate) struct FetchedBatch {
    pub(crate) location: QueueLocation,
    pub(crate) views: Vec<SegmentView>,
    pub(crate) backlog: QueueBacklogStatus,
    /// The local files of segments from another node.
    pub(crate) _files: Vec<TempFile>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a fetched queue segment is damaged")]
    Damaged(Id),
}

/// Fetches segments from another node's queue. The error has the ids of segments that may be leased.
pub(crate) async fn fetch_from(
    context: &StoreContext,
    peer: Peer,
    text_bytes: u64,
) -> Result<FetchedBatch, (FetchError, Vec<Id>)> {
    let StoreContext { node, tasks, net, timeouts, .. } = context;
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
        _files: Vec::new(),
    };
    for segment in reply.segments {
        let fetched = fetch_segment(context, &segment, &mut rest).await;
        let (view, file) = fetched.map_err(|error| (error, ids.clone()))?;
        context.metrics.pulled_bytes.inc_by(segment.bytes);
        batch.views.push(view);
        batch._files.push(file);
    }
    Ok(batch)
}

/// Receives one segment into a local file, and checks it.
async fn fetch_segment(
    context: &StoreContext,
    segment: &FetchedSegment,
    rest: &mut BodyRemainder,
) -> Result<(SegmentView, TempFile), FetchError> {
    let (env, dir) = (context.env.clone(), context.temp_dir.clone());
    let temp = context.run_blocking(move || TempFile::create(&env, &dir)).await?;
    context.append_to_file(rest, segment.bytes, &temp.file).await?;
    let (id, text_bytes) = (segment.id, segment.text_bytes);
    let (file, path) = (Arc::clone(&temp.file), temp.path.clone());
    let scan = context.run_blocking(move || Ok(scan_segment(&file, &path, id).map(|found| (found, file, path))));
    let (found, file, path) = match scan.await? {
        Ok(scanned) => scanned,
        // The file is intact: the queue must not take it for damaged.
        Err(error @ ReadError::MissingKey { .. }) => return Err(FetchError::Io(io::Error::other(error))),
        Err(_) => return Err(FetchError::Damaged(id)),
    };
    let has_id = bucksaw_segment::queue::read_header(&*file, &path).is_ok_and(|found| found.id == id);
    // A damaged file may contain less than its queue has counted, but never more.
    let is_intact = found.damage.is_empty() && found.tail_bytes == 0 && found.summary.text_bytes <= text_bytes;
    if !has_id || !is_intact {
        return Err(FetchError::Damaged(id));
    }
    Ok((SegmentView::from_scan(id, file, path, found), temp))
}

/// Acknowledges segments to another node's queue. Returns whether an attempt succeeded.
pub(crate) async fn ack(context: &StoreContext, peer: Peer, request: AckRequest) -> bool {
    let StoreContext { tasks, net, .. } = context;
    for _ in 0..ACK_ATTEMPTS_MAX {
        match call_message::<serde_json::Value>(tasks, &**net, peer.address, ACK, &request, ACK_TIMEOUT).await {
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => {
                debug!(node = %peer.node, %error, "a queue did not receive an acknowledgement");
                tasks.sleep(ACK_RETRY_DELAY).await;
            }
        }
    }
    false
}
