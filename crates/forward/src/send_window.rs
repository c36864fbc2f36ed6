//! Batches that are not acknowledged, in the order in which they were packed.
//!
//! Batches are numbered from 0 over the life of the process. Intake adds at the end and waits while the window is full;
//! the link sends from wherever its connection stands and takes away from the front what is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::batch_packer::ShippedBatch;

/// What is not acknowledged.
pub(crate) struct SendWindow {
    bytes_max: usize,
    state: Mutex<WindowState>,
    /// Rung when there is a batch to send, or the end was reached.
    batch_added: Notify,
    /// Rung when something was acknowledged.
    batch_acked: Notify,
    /// Rung when nothing is left after the end.
    all_acked: Notify,
}

#[derive(Default)]
struct WindowState {
    batches: VecDeque<Arc<ShippedBatch>>,
    /// The number of the first batch.
    first_batch: u64,
    /// Bytes of the frames.
    bytes: usize,
    is_ended: bool,
    /// When something was last acknowledged, or came into the empty window.
    progressed_at: Duration,
    acked_totals: AckedTotals,
    last_error: String,
}

/// What was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckedTotals {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// What a sender has to do.
pub(crate) enum SendAction {
    Send(Arc<ShippedBatch>),
    /// Nothing can follow until something is acknowledged: the window is full, or the input has ended.
    Flush,
}

impl SendWindow {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (batch_added, batch_acked, all_acked) = (Notify::new(), Notify::new(), Notify::new());
        Self { bytes_max: bytes_max.max(1), state: Mutex::default(), batch_added, batch_acked, all_acked }
    }

    fn state(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room. A batch may then go beyond it, so that any batch can be sent.
    pub(crate) async fn wait_for_space(&self) {
        loop {
            let less = self.batch_acked.notified();
            if self.state().bytes < self.bytes_max {
                return;
            }
            less.await;
        }
    }

    pub(crate) fn push(&self, packed: ShippedBatch, now: Duration) {
        let mut inner = self.state();
        if inner.batches.is_empty() {
            inner.progressed_at = now;
        }
        inner.bytes += packed.frame.len();
        inner.batches.push_back(Arc::new(packed));
        drop(inner);
        self.batch_added.notify_one();
    }

    /// Nothing will be pushed any more.
    pub(crate) fn end_input(&self) {
        let mut inner = self.state();
        inner.is_ended = true;
        let is_drained = inner.batches.is_empty();
        drop(inner);
        self.batch_added.notify_one();
        if is_drained {
            self.all_acked.notify_one();
        }
    }

    /// The number of the first batch that is not acknowledged.
    pub(crate) fn first_batch(&self) -> u64 {
        self.state().first_batch
    }

    /// Waits for the batch of this number, or for a reason to flush; `flushed` says that there was one at this number.
    pub(crate) async fn next_action(&self, number: u64, flushed: bool) -> SendAction {
        loop {
            let more = self.batch_added.notified();
            {
                let inner = self.state();
                let at = usize::try_from(number.saturating_sub(inner.first_batch)).unwrap_or(usize::MAX);
                if let Some(packed) = inner.batches.get(at) {
                    return SendAction::Send(Arc::clone(packed));
                }
                if !flushed && !inner.batches.is_empty() && (inner.is_ended || inner.bytes >= self.bytes_max) {
                    return SendAction::Flush;
                }
            }
            more.await;
        }
    }

    /// All batches before this number are acknowledged.
    pub(crate) fn acked(&self, number: u64, now: Duration) {
        let mut inner = self.state();
        while inner.first_batch < number
            && let Some(packed) = inner.batches.pop_front()
        {
            inner.first_batch += 1;
            inner.bytes -= packed.frame.len();
            inner.progressed_at = now;
            inner.acked_totals.records += u64::from(packed.records);
            inner.acked_totals.bytes += packed.text_bytes as u64;
        }
        let is_drained = inner.is_ended && inner.batches.is_empty();
        drop(inner);
        self.batch_acked.notify_one();
        if is_drained {
            self.all_acked.notify_one();
        }
    }

    /// Waits until the input has ended and all of it is acknowledged.
    pub(crate) async fn wait_drained(&self) {
        loop {
            let drained = self.all_acked.notified();
            {
                let inner = self.state();
                if inner.is_ended && inner.batches.is_empty() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Since when nothing was acknowledged although something waits for it; `None` when nothing does.
    pub(crate) fn waiting_since(&self) -> Option<Duration> {
        let inner = self.state();
        (!inner.batches.is_empty()).then_some(inner.progressed_at)
    }

    /// Records that are not acknowledged.
    pub(crate) fn unacked_records(&self) -> u64 {
        self.state().batches.iter().map(|packed| u64::from(packed.records)).sum()
    }

    pub(crate) fn acked_totals(&self) -> AckedTotals {
        self.state().acked_totals
    }

    /// What went wrong last, for the error that may come of it.
    pub(crate) fn last_error(&self) -> String {
        let trouble = self.state().last_error.clone();
        if trouble.is_empty() { "no acknowledgement came".to_owned() } else { trouble }
    }

    pub(crate) fn set_last_error(&self, trouble: String) {
        self.state().last_error = trouble;
    }
}
