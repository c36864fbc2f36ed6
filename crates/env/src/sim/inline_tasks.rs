//! Tasks of one node without a [`World`](super::World), polled by the test in its own thread.
//!
//! Blocking work runs in place. If no task is ready, [`InlineTasks::run`] advances the clock to the next timer, so waiting takes
//! no real time. [`InlineTasks::poll_once`] never advances the clock.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::Clock;
use crate::lock;
use crate::{BoxFuture, Clock as _};

/// Tasks polled by a test, and the clock of their timers.
pub struct InlineTasks {
    clock: Arc<Clock>,
    /// Spawned tasks.
    spawned: Mutex<Vec<BoxFuture<()>>>,
    /// The uptimes at which sleeps end; the weak reference detects dropped ones.
    timers: Mutex<Vec<(Duration, Weak<()>)>>,
}

/// Whether a task was woken since it was last polled.
#[derive(Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for InlineTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineTasks").finish_non_exhaustive()
    }
}

impl InlineTasks {
    /// Tasks with timers of this clock.
    pub fn new(clock: Arc<Clock>) -> Self {
        Self { clock, spawned: Mutex::default(), timers: Mutex::default() }
    }

    /// Polls `future` and all spawned tasks until `future` is ready.
    ///
    /// # Panics
    /// If no task is ready and no timer is set.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let flag = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        loop {
            flag.0.store(false, Ordering::Release);
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                return result;
            }
            let before = lock(&self.spawned).len();
            let mut tasks = std::mem::take(&mut *lock(&self.spawned));
            tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
            tasks.append(&mut lock(&self.spawned));
            let is_changed = tasks.len() != before;
            *lock(&self.spawned) = tasks;
            if !is_changed && !flag.0.load(Ordering::Acquire) {
                assert!(self.advance_to_next_timer(), "no task is ready, and no timer is set");
            }
        }
    }

    /// The result of `future` if it is ready at the first poll.
    pub fn poll_once<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn advance_to_next_timer(&self) -> bool {
        let now = self.clock.uptime();
        let mut timers = lock(&self.timers);
        timers.retain(|(at, sleep)| *at > now && sleep.strong_count() > 0);
        let next = timers.iter().map(|(at, _)| *at).min();
        next.inspect(|at| self.clock.advance(*at - now)).is_some()
    }
}

impl crate::Tasks for InlineTasks {
    fn spawn(&self, task: BoxFuture<()>) {
        lock(&self.spawned).push(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        let (at, token) = (self.clock.uptime() + time, Arc::new(()));
        lock(&self.timers).push((at, Arc::downgrade(&token)));
        Box::pin(InlineSleep { clock: Arc::clone(&self.clock), at, _token: token })
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

/// Resolves when the clock reaches `at`.
struct InlineSleep {
    clock: Arc<Clock>,
    at: Duration,
    _token: Arc<()>,
}

impl Future for InlineSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.clock.uptime() >= self.at { Poll::Ready(()) } else { Poll::Pending }
    }
}
