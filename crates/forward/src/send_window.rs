//! The unacknowledged batches, in the order in which they were packed.
//!
//! Batches are numbered from 0 over the life of the process. Sources add at the end and wait while the window is full. A
//! session sends from any number on and removes acknowledged batches from the front. A batch may have a ticket of its
//! source, which then knows how far its own batches are acknowledged.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::{Clock, lock};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::batch_builder::ShippedBatch;
use crate::source_acks::SourceAcks;
use crate::status::{AgentStatus, ConnectionTracker};

/// How often per timeout a stall is checked.
const STALL_CHECKS: u32 = 10;

/// The unacknowledged batches.
pub(crate) struct SendWindow {
    bytes_max: usize,
    state: Mutex<WindowState>,
    /// Notified of a new batch, or of the end of the input. Only the session waits for it.
    batch_added: Notify,
    /// All sources wait for it.
    batch_acked: Notify,
    /// Notified when the input has ended and all batches are acknowledged.
    all_acked: Notify,
    /// The connection that empties the window.
    pub(crate) connection: ConnectionTracker,
}

#[derive(Default)]
struct WindowState {
    batches: VecDeque<Arc<ShippedBatch>>,
    /// The number of the first batch.
    first_batch: u64,
    /// Bytes of the frames.
    bytes: usize,
    is_ended: bool,
    /// When a batch was last acknowledged, or was added to the empty window.
    progressed_at: Duration,
    acked_totals: AckedTotals,
    last_error: Option<String>,
}

/// The sums over all acknowledged batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckedTotals {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The next step of a sender.
pub(crate) enum SendAction {
    Send(Arc<ShippedBatch>),
    /// No batch can follow before an acknowledgement: the window is full, or the input has ended.
    Flush,
    /// The next batch was dropped: a connection whose acknowledgements count it must end.
    Dropped,
}

impl WindowState {
    fn batch(&self, number: u64) -> Option<&Arc<ShippedBatch>> {
        let at = number.checked_sub(self.first_batch)?;
        self.batches.get(usize::try_from(at).unwrap_or(usize::MAX))
    }

    /// Removes the first batch if its number is below this one.
    fn pop_before(&mut self, number: u64) -> Option<Arc<ShippedBatch>> {
        let batch = if self.first_batch < number { self.batches.pop_front()? } else { return None };
        self.first_batch += 1;
        self.bytes -= batch.frame.len();
        Some(batch)
    }

    fn is_drained(&self) -> bool {
        self.is_ended && self.batches.is_empty()
    }
}

impl SendWindow {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (batch_added, batch_acked, all_acked) = (Notify::new(), Notify::new(), Notify::new());
        let connection = ConnectionTracker::default();
        Self { bytes_max: bytes_max.max(1), state: Mutex::default(), batch_added, batch_acked, all_acked, connection }
    }

    fn state(&self) -> MutexGuard<'_, WindowState> {
        lock(&self.state)
    }

    /// Waits until the window is below its limit. One batch may then exceed it, so that any batch can be sent.
    pub(crate) async fn wait_for_space(&self) {
        loop {
            let acked = self.batch_acked.notified();
            if self.state().bytes < self.bytes_max {
                return;
            }
            acked.await;
        }
    }

    /// Whether the window is below its limit.
    pub(crate) fn has_space(&self) -> bool {
        self.state().bytes < self.bytes_max
    }

    pub(crate) fn push(&self, batch: ShippedBatch, now: Duration) {
        let mut state = self.state();
        if state.batches.is_empty() {
            state.progressed_at = now;
        }
        state.bytes += batch.frame.len();
        state.batches.push_back(Arc::new(batch));
        drop(state);
        self.batch_added.notify_one();
    }

    /// Records that no batch will be pushed any more.
    pub(crate) fn end_input(&self) {
        let mut state = self.state();
        state.is_ended = true;
        let is_drained = state.is_drained();
        drop(state);
        self.batch_added.notify_one();
        if is_drained {
            self.all_acked.notify_one();
        }
    }

    /// The number of the first unacknowledged batch.
    pub(crate) fn first_batch(&self) -> u64 {
        self.state().first_batch
    }

    /// The unacknowledged batch with this number, if there is one yet.
    pub(crate) fn batch(&self, number: u64) -> Option<Arc<ShippedBatch>> {
        self.state().batch(number).cloned()
    }

    /// Waits for the batch with this number, or for a reason to flush unless `is_flushed` since the last batch.
    pub(crate) async fn next_action(&self, number: u64, is_flushed: bool) -> SendAction {
        loop {
            let added = self.batch_added.notified();
            {
                let state = self.state();
                if number < state.first_batch {
                    return SendAction::Dropped;
                }
                if let Some(batch) = state.batch(number) {
                    return SendAction::Send(Arc::clone(batch));
                }
                if !is_flushed && !state.batches.is_empty() && (state.is_ended || state.bytes >= self.bytes_max) {
                    return SendAction::Flush;
                }
            }
            added.await;
        }
    }

    /// Removes the batches of a source before this one of its numbers, which will not be sent any more. Returns the number of
    /// their records.
    ///
    /// The batches that stay get new numbers. A connection has counted those that are gone, so it ends if it has batches to
    /// send; if not, it sends the ones that stay again, which are no duplicates.
    pub(crate) fn drop_before(&self, source: &SourceAcks, number: u64) -> u64 {
        let mut state = self.state();
        let (before, mut records) = (state.batches.len(), 0);
        state.batches.retain(|batch| {
            let is_dropped = batch.ticket.as_ref().is_some_and(|ticket| ticket.is_before(source, number));
            records += if is_dropped { u64::from(batch.records) } else { 0 };
            !is_dropped
        });
        if state.batches.len() == before {
            return 0;
        }
        state.first_batch += before as u64;
        state.bytes = state.batches.iter().map(|batch| batch.frame.len()).sum();
        drop(state);
        self.batch_added.notify_one();
        self.batch_acked.notify_waiters();
        records
    }

    /// Removes all batches before this number, which are acknowledged.
    pub(crate) fn acked(&self, number: u64, now: Duration) {
        let mut state = self.state();
        while let Some(batch) = state.pop_before(number) {
            state.progressed_at = now;
            if let Some(ticket) = &batch.ticket {
                ticket.ack();
            }
            state.acked_totals.records += u64::from(batch.records);
            state.acked_totals.bytes += batch.text_bytes as u64;
        }
        let is_drained = state.is_drained();
        drop(state);
        self.batch_acked.notify_waiters();
        if is_drained {
            self.all_acked.notify_one();
        }
    }

    /// Waits until the input has ended and all batches are acknowledged.
    pub(crate) async fn wait_drained(&self) {
        loop {
            let drained = self.all_acked.notified();
            if self.state().is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// Waits until batches are unacknowledged and no acknowledgement has arrived for `timeout`, counted from `start` at the
    /// earliest.
    pub(crate) async fn wait_stalled(&self, clock: &dyn Clock, start: Duration, timeout: Duration) {
        loop {
            sleep(timeout / STALL_CHECKS).await;
            let state = self.state();
            let since = state.progressed_at.max(start);
            if !state.batches.is_empty() && clock.uptime().saturating_sub(since) >= timeout {
                return;
            }
        }
    }

    /// The number of unacknowledged records.
    pub(crate) fn unacked_records(&self) -> u64 {
        self.state().batches.iter().map(|batch| u64::from(batch.records)).sum()
    }

    pub(crate) fn acked_totals(&self) -> AckedTotals {
        self.state().acked_totals
    }

    /// Tells what is known of an agent by its window alone, at a time in milliseconds since 1970.
    pub(crate) fn status_reader(self: &Arc<Self>) -> Box<dyn Fn(u64) -> AgentStatus + Send + Sync> {
        let window = Arc::clone(self);
        Box::new(move |unix_ms| window.status(unix_ms))
    }

    fn status(&self, unix_ms: u64) -> AgentStatus {
        let state = self.state();
        // The first batch in the window is the oldest one of the agent.
        let accepted = state.batches.front().and_then(|batch| batch.accepted_ms());
        AgentStatus {
            connection: self.connection.status(),
            last_error: state.last_error.clone(),
            window_batches: state.batches.len(),
            window_bytes: state.bytes,
            window_bytes_max: self.bytes_max,
            oldest_batch: accepted.map_or(Duration::ZERO, |ms| Duration::from_millis(unix_ms.saturating_sub(ms))),
            acked_records: state.acked_totals.records,
            acked_bytes: state.acked_totals.bytes,
            ..AgentStatus::default()
        }
    }

    /// The last error of a connection.
    pub(crate) fn last_error(&self) -> String {
        self.state().last_error.clone().unwrap_or_else(|| "no acknowledgement arrived".to_owned())
    }

    pub(crate) fn set_last_error(&self, error: String) {
        self.state().last_error = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn batch(source: &SourceAcks, number: u64) -> ShippedBatch {
        let ticket = Some(source.ticket(number, true));
        ShippedBatch { labels: Arc::default(), frame: vec![0; 10], records: 1, text_bytes: 1, ticket }
    }

    #[tokio::test]
    async fn sources_that_share_the_window_get_their_own_acknowledgements() {
        let (window, files, queue) = (SendWindow::new(35), SourceAcks::default(), SourceAcks::default());
        for (source, number) in [(&files, 40), (&queue, 0), (&files, 41), (&queue, 1)] {
            window.push(batch(source, number), NOW);
        }
        assert!(!window.has_space());
        window.acked(3, NOW);
        assert_eq!((files.next_unacked(), queue.next_unacked()), (42, 1));
        assert!(window.has_space());
    }

    #[tokio::test]
    async fn batches_of_one_source_are_dropped_between_those_of_another() {
        let (window, files, queue) = (SendWindow::new(100), SourceAcks::default(), SourceAcks::default());
        for (source, number) in [(&queue, 0), (&files, 0), (&queue, 1), (&files, 1)] {
            window.push(batch(source, number), NOW);
        }
        assert_eq!(window.drop_before(&queue, 1), 1);
        // A connection has sent two of them, and another all.
        assert!(matches!(window.next_action(2, false).await, SendAction::Dropped));
        assert!(matches!(window.next_action(4, false).await, SendAction::Send(_)));
        let first = window.first_batch();
        assert_eq!((first, window.unacked_records()), (4, 3));
        window.acked(4, NOW);
        assert_eq!((files.next_unacked(), queue.next_unacked()), (0, 0));
        window.acked(first + 2, NOW);
        assert_eq!((files.next_unacked(), queue.next_unacked(), window.unacked_records()), (1, 2, 1));
        assert_eq!(window.drop_before(&queue, 9), 0);
        assert_eq!(window.first_batch(), first + 2);
    }
}
