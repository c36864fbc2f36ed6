//! Tells those who wait of changes.
//!
//! Each connection waits for the death of both its ends for as long as it lasts, and is polled often, while somebody dies
//! but now and then. So whoever waits leaves its waker here once, and when it is polled again compares a number.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What changes.
#[derive(Debug, Default)]
pub(super) struct ChangeNotifier {
    count: AtomicU64,
    /// Its lock is taken with no other, but that of what is ready.
    wakers: Mutex<WakerTable>,
}

#[derive(Debug, Default)]
struct WakerTable {
    wakers: BTreeMap<u64, Waker>,
    next_registration: u64,
}

impl ChangeNotifier {
    /// Something has changed.
    pub(super) fn notify_all(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let wakers: Vec<Waker> = self.lock_wakers().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for changes from now on.
    pub(super) fn subscribe(&self) -> ChangeWaiter<'_> {
        ChangeWaiter { notifier: self, seen: self.count.load(Ordering::Relaxed), registration: None }
    }

    fn lock_wakers(&self) -> MutexGuard<'_, WakerTable> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves at each change, and can then be waited for again.
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
            let mut waiting = self.notifier.lock_wakers();
            let place = self.registration.as_ref().map_or(waiting.next_registration, |(place, _)| *place);
            waiting.next_registration = waiting.next_registration.max(place + 1);
            let before = waiting.wakers.insert(place, waker.clone());
            drop(waiting);
            drop(before);
            self.registration = Some((place, waker.clone()));
        }
        Poll::Pending
    }
}

impl Drop for ChangeWaiter<'_> {
    fn drop(&mut self) {
        if let Some((place, _)) = &self.registration {
            let waker = self.notifier.lock_wakers().wakers.remove(place);
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
            assert!(watch.as_mut().poll(&mut context).is_pending(), "that was before");
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
