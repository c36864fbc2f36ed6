//! Stepping aside: work that nobody waits for lets queries go first, block by block.
//!
//! ```text
//!   queries          ▁▁██████████▁▁▁▁██████████████████████████████████▁▁▁
//!   blocks of a merge █▁▁▁▁▁▁▁▁▁▁▁██▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁████
//!                      waits        the wait is earned by work: a share is left
//! ```
//! A block that was begun is finished: it takes a fraction of a second, and half a block is worth nothing. Before the next
//! one the work waits while the [`Foreground`] is busy, for as long as it has *credit*. Work earns credit and waiting
//! spends it, so that a share of the time is always left for work, however long queries run. And while too much has piled
//! up already ([`Debt`](crate::debt::Debt)), nothing waits: a store that falls behind makes queries slower than it could
//! by working, and in the end the disk full. A gathering that a client waits for (`bulk`) does not wait either.
//!
//! It looks every few milliseconds rather than be woken: what it waits for is that nothing happens.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::Clock;

use crate::foreground::Foreground;
use crate::lock::lock;
use crate::metrics::Metrics;

/// How often is looked whether queries still run.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// No wait is longer than this, however much was worked before: a client may come meanwhile who waits for a gathering.
pub(crate) const CREDIT_MAX: Duration = Duration::from_secs(1);

/// Lets one kind of work step aside, which one thread at a time does.
#[derive(Debug)]
pub(crate) struct BackgroundThrottle {
    foreground: Arc<Foreground>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Time of waiting that each time of work earns.
    credit_per_work: u32,
    /// What was earned and not spent. Held for moments only.
    credit: Mutex<Duration>,
    is_disabled: AtomicBool,
}

/// One gathering or merge: from its making until it is dropped, all time that is not waited counts as work.
pub(crate) struct ThrottledTask<'a> {
    throttle: &'a BackgroundThrottle,
    /// `None` when somebody waits for this, too, so that it never steps aside.
    is_backlogged: Option<&'a dyn Fn() -> bool>,
    /// Since when it works.
    working_since: Cell<Duration>,
    /// Whether it did not step aside where it would have.
    has_overridden: Cell<bool>,
}

impl BackgroundThrottle {
    /// Leaves at least `share_min` of a hundred of the time for work.
    pub(crate) fn new(foreground: &Arc<Foreground>, clock: &Arc<dyn Clock>, metrics: &Metrics, share_min: u32) -> Self {
        let share = share_min.clamp(1, 100);
        Self {
            foreground: Arc::clone(foreground),
            clock: Arc::clone(clock),
            metrics: metrics.clone(),
            credit_per_work: (100 - share) / share,
            credit: Mutex::default(),
            is_disabled: AtomicBool::new(false),
        }
    }

    /// Begins a piece of work of many blocks. `is_pressed` is asked while it would wait.
    pub(crate) fn begin<'a>(&'a self, is_backlogged: &'a dyn Fn() -> bool) -> ThrottledTask<'a> {
        self.begin_task(Some(is_backlogged))
    }

    /// Begins a piece of work that somebody waits for as others do for an answer.
    pub(crate) fn begin_unthrottled(&self) -> ThrottledTask<'_> {
        self.begin_task(None)
    }

    fn begin_task<'a>(&'a self, is_backlogged: Option<&'a dyn Fn() -> bool>) -> ThrottledTask<'a> {
        ThrottledTask {
            throttle: self,
            is_backlogged,
            working_since: Cell::new(self.clock.uptime()),
            has_overridden: Cell::new(false),
        }
    }

    /// From now on nothing waits, and what waits goes on: the node is stopping.
    pub(crate) fn disable(&self) {
        self.is_disabled.store(true, Ordering::Release);
    }
}

impl ThrottledTask<'_> {
    /// Lets queries go first, if there are any. To be called before each block; `stopped` ends the wait.
    pub(crate) fn yield_to_queries(&self, stopped: &dyn Fn() -> bool) {
        let Some(is_backlogged) = self.is_backlogged else { return };
        let throttle = self.throttle;
        let mut credit = self.accrue_credit();
        let mut now = self.working_since.get();
        while !credit.is_zero()
            && throttle.foreground.is_busy()
            && !throttle.is_disabled.load(Ordering::Acquire)
            && !stopped()
        {
            if is_backlogged() {
                if !self.has_overridden.replace(true) {
                    throttle.metrics.throttle_overrides.inc();
                }
                break;
            }
            let nap = POLL_INTERVAL.min(credit);
            std::thread::sleep(nap);
            let later = throttle.clock.uptime();
            // A clock that stands still, as that of a test may, must not make it wait for ever.
            let waited = later.saturating_sub(now).max(nap);
            throttle.metrics.throttled_seconds.inc_by(waited.as_secs_f64());
            credit = credit.saturating_sub(waited);
            now = later;
        }
        self.working_since.set(now);
        *lock(&throttle.credit) = credit;
    }

    /// Counts the work since it was counted last, and gives the credit.
    fn accrue_credit(&self) -> Duration {
        let now = self.throttle.clock.uptime();
        let worked = now.saturating_sub(self.working_since.replace(now));
        let mut credit = lock(&self.throttle.credit);
        *credit = credit.saturating_add(worked.saturating_mul(self.throttle.credit_per_work)).min(CREDIT_MAX);
        *credit
    }
}

impl Drop for ThrottledTask<'_> {
    fn drop(&mut self) {
        self.accrue_credit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_env::sim;

    const BLOCK: Duration = Duration::from_millis(200);

    struct ThrottleTest {
        clock: Arc<sim::Clock>,
        foreground: Arc<Foreground>,
        metrics: Metrics,
        aside: BackgroundThrottle,
    }

    fn throttle_test() -> ThrottleTest {
        let clock = Arc::new(sim::Clock::at_unix_ms(0));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let (foreground, metrics) = (Foreground::new(Arc::clone(&shared)), Metrics::default());
        let aside = BackgroundThrottle::new(&foreground, &shared, &metrics, 20);
        ThrottleTest { clock, foreground, metrics, aside }
    }

    impl ThrottleTest {
        /// Does so many blocks, and gives the time that this took. Each look takes 50 ms.
        fn work(&self, blocks: u32, is_backlogged: bool, mut each: impl FnMut(u32)) -> Duration {
            let started = self.clock.uptime();
            let pressed = || is_backlogged;
            let throttle = self.aside.begin(&pressed);
            for block in 0..blocks {
                each(block);
                throttle.yield_to_queries(&|| {
                    self.clock.advance(Duration::from_millis(50));
                    false
                });
                self.clock.advance(BLOCK);
            }
            self.clock.uptime() - started
        }
    }

    #[test]
    fn nothing_waits_without_queries() {
        let bench = throttle_test();
        assert_eq!(bench.work(20, false, |_| {}), 20 * BLOCK);
        assert_eq!(bench.metrics.throttled_seconds.get(), 0.0);
    }

    #[test]
    fn background_work_keeps_its_minimum_share() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        let took = bench.work(50, false, |_| {});
        let share = (50 * BLOCK).as_secs_f64() / took.as_secs_f64();
        assert!((0.19..0.22).contains(&share), "{share}");
        let aside = bench.metrics.throttled_seconds.get();
        assert!((aside - (took - 50 * BLOCK).as_secs_f64()).abs() < 1e-6, "{aside}");
        assert_eq!(bench.metrics.throttle_overrides.get(), 0);
    }

    #[test]
    fn waits_are_bounded() {
        let bench = throttle_test();
        bench.work(1_000, false, |_| {});
        let _busy = bench.foreground.enter();
        let took = bench.work(1, false, |_| {});
        assert!(took > BLOCK + CREDIT_MAX / 2 && took <= BLOCK + CREDIT_MAX, "{took:?}");
    }

    #[test]
    fn it_goes_on_when_the_queries_end() {
        let bench = throttle_test();
        let mut busy = Some(bench.foreground.enter());
        let took = bench.work(2, false, |block| {
            if block == 1 {
                busy.take();
            }
        });
        // The moment after a query passes within one look.
        assert_eq!(took, 2 * BLOCK + Duration::from_millis(50));
    }

    #[test]
    fn a_backlog_overrides_the_throttle() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        let looks = Duration::from_millis(50) * 9;
        assert_eq!(bench.work(10, true, |_| {}), 10 * BLOCK + looks, "it looked, and did not wait");
        assert_eq!(bench.metrics.throttled_seconds.get(), 0.0);
        assert_eq!(bench.metrics.throttle_overrides.get(), 1, "a piece of work counts once");
    }

    #[test]
    fn awaited_work_is_not_throttled() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        bench.clock.advance(BLOCK);
        let throttle = bench.aside.begin_unthrottled();
        bench.clock.advance(BLOCK);
        throttle.yield_to_queries(&|| panic!("it would have waited"));
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_wait() {
        let bench = throttle_test();
        let pressed = || false;
        let throttle = bench.aside.begin(&pressed);
        let _busy = bench.foreground.enter();
        bench.clock.advance(Duration::from_millis(5));
        throttle.yield_to_queries(&|| false);
        assert_eq!(bench.metrics.throttled_seconds.get(), 0.02, "four times the work");
    }

    #[test]
    fn a_stopping_node_is_not_throttled() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        bench.aside.disable();
        assert_eq!(bench.work(10, false, |_| {}), 10 * BLOCK);
        let bench = self::throttle_test();
        let _busy = bench.foreground.enter();
        let pressed = || false;
        let throttle = bench.aside.begin(&pressed);
        bench.clock.advance(BLOCK);
        throttle.yield_to_queries(&|| true);
        assert_eq!(bench.clock.uptime(), BLOCK);
    }
}
