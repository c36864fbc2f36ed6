//! Notifies waiting tasks of changes.
//!
//! Each connection waits for the end of both processes and is polled often, while processes end rarely. So a waiter registers
//! its waker once, and a further poll only compares a number.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::lock;

#[derive(Debug, Default)]
pub(super) struct ChangeNotifier {
    count: AtomicU64,
    /// No other lock is taken under this one, except that of the ready queue.
    wakers: Mutex<WakerTable>,
}

#[derive(Debug, Default)]
struct WakerTable {
    wakers: BTreeMap<u64, Waker>,
    next_registration: u64,
}

impl ChangeNotifier {
    /// Wakes all waiters.
    pub(super) fn notify_all(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let wakers: Vec<Waker> = self.lock_wakers().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for the changes after this call.
    pub(super) fn subscribe(&self) -> ChangeWaiter<'_> {
        ChangeWaiter { notifier: self, seen: self.count.load(Ordering::Relaxed), registration: None }
    }

    fn lock_wakers(&self) -> MutexGuard<'_, WakerTable> {
        lock(&self.wakers)
    }
}

/// Resolves at the next change, and can be awaited again.
#[derive(Debug)]
pub(super) struct ChangeWaiter<'a> {
    notifier: &'a ChangeNotifier,
    seen: u64,
    registration: Option<(u64, Waker)>,
}

impl Future for ChangeWaiter<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let count = self.notifier.count.load(Ordering::Relaxed);
        if self.seen != count {
            self.seen = count;
            return Poll::Ready(());
        }
        let waker = context.waker();
        if self.registration.as_ref().is_none_or(|(_, known)| !known.will_wake(waker)) {
            let mut table = self.notifier.lock_wakers();
            let id = self.registration.as_ref().map_or(table.next_registration, |(id, _)| *id);
            table.next_registration = table.next_registration.max(id + 1);
            let before = table.wakers.insert(id, waker.clone());
            drop(table);
            drop(before);
            self.registration = Some((id, waker.clone()));
        }
        Poll::Pending
    }
}

impl Drop for ChangeWaiter<'_> {
    fn drop(&mut self) {
        if let Some((id, _)) = &self.registration {
            let waker = self.notifier.lock_wakers().wakers.remove(id);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeCount(AtomicU64);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_change_wakes_once_and_dropped_waiters_are_not_woken() {
        let changes = ChangeNotifier::default();
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        changes.notify_all();
        {
            let mut watch = pin!(changes.subscribe());
            assert!(watch.as_mut().poll(&mut context).is_pending(), "the change came before");
            assert!(watch.as_mut().poll(&mut context).is_pending());
            changes.notify_all();
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
            assert!(watch.as_mut().poll(&mut context).is_ready());
            assert!(watch.as_mut().poll(&mut context).is_pending());
            changes.notify_all();
            assert_eq!(count.0.load(Ordering::Relaxed), 2);
            assert_eq!(changes.lock_wakers().wakers.len(), 1);
        }
        changes.notify_all();
        assert_eq!((count.0.load(Ordering::Relaxed), changes.lock_wakers().wakers.len()), (2, 0));
    }
}
