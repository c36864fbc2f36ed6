//! Moves the batches of segments into the send window, and commits the segments that are acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogLimits, log_limited};
use bucksaw_ingest::{Queue, QueueSegment, SegmentState};
use bucksaw_record::{Id, Labels};
use bucksaw_segment::ReadError;
use bucksaw_segment::queue::HEADER_LEN;

use super::bytes_limit::BytesLimit;
use super::segment_batches::{NextBatch, SegmentBatches};
use crate::WhenFull;
use crate::batch_builder::ShippedBatch;
use crate::send_window::SendWindow;
use crate::source_acks::SourceAcks;

/// The number of waiting segments from which further ones are closed by size only.
const SEGMENTS_MANY: usize = 8;

/// How long nothing is read after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Ships the queue of local listeners.
pub(crate) struct QueueShipper {
    queue: Arc<Queue>,
    window: Arc<SendWindow>,
    /// The labels of the agent.
    labels: Labels,
    limit: BytesLimit,
    when_full: WhenFull,
    acks: SourceAcks,
    /// The number of the next batch.
    next: u64,
    /// The segment that is read, from its first frame on while it is active.
    reading: Option<SegmentBatches>,
    /// The closed segments whose batches are all in the window or acknowledged, and the number behind the last batch of each.
    shipped: VecDeque<(u64, Id)>,
    dropped_records: u64,
    /// When reading is tried again after an error.
    retry_at: Duration,
    log_limits: LogLimits,
}

impl QueueShipper {
    pub(super) fn new(
        queue: Arc<Queue>,
        (bytes_max, when_full): (u64, WhenFull),
        window: Arc<SendWindow>,
        labels: Labels,
        log_limits: LogLimits,
    ) -> Self {
        Self {
            queue,
            window,
            labels,
            limit: BytesLimit::new(bytes_max),
            when_full,
            acks: SourceAcks::default(),
            next: 0,
            reading: None,
            shipped: VecDeque::new(),
            dropped_records: 0,
            retry_at: Duration::ZERO,
            log_limits,
        }
    }

    /// Commits what is acknowledged, and fills the send window.
    pub(super) fn step(&mut self, now: Duration) {
        self.commit_acked();
        match self.when_full {
            WhenFull::Block => self.limit.update(&self.queue),
            WhenFull::DropOldest => while self.limit.is_exceeded(&self.queue) && self.drop_oldest() {},
        }
        self.fill_window(now);
        let closed = self.queue.readable_segments().iter().filter(|segment| is_closed(segment)).count();
        self.queue.set_closes_by_age(closed < SEGMENTS_MANY);
    }

    /// Commits the segments whose batches are all acknowledged.
    pub(super) fn commit_acked(&mut self) {
        let acked = self.acks.next_unacked();
        let mut ids = Vec::new();
        while let Some((_, id)) = self.shipped.front().copied().filter(|(end, _)| *end <= acked) {
            self.shipped.pop_front();
            ids.push(id);
        }
        if !ids.is_empty() {
            self.remove(&ids);
        }
    }

    /// Removes segments that are not needed any more, at once, because their space may be.
    fn remove(&self, ids: &[Id]) {
        self.queue.commit(ids);
        self.queue.forget(ids);
    }

    /// Whether every record is acknowledged, and the queue has no segment.
    pub(super) fn is_drained(&self) -> bool {
        self.shipped.is_empty() && self.queue.uncommitted_segments().is_empty()
    }

    /// Whether the queue needs no work until the next append: it has no files, and accepts records.
    pub(super) fn is_idle(&self) -> bool {
        !self.queue.is_halted() && self.queue.readable_segments().is_empty()
    }

    /// Segments with records that are not acknowledged.
    pub(super) fn waiting_segments(&self) -> usize {
        self.queue.readable_segments().iter().filter(|segment| self.is_waiting(segment)).count()
    }

    fn is_waiting(&self, segment: &QueueSegment) -> bool {
        match segment.state() {
            SegmentState::Committed => false,
            SegmentState::Pending | SegmentState::Reserved => true,
            SegmentState::Active => {
                let is_acked = |reading: &SegmentBatches| {
                    reading.id() == segment.id() && reading.is_read() && self.acks.next_unacked() >= self.next
                };
                segment.end() > HEADER_LEN as u64 && !self.reading.as_ref().is_some_and(is_acked)
            }
        }
    }

    /// Records dropped because the queue was full.
    pub(super) fn dropped_records(&self) -> u64 {
        self.dropped_records
    }

    fn fill_window(&mut self, now: Duration) {
        while self.window.has_space() && now >= self.retry_at {
            let Some(mut reading) = self.reading.take().or_else(|| self.oldest_unread()) else { return };
            match reading.next(&self.queue) {
                Ok(NextBatch::Batch(batch)) => {
                    self.window.push(ShippedBatch { ticket: Some(self.acks.ticket(self.next, true)), ..batch }, now);
                    self.next += 1;
                    self.reading = Some(reading);
                }
                Ok(NextBatch::Wait) => {
                    self.reading = Some(reading);
                    return;
                }
                Ok(NextBatch::End) => self.shipped.push_back((self.next, reading.id())),
                Err(error) => self.handle_unreadable(reading, &error, now),
            }
        }
    }

    /// The batches of the oldest segment that was not read.
    fn oldest_unread(&self) -> Option<SegmentBatches> {
        let segments = self.queue.readable_segments();
        let is_unread = |segment: &&Arc<QueueSegment>| {
            let state = segment.state();
            // A closed segment without records, which a power cut has left, is committed too.
            state != SegmentState::Committed
                && (state != SegmentState::Active || segment.end() > HEADER_LEN as u64)
                && self.shipped.iter().all(|(_, id)| *id != segment.id())
        };
        let oldest = segments.iter().find(is_unread)?;
        Some(SegmentBatches::new(Arc::clone(oldest), &self.labels))
    }

    /// Reads a segment again later. The queue looks for the intact frames of a closed one, and quarantines it after some attempts.
    fn handle_unreadable(&mut self, reading: SegmentBatches, error: &ReadError, now: Duration) {
        let id = reading.id();
        log_limited!(self.log_limits, warn, segment = %id, %error, "a segment of the queue cannot be read; retrying");
        self.retry_at = now + RETRY_DELAY;
        if !reading.is_active() {
            self.queue.record_unreadable(id);
        }
        let is_there = self.queue.readable_segments().iter().any(|segment| segment.id() == id);
        self.reading = is_there.then_some(reading);
    }

    /// Drops the oldest closed segment; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let (id, end, unread) = if let Some((end, id)) = self.shipped.pop_front() {
            (id, end, 0)
        } else {
            let oldest = self.reading.take().or_else(|| self.oldest_unread());
            match oldest {
                Some(oldest) if !oldest.is_active() => (oldest.id(), self.next, oldest.unread_records()),
                active => {
                    self.reading = active;
                    return false;
                }
            }
        };
        let records = unread + self.window.drop_before(&self.acks, end);
        self.remove(&[id]);
        self.dropped_records += records;
        log_limited!(self.log_limits, warn, records, "the queue of the listeners is full: dropped the oldest records");
        true
    }
}

fn is_closed(segment: &QueueSegment) -> bool {
    matches!(segment.state(), SegmentState::Pending | SegmentState::Reserved)
}
