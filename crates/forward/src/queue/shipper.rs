//! Moves the batches of closed segments into the send window, and commits the segments that are acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogLimits, log_limited};
use bucksaw_ingest::{Queue, SegmentState};
use bucksaw_record::{Id, Labels};
use bucksaw_segment::ReadError;

use super::bytes_limit::BytesLimit;
use super::segment_batches::SegmentBatches;
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
    reading: Option<SegmentBatches>,
    /// Records of the segment being read that are in no batch yet.
    unread_records: u64,
    /// The segments whose batches are all in the window or acknowledged, and the number behind the last batch of each.
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
            unread_records: 0,
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
        self.queue.set_closes_by_age(self.waiting_segments() < SEGMENTS_MANY);
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
            self.queue.commit(&ids);
        }
    }

    /// Whether every record of closed segments is acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.reading.is_none() && self.shipped.is_empty() && self.queue.uncommitted_segments().is_empty()
    }

    /// Segments with records that are not acknowledged.
    pub(super) fn waiting_segments(&self) -> usize {
        self.queue.readable_segments().iter().filter(|segment| is_waiting(segment.state())).count()
    }

    /// Records dropped because the queue was full.
    pub(super) fn dropped_records(&self) -> u64 {
        self.dropped_records
    }

    fn fill_window(&mut self, now: Duration) {
        while self.window.has_space() && now >= self.retry_at {
            if self.reading.is_none() {
                let Some(view) = self.queue.reserve(1).pop() else { return };
                let id = view.id;
                self.unread_records = view.reach.records;
                match SegmentBatches::open(view, &self.labels) {
                    Ok(opened) => self.reading = Some(opened),
                    Err(error) => return self.give_back(id, &error, now),
                }
            }
            let Some(reading) = &mut self.reading else { return };
            let id = reading.id();
            match reading.next() {
                Ok(Some(batch)) => {
                    self.unread_records = self.unread_records.saturating_sub(u64::from(batch.records));
                    self.window.push(ShippedBatch { ticket: Some(self.acks.ticket(self.next, true)), ..batch }, now);
                    self.next += 1;
                }
                Ok(None) => {
                    self.reading = None;
                    self.shipped.push_back((self.next, id));
                }
                Err(error) => return self.give_back(id, &error, now),
            }
        }
    }

    /// Returns a segment that cannot be read. The queue looks for its intact frames, and quarantines it after some attempts.
    fn give_back(&mut self, id: Id, error: &ReadError, now: Duration) {
        log_limited!(self.log_limits, warn, segment = %id, %error, "a segment of the queue cannot be read; retrying");
        self.reading = None;
        self.retry_at = now + RETRY_DELAY;
        self.queue.record_unreadable(id);
        self.queue.release(&[id]);
    }

    /// Drops the oldest closed segment; returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let (id, end, unread) = if let Some((end, id)) = self.shipped.pop_front() {
            (id, end, 0)
        } else if let Some(reading) = self.reading.take() {
            (reading.id(), self.next, self.unread_records)
        } else {
            let Some(view) = self.queue.reserve(1).pop() else { return false };
            (view.id, 0, view.reach.records)
        };
        let records = unread + self.window.drop_before(&self.acks, end);
        self.queue.commit(&[id]);
        self.dropped_records += records;
        log_limited!(self.log_limits, warn, records, "the queue of the listeners is full: dropped the oldest records");
        true
    }
}

fn is_waiting(state: SegmentState) -> bool {
    matches!(state, SegmentState::Pending | SegmentState::Reserved)
}
