//! Following new records: from the queue's segments, as they grow.
//!
//! A follower reads at its own pace and holds nobody up. It keeps the segments that it has not read to their end, also
//! when they were committed or removed meanwhile; one that is too far behind skips to the end and says how much it
//! skipped.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_ingest::QueueSegment;
use bucksaw_record::{Expr, Id, Labels};
use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::Chunk;
use bucksaw_segment::queue::HEADER_LEN;

use crate::engine::Engine;
use crate::match_buffer::{MatchBuffer, RecordRef, RowIds, SealedMatches};
use crate::recent_ids::RecentIds;
use crate::request::RequestError;
use crate::result_budget::QueryAccount;

/// Bytes that are read at one go, so that a follower that has much to catch up on hands out what it has, and one that
/// stalls holds no more than this.
const POLL_BYTES: u64 = 1 << 20;

/// The same when queries hold all the memory that there is for them.
const POLL_BYTES_MIN: u64 = 64 << 10;

/// Follows new records.
pub struct Tail {
    engine: Arc<Engine>,
    plan: Plan,
    account: QueryAccount,
    cursors: BTreeMap<Id, SegmentCursor>,
    seen_appends: u64,
    more: bool,
    /// `None` where the caller drops records that were sent twice.
    recent_ids: Option<RecentIds>,
}

struct SegmentCursor {
    segment: Arc<QueueSegment>,
    at: u64,
}

/// What came in since the last look.
#[derive(Debug, Default)]
pub struct TailBatch {
    /// Matching records, by id.
    matches: Option<SealedMatches>,
    /// Bytes that were skipped because the follower was too slow.
    pub skipped_bytes: u64,
}

impl TailBatch {
    /// Whether no record is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.matches.as_ref().is_none_or(|found| found.peek().is_none())
    }

    /// Shows the next record; `None` when there is none.
    pub fn visit_next<R>(&mut self, see: impl FnOnce(RecordRef<'_>) -> R) -> Option<R> {
        self.matches.as_mut()?.visit_next(see)
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tail").field("segments", &self.cursors.len()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Follows the records that this node accepts from now on.
    ///
    /// # Errors
    /// [`RequestError::Expression`].
    pub fn tail(self: &Arc<Self>, expr: &Expr) -> Result<Tail, RequestError> {
        Ok(Tail::start(Arc::clone(self), Plan::compile(expr)?))
    }
}

impl Tail {
    fn start(engine: Arc<Engine>, plan: Plan) -> Self {
        engine.metrics.tails.inc();
        let seen_appends = engine.queue.appends();
        let at_end = |segment: Arc<QueueSegment>| (segment.id(), SegmentCursor { at: segment.end(), segment });
        let cursors = engine.queue.readable_segments().into_iter().map(at_end).collect();
        Self {
            account: engine.result_budget.account(),
            engine,
            plan,
            cursors,
            seen_appends,
            more: false,
            recent_ids: None,
        }
    }

    /// Returns each record once, also one that a client sent twice.
    pub(crate) fn with_recent_ids(mut self) -> Self {
        self.recent_ids = Some(RecentIds::for_memory(self.engine.config.result_bytes_max));
        self
    }

    /// What came in since the last look; empty when nothing did. Does not wait: a look costs next to nothing when nothing
    /// was accepted.
    pub fn poll(&mut self) -> TailBatch {
        let appends = self.engine.queue.appends();
        let mut tailed = TailBatch::default();
        if appends == self.seen_appends && !self.more {
            return tailed;
        }
        self.seen_appends = appends;
        let readable = self.engine.queue.readable_segments();
        for segment in &readable {
            let begin = || SegmentCursor { segment: Arc::clone(segment), at: HEADER_LEN as u64 };
            self.cursors.entry(segment.id()).or_insert_with(begin);
        }
        tailed.skipped_bytes = self.skip_lag();
        let mut hits = MatchBuffer::default();
        let (share, mut budget) = match self.account.try_reserve(POLL_BYTES) {
            Some(share) => (share, POLL_BYTES),
            None => (self.account.force_reserve(POLL_BYTES_MIN), POLL_BYTES_MIN),
        };
        self.more = false;
        for cursor in self.cursors.values_mut() {
            let mut matcher = TailMatcher { plan: &self.plan, recent_ids: self.recent_ids.as_mut(), hits: &mut hits };
            self.more |= !read_segment(cursor, &mut matcher, &mut budget);
        }
        // What is read to the end and will not grow need not be held.
        let is_there = |id: &Id| readable.binary_search_by_key(id, |segment| segment.id()).is_ok();
        self.cursors.retain(|id, cursor| is_there(id) || cursor.at < cursor.segment.end());
        hits.sort(Id::bits);
        tailed.matches = Some(hits.seal(share));
        tailed
    }

    /// Whether the next look would find something new; most often not what the follower asked for.
    #[must_use]
    pub fn has_new_appends(&self) -> bool {
        self.more || self.engine.queue.appends() != self.seen_appends
    }

    /// Whether the last look left something that could be read at once.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.more
    }

    fn skip_lag(&mut self) -> u64 {
        let lag = |cursor: &SegmentCursor| cursor.segment.end().saturating_sub(cursor.at);
        let behind: u64 = self.cursors.values().map(lag).sum();
        if behind <= self.engine.config.tail_lag_bytes_max {
            return 0;
        }
        for cursor in self.cursors.values_mut() {
            cursor.at = cursor.segment.end();
        }
        self.engine.metrics.tail_skipped_bytes.inc_by(behind);
        behind
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.engine.metrics.tails.dec();
    }
}

/// Reads on; `false` when there is more than the budget allowed.
fn read_segment(cursor: &mut SegmentCursor, matcher: &mut TailMatcher<'_>, budget: &mut u64) -> bool {
    let view = cursor.segment.view();
    if view.end <= cursor.at {
        return true;
    }
    // Each of many segments would give a frame else.
    if *budget == 0 {
        return false;
    }
    let mut frames = view.frames(cursor.at);
    let mut bound: Option<(Labels, BoundPlan)> = None;
    // What is broken cannot be walked from end to end; its whole frames can be read. Such a segment is closed and small.
    if let Some(places) = view.salvaged_frames() {
        for place in places.iter().filter(|place| place.offset >= cursor.at) {
            frames.seek(place.offset);
            match frames.next_chunk() {
                Ok(Some(chunk)) => matcher.match_chunk(&chunk, &mut bound),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot tail a frame of a queue segment"),
            }
        }
        cursor.at = view.end;
        return true;
    }
    loop {
        match frames.next_chunk() {
            Ok(Some(chunk)) => {
                matcher.match_chunk(&chunk, &mut bound);
                *budget = budget.saturating_sub(chunk.text.len() as u64);
                cursor.at = frames.offset();
                if *budget == 0 {
                    return cursor.at >= view.end;
                }
            }
            Ok(None) => {
                cursor.at = view.end;
                return true;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tail the rest of a queue segment");
                cursor.at = view.end;
                return true;
            }
        }
    }
}

/// Collects the records of a tail that match.
struct TailMatcher<'a> {
    plan: &'a Plan,
    recent_ids: Option<&'a mut RecentIds>,
    hits: &'a mut MatchBuffer,
}

impl TailMatcher<'_> {
    fn match_chunk(&mut self, chunk: &Chunk<'_>, bound: &mut Option<(Labels, BoundPlan)>) {
        let fresh = match bound.take() {
            Some((labels, bound)) if labels == *chunk.labels => (labels, bound),
            _ => (chunk.labels.clone(), self.plan.bind(chunk.labels)),
        };
        let (_, bound) = bound.insert(fresh);
        let stream = self.hits.stream_index(chunk.labels);
        let mut ids = RowIds::new(&chunk.rows);
        bound.find(chunk, &|| false, &mut |found| {
            let id = ids.id_of_row(found.row);
            let is_new = self.recent_ids.as_mut().is_none_or(|recent| recent.insert(id));
            if is_new {
                let record = chunk.text.get(found.start..found.end).unwrap_or_default();
                self.hits.push(id, stream, &chunk.rows, found.row, record);
            }
            ControlFlow::Continue(())
        });
    }
}
