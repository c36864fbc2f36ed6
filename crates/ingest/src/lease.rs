//! Handing segments to the stores of other nodes: three calls, and the messages that they carry.
//!
//! ```text
//!   store                                            queue
//!     ── ingest/wait   {due, wait_ms} ─────────────►   until what waits is due, or the time is over
//!     ◄──────────────  {backlog} ───────────────────
//!     ── ingest/fetch   {holder, text_bytes, lease_ms} ►  reserves the oldest
//!     ◄──────────────  {segments}, then their bytes ──   each a whole queue file, one after the other
//!     ── ingest/ack {holder, stored, returned, unreadable} ►  commits, releases
//! ```
//! Messages are JSON behind their length ([`head`]); fields that are not known are passed over, and those that are
//! missing have their defaults, so that adjacent versions understand each other.
//!
//! The bytes of a segment are those of its file, up to the last whole frame; where something lies broken between frames,
//! those that are whole are put together to a file of the same id. So what is handed over is sound, or was damaged on its
//! way, and the checksums tell.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, BodyWriter, Tasks, run_blocking, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::{encode_head, message_body, read_message};
use bucksaw_segment::queue;
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

/// A wait is no longer than this, whatever is asked for: an answer now and then shows that the other side is there.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A reservation is no longer than this.
const LEASE_MAX: Duration = Duration::from_secs(3_600);

/// Asks to be told when something is due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitRequest {
    /// When there is so much text, in bytes,
    pub text_bytes: u64,
    /// or when the oldest has waited so long, in milliseconds.
    pub age_ms: u64,
    /// For how long to wait at the most, in milliseconds.
    pub wait_ms: u64,
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueBacklogStatus {
    /// Whether it is due.
    pub due: bool,
    /// Segments that wait.
    pub segments: usize,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// How long the oldest has waited, in milliseconds.
    pub oldest_ms: u64,
    /// Whether a client waits for the commit.
    pub has_waiting_client: bool,
    /// Whether nothing is accepted until there is room on the disk.
    pub full: bool,
}

/// Asks for segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchRequest {
    /// The node that asks.
    pub holder: Id,
    /// As many as have so much text together, in bytes; at least one.
    pub text_bytes: u64,
    /// For how long they are reserved, in milliseconds.
    pub lease_ms: u64,
}

/// What is handed over. The bytes follow, in the same order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FetchReply {
    /// The segments.
    pub segments: Vec<FetchedSegment>,
    /// What waited before these were taken.
    pub backlog: QueueBacklogStatus,
}

/// A segment that is handed over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchedSegment {
    /// Its id.
    pub id: Id,
    /// Bytes of the file that follows.
    pub bytes: u64,
    /// Bytes of its text.
    pub text_bytes: u64,
}

/// Ends reservations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AckRequest {
    /// The node that had them.
    pub holder: Id,
    /// Those whose records are stored as often as they have to be.
    #[serde(default)]
    pub stored: Vec<Id>,
    /// Those that are not.
    #[serde(default)]
    pub returned: Vec<Id>,
    /// Those of the returned that came damaged.
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
    /// Hands over what is in the queue.
    #[must_use]
    pub fn new(queue: Arc<Queue>, tasks: Arc<dyn Tasks>) -> Self {
        Self { queue, tasks }
    }

    /// Answers [`WAIT`].
    ///
    /// # Errors
    /// What is wrong with the call.
    pub async fn wait(&self, body: Body) -> io::Result<Body> {
        let asked: WaitRequest = read_message(body).await?;
        let due = FetchThreshold { text_bytes_min: asked.text_bytes, age_min: Duration::from_millis(asked.age_ms) };
        self.queue.wait_due(&self.tasks, due, Duration::from_millis(asked.wait_ms).min(WAIT_MAX)).await;
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

    /// Answers [`TAKE`]. What cannot be sent whole is given back at once.
    ///
    /// # Errors
    /// What is wrong with the call.
    pub async fn fetch(&self, body: Body) -> io::Result<Body> {
        let asked: FetchRequest = read_message(body).await?;
        let backlog = self.backlog_status(FetchThreshold { text_bytes_min: 0, age_min: Duration::ZERO });
        let lease = Duration::from_millis(asked.lease_ms).min(LEASE_MAX);
        let queue = Arc::clone(&self.queue);
        let files = run_blocking(&self.tasks, move || {
            let views = queue.lease(asked.holder, lease, asked.text_bytes);
            let open_segment = |view: SegmentView| {
                let id = view.id;
                OutgoingSegment::new(view).inspect_err(|_| {
                    queue.record_unreadable(id);
                    queue.release_lease(asked.holder, &[id]);
                })
            };
            views.into_iter().filter_map(|view| open_segment(view).ok()).collect::<Vec<OutgoingSegment>>()
        });
        let files = files.await.ok_or_else(|| io::Error::other("nothing was handed over because of a bug"))?;
        let segments = files.iter().map(OutgoingSegment::fetched_segment).collect();
        let head = encode_head(&FetchReply { segments, backlog })?;
        let (writer, answer) = Body::channel();
        let (queue, tasks) = (Arc::clone(&self.queue), Arc::clone(&self.tasks));
        self.tasks.spawn(Box::pin(async move {
            let ids: Vec<Id> = files.iter().map(|file| file.view.id).collect();
            match send_segments(&tasks, &writer, head, files).await {
                Ok(bytes) => {
                    queue.metrics().sent_bytes.inc_by(bytes);
                    // The store gives back what it did not get.
                    let _ = writer.end().await;
                }
                Err(error) => {
                    queue.release_lease(asked.holder, &ids);
                    writer.fail(error).await;
                }
            }
        }));
        Ok(answer)
    }

    /// Answers [`SETTLE`].
    ///
    /// # Errors
    /// What is wrong with the call.
    pub async fn ack(&self, body: Body) -> io::Result<Body> {
        let asked: AckRequest = read_message(body).await?;
        let queue = Arc::clone(&self.queue);
        let done = run_blocking(&self.tasks, move || {
            queue.commit(&asked.stored);
            for id in &asked.unreadable {
                // It may have been damaged on its way, or there: what counts is what is found here.
                if queue.inspect(*id).is_err() {
                    queue.record_unreadable(*id);
                }
            }
            queue.release_lease(asked.holder, &asked.returned);
        });
        done.await.ok_or_else(|| io::Error::other("the segments could not be settled because of a bug"))?;
        message_body(&serde_json::json!({}))
    }
}

impl From<QueueBacklog> for QueueBacklogStatus {
    fn from(backlog: QueueBacklog) -> Self {
        Self {
            due: false,
            segments: backlog.segments,
            text_bytes: backlog.text_bytes,
            oldest_ms: u64::try_from(backlog.oldest_age.as_millis()).unwrap_or(u64::MAX),
            has_waiting_client: backlog.has_waiting_client,
            full: false,
        }
    }
}

impl Queue {
    /// Resolves when what waits is due, at most after `wait`; says whether it is. Of a queue that is closed all is due.
    pub async fn wait_due(&self, tasks: &Arc<dyn Tasks>, due: FetchThreshold, wait: Duration) -> bool {
        let until = self.env.clock.uptime() + wait;
        loop {
            let pended = self.pending_notify.notified();
            let backlog = self.backlog();
            if self.is_due(due, &backlog) {
                return true;
            }
            let now = self.env.clock.uptime();
            let left = until.saturating_sub(now);
            if left.is_zero() {
                return false;
            }
            // By then the oldest is old enough, if no other comes.
            let ages = if backlog.segments > 0 { due.age_min.saturating_sub(backlog.oldest_age) } else { left };
            with_timeout(tasks, ages.min(left).max(Duration::from_millis(1)), pended).await;
        }
    }
}

/// A segment on its way.
struct OutgoingSegment {
    view: SegmentView,
    /// The whole file, where it had to be put together.
    rebuilt: Option<Vec<u8>>,
}

impl OutgoingSegment {
    fn new(view: SegmentView) -> io::Result<Self> {
        let mended = view.salvaged_frames().is_some().then(|| rebuild_file(&view)).transpose()?;
        Ok(Self { view, rebuilt: mended })
    }

    fn fetched_segment(&self) -> FetchedSegment {
        let bytes = self.rebuilt.as_ref().map_or(self.view.end, |file| file.len() as u64);
        FetchedSegment { id: self.view.id, bytes, text_bytes: self.view.reach.text_bytes }
    }
}

/// A queue file of the whole frames of another, with the same id: so their checksums fit. All of them, or none: what is left
/// out here is let go of when the rest is stored.
fn rebuild_file(view: &SegmentView) -> io::Result<Vec<u8>> {
    let mut file = queue::encode_header(view.id).to_vec();
    for (number, labels) in (0..).zip(view.streams()) {
        file.extend_from_slice(&stream_frame(number, labels, queue::checksum_seed(view.id)));
    }
    let mut frames = view.frames(0);
    for place in view.salvaged_frames().unwrap_or_default() {
        frames.seek(place.offset);
        let header = frames.next_header().map_err(io::Error::other)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        file.extend_from_slice(&view.read_bytes(place.offset, header.frame_len() as usize)?);
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
        if let Some(mended) = file.rebuilt {
            writer.send(mended).await.map_err(gone)?;
            continue;
        }
        let mut at = 0;
        while at < file.view.end {
            let view = file.view.clone();
            let read = run_blocking(tasks, move || view.read_bytes(at, CHUNK_BYTES)).await;
            let piece = read.ok_or_else(|| io::Error::other("the segment was not read because of a bug"))??;
            at += piece.len() as u64;
            writer.send(piece).await.map_err(gone)?;
        }
    }
    Ok(sent)
}
