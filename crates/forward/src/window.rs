//! Batches that are not acknowledged, in the order in which they were packed.
//!
//! Batches are numbered from 0 over the life of the process. Intake adds at the end and waits while the window is full;
//! the link sends from wherever its connection stands and takes away from the front what is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::pack::Packed;

/// What is not acknowledged.
pub(crate) struct Window {
    bytes_max: usize,
    inner: Mutex<Inner>,
    /// Rung when there is a batch to send, or the end was reached.
    more: Notify,
    /// Rung when something was acknowledged.
    less: Notify,
    /// Rung when nothing is left after the end.
    drained: Notify,
}

#[derive(Default)]
struct Inner {
    batches: VecDeque<Arc<Packed>>,
    /// The number of the first batch.
    first: u64,
    /// Bytes of the frames.
    bytes: usize,
    ended: bool,
    /// When something was last acknowledged, or came into the empty window.
    moved_at: Duration,
    shipped: Shipped,
    trouble: String,
}

/// What was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shipped {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// What a sender has to do.
pub(crate) enum Next {
    Send(Arc<Packed>),
    /// Nothing can follow until something is acknowledged: the window is full, or the input has ended.
    Flush,
}

impl Window {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (more, less, drained) = (Notify::new(), Notify::new(), Notify::new());
        Self { bytes_max: bytes_max.max(1), inner: Mutex::default(), more, less, drained }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room. A batch may then go beyond it, so that any batch can be sent.
    pub(crate) async fn room(&self) {
        loop {
            let less = self.less.notified();
            if self.inner().bytes < self.bytes_max {
                return;
            }
            less.await;
        }
    }

    pub(crate) fn push(&self, packed: Packed, now: Duration) {
        let mut inner = self.inner();
        if inner.batches.is_empty() {
            inner.moved_at = now;
        }
        inner.bytes += packed.frame.len();
        inner.batches.push_back(Arc::new(packed));
        drop(inner);
        self.more.notify_one();
    }

    /// Nothing will be pushed any more.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        inner.ended = true;
        let is_drained = inner.batches.is_empty();
        drop(inner);
        self.more.notify_one();
        if is_drained {
            self.drained.notify_one();
        }
    }

    /// The number of the first batch that is not acknowledged.
    pub(crate) fn first(&self) -> u64 {
        self.inner().first
    }

    /// Waits for the batch of this number, or for a reason to flush; `flushed` says that there was one at this number.
    pub(crate) async fn next(&self, number: u64, flushed: bool) -> Next {
        loop {
            let more = self.more.notified();
            {
                let inner = self.inner();
                let at = usize::try_from(number.saturating_sub(inner.first)).unwrap_or(usize::MAX);
                if let Some(packed) = inner.batches.get(at) {
                    return Next::Send(Arc::clone(packed));
                }
                if !flushed && !inner.batches.is_empty() && (inner.ended || inner.bytes >= self.bytes_max) {
                    return Next::Flush;
                }
            }
            more.await;
        }
    }

    /// All batches before this number are acknowledged.
    pub(crate) fn acked(&self, number: u64, now: Duration) {
        let mut inner = self.inner();
        while inner.first < number
            && let Some(packed) = inner.batches.pop_front()
        {
            inner.first += 1;
            inner.bytes -= packed.frame.len();
            inner.moved_at = now;
            inner.shipped.records += u64::from(packed.records);
            inner.shipped.bytes += packed.text_bytes as u64;
        }
        let is_drained = inner.ended && inner.batches.is_empty();
        drop(inner);
        self.less.notify_one();
        if is_drained {
            self.drained.notify_one();
        }
    }

    /// Waits until the input has ended and all of it is acknowledged.
    pub(crate) async fn drained(&self) {
        loop {
            let drained = self.drained.notified();
            {
                let inner = self.inner();
                if inner.ended && inner.batches.is_empty() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Since when nothing was acknowledged although something waits for it; `None` when nothing does.
    pub(crate) fn stuck_since(&self) -> Option<Duration> {
        let inner = self.inner();
        (!inner.batches.is_empty()).then_some(inner.moved_at)
    }

    /// Records that are not acknowledged.
    pub(crate) fn unsent(&self) -> u64 {
        self.inner().batches.iter().map(|packed| u64::from(packed.records)).sum()
    }

    pub(crate) fn shipped(&self) -> Shipped {
        self.inner().shipped
    }

    /// What went wrong last, for the error that may come of it.
    pub(crate) fn trouble(&self) -> String {
        let trouble = self.inner().trouble.clone();
        if trouble.is_empty() { "no acknowledgement came".to_owned() } else { trouble }
    }

    pub(crate) fn set_trouble(&self, trouble: String) {
        self.inner().trouble = trouble;
    }
}
