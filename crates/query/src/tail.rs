//! Follows new records in the segments of the queue, as these grow.
//!
//! A tail reads at its own pace and delays no other work. It keeps the segments that it has not read to their end, also
//! after they were committed or removed. A tail that lags too far behind skips to the end and reports the skipped bytes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_ingest::QueueSegment;
use bucksaw_record::{Expr, Id, LabelScope, Millis, RecordView};
use bucksaw_scan::Plan;
use bucksaw_segment::Chunk;
use bucksaw_segment::queue::HEADER_LEN;

use crate::engine::Engine;
use crate::match_buffer::{MatchBuffer, RowIds, SealedMatches};
use crate::recent_ids::RecentIds;
use crate::request::{Cancel, Request, RequestError};
use crate::result_budget::QueryAccount;
use crate::text_scan::{MatchChunk, scan_text};
use crate::unit::visit_frames;

/// Bytes that one poll reads: the memory of a tail, and the size of its steps while it catches up.
const POLL_BYTES: u64 = 1 << 20;

/// Bytes that one poll reads when the memory of queries is used up.
const POLL_BYTES_MIN: u64 = 64 << 10;

/// Follows the records that this node accepts.
pub(crate) struct Tail {
    engine: Arc<Engine>,
    request: Request,
    plan: Plan,
    account: QueryAccount,
    cursors: BTreeMap<Id, SegmentCursor>,
    seen_appends: u64,
    /// Whether the last poll left bytes that can be read at once.
    pub(crate) has_more: bool,
    /// `None` where the caller drops records that were sent twice.
    recent_ids: Option<RecentIds>,
}

struct SegmentCursor {
    segment: Arc<QueueSegment>,
    at: u64,
}

/// The request of a tail: matching records of any time.
pub(crate) fn tail_request(expr: Expr, scope: Option<LabelScope>) -> Request {
    Request::new(expr, Millis(0), Millis::MAX).within(scope)
}

impl Engine {
    /// Follows the records that this node accepts from now on. The time and limit of the request have no effect.
    pub(crate) fn tail(self: &Arc<Self>, request: Request) -> Result<Tail, RequestError> {
        let plan = Plan::compile(&request.expr)?;
        let request = tail_request(request.expr, request.scope);
        self.metrics.tails.inc();
        let seen_appends = self.queue.appends();
        let at_end = |segment: Arc<QueueSegment>| (segment.id(), SegmentCursor { at: segment.end(), segment });
        let cursors = self.queue.readable_segments().into_iter().map(at_end).collect();
        let (engine, account) = (Arc::clone(self), self.result_budget.account());
        Ok(Tail { engine, request, plan, account, cursors, seen_appends, has_more: false, recent_ids: None })
    }
}

impl Tail {
    /// Returns each record once, also one that a client sent twice.
    pub(crate) fn with_recent_ids(mut self) -> Self {
        self.recent_ids = Some(RecentIds::for_memory(self.engine.config.result_bytes_max));
        self
    }

    /// The matches since the last poll, by id, and the bytes that were skipped because the tail was too slow.
    pub(crate) fn poll(&mut self) -> (SealedMatches, u64) {
        self.seen_appends = self.engine.queue.appends();
        let readable = self.engine.queue.readable_segments();
        for segment in &readable {
            let start = || SegmentCursor { segment: Arc::clone(segment), at: HEADER_LEN as u64 };
            self.cursors.entry(segment.id()).or_insert_with(start);
        }
        let skipped_bytes = self.skip_lag();
        let mut matches = MatchBuffer::default();
        let (reservation, mut bytes_left) = match self.account.try_reserve(POLL_BYTES) {
            Some(reservation) => (reservation, POLL_BYTES),
            None => (self.account.force_reserve(POLL_BYTES_MIN), POLL_BYTES_MIN),
        };
        self.has_more = false;
        let erasures = self.engine.store.erasures();
        let recent_ids = &mut self.recent_ids;
        for SegmentCursor { segment, at } in self.cursors.values_mut() {
            let view = segment.view();
            if *at >= view.end {
                continue;
            }
            // Otherwise a frame of each further segment would be read.
            if bytes_left == 0 {
                self.has_more = true;
                break;
            }
            let mut collect = |chunk: MatchChunk<'_>| {
                if let MatchChunk::Text(chunk, bound) = chunk {
                    let stream = matches.stream_index(chunk.labels);
                    let mut ids = RowIds::new(&chunk.rows);
                    bound.find(chunk, &|| false, &mut |found| {
                        let id = ids.id_of_row(found.row);
                        if recent_ids.as_mut().is_none_or(|recent| recent.insert(id)) {
                            let text = chunk.text.get(found.start..found.end).unwrap_or_default();
                            let record = RecordView::new(text, chunk.rows.attributes(found.row));
                            matches.push(id, stream, &chunk.rows, found.row, record);
                        }
                        ControlFlow::Continue(())
                    });
                }
                ControlFlow::Continue(())
            };
            scan_text(&self.request, &self.plan, &Cancel::default(), &mut collect, &mut |visit| {
                let mut visit_and_account = |chunk: &Chunk<'_>| {
                    bytes_left = bytes_left.saturating_sub(chunk.text.len() as u64);
                    let flow = visit(chunk);
                    if bytes_left == 0 { ControlFlow::Break(()) } else { flow }
                };
                *at = visit_frames(&view, *at, &erasures, &mut visit_and_account, &mut |error| {
                    tracing::warn!(%error, "cannot tail frames of a queue segment");
                });
            });
            self.has_more |= *at < view.end;
        }
        // Segments that were read to the end and will not grow are not kept.
        let is_readable = |id: &Id| readable.binary_search_by_key(id, |segment| segment.id()).is_ok();
        self.cursors.retain(|id, cursor| is_readable(id) || cursor.at < cursor.segment.end());
        matches.sort(Id::bits);
        (matches.seal(reservation), skipped_bytes)
    }

    /// Whether the next poll would read something, be it a match or not.
    pub(crate) fn has_new_appends(&self) -> bool {
        self.has_more || self.engine.queue.appends() != self.seen_appends
    }

    fn skip_lag(&mut self) -> u64 {
        let lag = |cursor: &SegmentCursor| cursor.segment.end().saturating_sub(cursor.at);
        let lag_bytes: u64 = self.cursors.values().map(lag).sum();
        if lag_bytes <= self.engine.config.tail_lag_bytes_max {
            return 0;
        }
        for cursor in self.cursors.values_mut() {
            cursor.at = cursor.segment.end();
        }
        self.engine.metrics.tail_skipped_bytes.inc_by(lag_bytes);
        lag_bytes
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.engine.metrics.tails.dec();
    }
}
