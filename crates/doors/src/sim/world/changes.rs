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
pub(super) struct Changes {
    count: AtomicU64,
    /// Its lock is taken with no other, but that of what is ready.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    wakers: BTreeMap<u64, Waker>,
    given: u64,
}

impl Changes {
    /// Something has changed.
    pub(super) fn tell(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let wakers: Vec<Waker> = self.waiting().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for changes from now on.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch { changes: self, seen: self.count.load(Ordering::Relaxed), place: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves at each change, and can then be waited for again.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    changes: &'a Changes,
    seen: u64,
    place: Option<(u64, Waker)>,
}

impl Future for Watch<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let count = self.changes.count.load(Ordering::Relaxed);
        if self.seen != count {
            self.seen = count;
            return Poll::Ready(());
        }
        let waker = context.waker();
        if self.place.as_ref().is_none_or(|(_, known)| !known.will_wake(waker)) {
            let mut waiting = self.changes.waiting();
            let place = self.place.as_ref().map_or(waiting.given, |(place, _)| *place);
            waiting.given = waiting.given.max(place + 1);
            let before = waiting.wakers.insert(place, waker.clone());
            drop(waiting);
            drop(before);
            self.place = Some((place, waker.clone()));
        }
        Poll::Pending
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some((place, _)) = &self.place {
            let waker = self.changes.waiting().wakers.remove(place);
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
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_change_is_told_once_and_who_is_gone_is_not_woken() {
        let changes = Changes::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        changes.tell();
        {
            let mut watch = pin!(changes.watch());
            assert!(watch.as_mut().poll(&mut context).is_pending(), "that was before");
            assert!(watch.as_mut().poll(&mut context).is_pending());
            changes.tell();
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
            assert!(watch.as_mut().poll(&mut context).is_ready());
            assert!(watch.as_mut().poll(&mut context).is_pending());
            changes.tell();
            assert_eq!(count.0.load(Ordering::Relaxed), 2);
            assert_eq!(changes.waiting().wakers.len(), 1);
        }
        changes.tell();
        assert_eq!((count.0.load(Ordering::Relaxed), changes.waiting().wakers.len()), (2, 0));
    }
}
