//! Serves the queue to the stores of other nodes: three calls and their messages.
//!
//! ```text
//!   store                                            queue
//!     ── ingest/wait  {text_bytes, age_ms, wait_ms} ──►  waits until segments are due, or for the given time
//!     ◄──────────────  {backlog} ───────────────────
//!     ── ingest/fetch  {holder, text_bytes, lease_ms} ►  leases the oldest
//!     ◄──────────────  {segments}, then their bytes ──   a queue file each
//!     ── ingest/ack {holder, stored, returned, unreadable} ►  commits, releases
//! ```
//! Messages are JSON behind their length ([`encode_head`]). Readers ignore unknown fields and give absent ones a default, so
//! adjacent versions understand each other.
//!
//! A segment is sent as its file up to the last whole frame. If there is damage between frames, the intact ones are sent as a
//! file with the same id. Checksums detect damage on the way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, BodyWriter, Tasks, run_blocking, to_millis, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::{encode_head, message_body, read_message};
use bucksaw_segment::{FileHeader, queue};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::append_slot::stream_frame;
use crate::queue::{FetchThreshold, Queue, QueueBacklog};
use crate::segment::SegmentView;

/// The call that waits until something is due.
pub const WAIT: &str = "ingest/wait";
/// The call that reserves segments and fetches them.
pub const FETCH: &str = "ingest/fetch";
/// The call that ends a reservation.
pub const ACK: &str = "ingest/ack";

/// Bytes of a file that are read and sent at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Maximum duration of a wait, so that the store notices a dead connection.
const WAIT_MAX: Duration = Duration::from_secs(60);

const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// Waits until segments are due. See [`FetchThreshold`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRequest {
    /// The backlog that is due, in bytes of text.
    pub text_bytes: u64,
    /// The age of the oldest segment that is due, in milliseconds.
    pub age_ms: u64,
    /// Maximum wait, in milliseconds.
    pub wait_ms: u64,
}

/// The [`QueueBacklog`], as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueBacklogStatus {
    /// Whether it is due.
    pub due: bool,
    /// The number of segments.
    pub segments: usize,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// The age of the oldest, in milliseconds.
    pub oldest_ms: u64,
    /// Whether a client waits for the commit.
    pub has_waiting_client: bool,
    /// Whether the queue is halted.
    pub full: bool,
}

/// Leases segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchRequest {
    /// The node that asks.
    pub holder: Id,
    /// Bytes of text at which the batch is full; at least one segment is sent.
    pub text_bytes: u64,
    /// Duration of the lease, in milliseconds.
    pub lease_ms: u64,
}

/// The leased segments. Their bytes follow in the same order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FetchReply {
    /// The segments.
    pub segments: Vec<FetchedSegment>,
    /// The backlog before the fetch.
    pub backlog: QueueBacklogStatus,
}

/// A leased segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchedSegment {
    /// Its id.
    pub id: Id,
    /// Bytes of the file that follows.
    pub bytes: u64,
    /// Bytes of its text.
    pub text_bytes: u64,
}

/// Ends leases.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AckRequest {
    /// The node that had them.
    pub holder: Id,
    /// Fully replicated segments.
    #[serde(default)]
    pub stored: Vec<Id>,
    /// The other ones.
    #[serde(default)]
    pub returned: Vec<Id>,
    /// Those of `returned` that arrived damaged.
    #[serde(default)]
    pub unreadable: Vec<Id>,
}

/// Answers the calls of stores.
#[derive(Clone, Debug)]
pub struct LeaseServer {
    queue: Arc<Queue>,
    tasks: Arc<dyn Tasks>,
}

impl LeaseServer {
    /// Serves the segments of `queue`.
    pub fn new(queue: Arc<Queue>, tasks: Arc<dyn Tasks>) -> Self {
        Self { queue, tasks }
    }

    /// Answers [`WAIT`].
    ///
    /// # Errors
    /// If the request is invalid.
    pub async fn wait(&self, body: Body) -> io::Result<Body> {
        let request: WaitRequest = read_message(body).await?;
        let due = FetchThreshold { text_bytes_min: request.text_bytes, age_min: Duration::from_millis(request.age_ms) };
        self.queue.wait_due(&self.tasks, due, Duration::from_millis(request.wait_ms).min(WAIT_MAX)).await;
        message_body(&self.backlog_status(due))
    }

    fn backlog_status(&self, due: FetchThreshold) -> QueueBacklogStatus {
        let backlog = self.queue.backlog();
        QueueBacklogStatus {
            due: self.queue.is_due(due, &backlog),
            full: self.queue.is_halted(),
            ..QueueBacklogStatus::from(backlog)
        }
    }

    /// Answers [`FETCH`]. A segment that cannot be sent whole is released at once.
    ///
    /// # Errors
    /// If the request is invalid.
    pub async fn fetch(&self, body: Body) -> io::Result<Body> {
        let request: FetchRequest = read_message(body).await?;
        let backlog = self.backlog_status(FetchThreshold { text_bytes_min: 0, age_min: Duration::ZERO });
        let lease = Duration::from_millis(request.lease_ms).min(LEASE_MAX);
        let queue = Arc::clone(&self.queue);
        let files = run_blocking(&self.tasks, move || {
            let views = queue.lease(request.holder, lease, request.text_bytes);
            let open_segment = |view: SegmentView| {
                let id = view.id;
                OutgoingSegment::new(view).inspect_err(|_| {
                    queue.record_unreadable(id);
                    queue.release_lease(request.holder, &[id]);
                })
            };
            views.into_iter().filter_map(|view| open_segment(view).ok()).collect::<Vec<OutgoingSegment>>()
        });
        let files = files.await.ok_or_else(|| io::Error::other("reading the segments panicked"))?;
        let segments = files.iter().map(OutgoingSegment::fetched_segment).collect();
        let head = encode_head(&FetchReply { segments, backlog })?;
        let (writer, answer) = Body::channel();
        let (queue, tasks) = (Arc::clone(&self.queue), Arc::clone(&self.tasks));
        self.tasks.spawn(Box::pin(async move {
            let ids: Vec<Id> = files.iter().map(|file| file.view.id).collect();
            match send_segments(&tasks, &writer, head, files).await {
                Ok(bytes) => {
                    queue.metrics().sent_bytes.inc_by(bytes);
                    // The store returns what did not arrive.
                    let _ = writer.end().await;
                }
                Err(error) => {
                    queue.release_lease(request.holder, &ids);
                    writer.fail(error).await;
                }
            }
        }));
        Ok(answer)
    }

    /// Answers [`ACK`].
    ///
    /// # Errors
    /// If the request is invalid.
    pub async fn ack(&self, body: Body) -> io::Result<Body> {
        let request: AckRequest = read_message(body).await?;
        let queue = Arc::clone(&self.queue);
        let done = run_blocking(&self.tasks, move || {
            queue.commit(&request.stored);
            for id in &request.unreadable {
                // The copy may be damaged, so this node checks its own file.
                if queue.inspect(*id).is_err() {
                    queue.record_unreadable(*id);
                }
            }
            queue.release_lease(request.holder, &request.returned);
        });
        done.await.ok_or_else(|| io::Error::other("ending the leases panicked"))?;
        message_body(&serde_json::json!({}))
    }
}

impl From<QueueBacklog> for QueueBacklogStatus {
    fn from(backlog: QueueBacklog) -> Self {
        Self {
            due: false,
            segments: backlog.segments,
            text_bytes: backlog.text_bytes,
            oldest_ms: to_millis(backlog.oldest_age),
            has_waiting_client: backlog.has_waiting_client,
            full: false,
        }
    }
}

impl Queue {
    /// Waits until the backlog is due, at most for `wait`; returns whether it is. The backlog of a closed queue is due.
    pub async fn wait_due(&self, tasks: &Arc<dyn Tasks>, due: FetchThreshold, wait: Duration) -> bool {
        let until = self.env.clock.uptime() + wait;
        loop {
            let changed = self.pending_notify.notified();
            let backlog = self.backlog();
            if self.is_due(due, &backlog) {
                return true;
            }
            let left = until.saturating_sub(self.env.clock.uptime());
            if left.is_zero() {
                return false;
            }
            // Then the oldest segment reaches the age.
            let until_age = if backlog.segments > 0 { due.age_min.saturating_sub(backlog.oldest_age) } else { left };
            with_timeout(tasks, until_age.min(left).max(Duration::from_millis(1)), changed).await;
        }
    }
}

/// A segment that is being sent.
struct OutgoingSegment {
    view: SegmentView,
    /// The file, if it had to be rebuilt.
    rebuilt: Option<Vec<u8>>,
}

impl OutgoingSegment {
    fn new(view: SegmentView) -> io::Result<Self> {
        let rebuilt = view.salvaged_frames().is_some().then(|| rebuild_file(&view)).transpose()?;
        Ok(Self { view, rebuilt })
    }

    fn fetched_segment(&self) -> FetchedSegment {
        let bytes = self.rebuilt.as_ref().map_or(self.view.end, |file| file.len() as u64);
        FetchedSegment { id: self.view.id, bytes, text_bytes: self.view.reach.text_bytes }
    }
}

/// A queue file of all intact frames, with the same id, so that their checksums are valid. Fails if one cannot be read, because
/// the commit of the segment would remove it.
fn rebuild_file(view: &SegmentView) -> io::Result<Vec<u8>> {
    let cipher = view.cipher();
    let header = FileHeader { id: view.id, version: view.version() };
    let mut file = queue::encode_header(header.with_encryption(cipher.is_some())).to_vec();
    for (number, labels) in (0..).zip(view.streams()) {
        file.extend_from_slice(&stream_frame(number, labels, queue::checksum_seed(view.id), cipher.as_deref())?);
    }
    let mut frames = view.frames(0);
    for position in view.salvaged_frames().unwrap_or_default() {
        frames.seek(position.offset);
        let header = frames.peek_header().map_err(io::Error::other)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        file.extend_from_slice(&view.read_bytes(position.offset, header.frame_len() as usize)?);
    }
    Ok(file)
}

async fn send_segments(
    tasks: &Arc<dyn Tasks>,
    writer: &BodyWriter,
    head: Bytes,
    files: Vec<OutgoingSegment>,
) -> io::Result<u64> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    writer.send(head).await.map_err(gone)?;
    let mut sent = 0;
    for file in files {
        sent += file.fetched_segment().bytes;
        if let Some(rebuilt) = file.rebuilt {
            writer.send(rebuilt).await.map_err(gone)?;
            continue;
        }
        let mut at = 0;
        while at < file.view.end {
            let view = file.view.clone();
            let read = run_blocking(tasks, move || view.read_bytes(at, CHUNK_BYTES)).await;
            let chunk = read.ok_or_else(|| io::Error::other("reading the segment panicked"))??;
            at += chunk.len() as u64;
            writer.send(chunk).await.map_err(gone)?;
        }
    }
    Ok(sent)
}
