//! The background throttle: background work pauses before each block while queries run.
//!
//! ```text
//!   queries          ▁▁██████████▁▁▁▁██████████████████████████████████▁▁▁
//!   blocks of a merge █▁▁▁▁▁▁▁▁▁▁▁██▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁████
//!                      pause        a pause is limited by earned credit
//! ```
//! A block is never interrupted: it takes a fraction of a second, and half a block is useless. Before the next block, the work
//! pauses while the [`Foreground`] is busy and it has *credit*. Work earns credit and pauses spend it, so a minimum share
//! of the time remains for work, however long queries run. Above the limit of the compaction backlog
//! ([`CompactionBacklog`](crate::backlog::CompactionBacklog)) nothing pauses: a store that falls behind slows queries down
//! more than its work does, and finally fills the disk. A batch with `bulk` records, for which a client waits, does not
//! pause either.
//!
//! The throttle polls, because the event that it waits for is the absence of queries.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Clock, lock};

use crate::foreground::Foreground;
use crate::metrics::Metrics;

/// Interval of polling whether queries still run.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum credit, and so the longest pause: a client may begin to wait for a batch meanwhile.
pub(crate) const CREDIT_MAX: Duration = Duration::from_secs(1);

/// Pause credit per second of work, as a factor: at least a fifth of the time is for work. A greater share keeps the store
/// compact under permanent queries, a smaller one makes these queries faster.
const CREDIT_PER_WORK: u32 = 4;

/// Throttles one kind of background work. Only one thread at a time does that kind of work.
#[derive(Debug)]
pub(crate) struct BackgroundThrottle {
    foreground: Arc<Foreground>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Earned and not spent. The lock is held briefly.
    credit: Mutex<Duration>,
    is_disabled: AtomicBool,
}

/// One batch or merge. All time from its creation to its drop counts as work, except pauses.
pub(crate) struct ThrottledTask<'a> {
    throttle: &'a BackgroundThrottle,
    is_backlogged: Option<&'a dyn Fn() -> bool>,
    /// The uptime since which it works.
    working_since: Cell<Duration>,
    /// Whether the backlog has overridden a pause.
    has_overridden: Cell<bool>,
}

impl BackgroundThrottle {
    pub(crate) fn new(foreground: &Arc<Foreground>, clock: &Arc<dyn Clock>, metrics: &Metrics) -> Self {
        Self {
            foreground: Arc::clone(foreground),
            clock: Arc::clone(clock),
            metrics: metrics.clone(),
            credit: Mutex::default(),
            is_disabled: AtomicBool::new(false),
        }
    }

    /// Begins work of many blocks. `is_backlogged` is polled before and during pauses; work without it, for which a client
    /// waits, does not pause.
    pub(crate) fn begin<'a>(&'a self, is_backlogged: Option<&'a dyn Fn() -> bool>) -> ThrottledTask<'a> {
        ThrottledTask {
            throttle: self,
            is_backlogged,
            working_since: Cell::new(self.clock.uptime()),
            has_overridden: Cell::new(false),
        }
    }

    /// Ends all pauses, also current ones: the node is stopping.
    pub(crate) fn disable(&self) {
        self.is_disabled.store(true, Ordering::Release);
    }
}

impl ThrottledTask<'_> {
    /// Pauses while queries run and credit is left. Called before each block; `is_stopped` ends the pause.
    pub(crate) fn yield_to_queries(&self, is_stopped: &dyn Fn() -> bool) {
        let Some(is_backlogged) = self.is_backlogged else { return };
        let throttle = self.throttle;
        let mut credit = self.accrue_credit();
        let mut now = self.working_since.get();
        while !credit.is_zero()
            && throttle.foreground.is_busy()
            && !throttle.is_disabled.load(Ordering::Acquire)
            && !is_stopped()
        {
            if is_backlogged() {
                if !self.has_overridden.replace(true) {
                    throttle.metrics.throttle_overrides.inc();
                }
                break;
            }
            let pause = POLL_INTERVAL.min(credit);
            throttle.clock.sleep(pause);
            let later = throttle.clock.uptime();
            // A simulated clock does not advance, which must not extend the pause for ever.
            let waited = later.saturating_sub(now).max(pause);
            throttle.metrics.throttled_seconds.inc_by(waited.as_secs_f64());
            credit = credit.saturating_sub(waited);
            now = later;
        }
        self.working_since.set(now);
        *lock(&throttle.credit) = credit;
    }

    /// Adds the credit for the work since the last call, and returns the sum.
    fn accrue_credit(&self) -> Duration {
        let now = self.throttle.clock.uptime();
        let worked = now.saturating_sub(self.working_since.replace(now));
        let mut credit = lock(&self.throttle.credit);
        *credit = credit.saturating_add(worked.saturating_mul(CREDIT_PER_WORK)).min(CREDIT_MAX);
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
        throttle: BackgroundThrottle,
    }

    fn throttle_test() -> ThrottleTest {
        let clock = Arc::new(sim::Clock::at_unix_ms(0));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let (foreground, metrics) =
            (Foreground::new(Arc::clone(&shared)), Metrics::new(&mut prometheus_client::registry::Registry::default()));
        let throttle = BackgroundThrottle::new(&foreground, &shared, &metrics);
        ThrottleTest { clock, foreground, metrics, throttle }
    }

    impl ThrottleTest {
        /// Works on `blocks` blocks and returns the duration. Each poll takes 50 ms.
        fn work(&self, blocks: u32, is_backlogged: bool, mut each: impl FnMut(u32)) -> Duration {
            let started = self.clock.uptime();
            let is_backlogged = || is_backlogged;
            let throttle = self.throttle.begin(Some(&is_backlogged));
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
    fn work_does_not_pause_without_queries() {
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
        let throttled = bench.metrics.throttled_seconds.get();
        assert!((throttled - (took - 50 * BLOCK).as_secs_f64()).abs() < 1e-6, "{throttled}");
        assert_eq!(bench.metrics.throttle_overrides.get(), 0);
    }

    #[test]
    fn pauses_are_bounded() {
        let bench = throttle_test();
        bench.work(1_000, false, |_| {});
        let _busy = bench.foreground.enter();
        let took = bench.work(1, false, |_| {});
        assert!(took > BLOCK + CREDIT_MAX / 2 && took <= BLOCK + CREDIT_MAX, "{took:?}");
    }

    #[test]
    fn work_continues_when_queries_end() {
        let bench = throttle_test();
        let mut busy = Some(bench.foreground.enter());
        let took = bench.work(2, false, |block| {
            if block == 1 {
                busy.take();
            }
        });
        // The time that finished queries count for passes within one poll.
        assert_eq!(took, 2 * BLOCK + Duration::from_millis(50));
    }

    #[test]
    fn a_backlog_overrides_the_throttle() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        let polls = Duration::from_millis(50) * 9;
        assert_eq!(bench.work(10, true, |_| {}), 10 * BLOCK + polls, "it polls, and does not pause");
        assert_eq!(bench.metrics.throttled_seconds.get(), 0.0);
        assert_eq!(bench.metrics.throttle_overrides.get(), 1, "one override per task");
    }

    #[test]
    fn awaited_work_is_not_throttled() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        bench.clock.advance(BLOCK);
        let throttle = bench.throttle.begin(None);
        bench.clock.advance(BLOCK);
        throttle.yield_to_queries(&|| panic!("it pauses"));
    }

    #[test]
    fn a_stopped_clock_does_not_extend_the_pause() {
        let bench = throttle_test();
        let is_backlogged = || false;
        let throttle = bench.throttle.begin(Some(&is_backlogged));
        let _busy = bench.foreground.enter();
        bench.clock.advance(Duration::from_millis(5));
        throttle.yield_to_queries(&|| false);
        assert_eq!(bench.metrics.throttled_seconds.get(), 0.02, "four times the work");
    }

    #[test]
    fn a_stopping_node_is_not_throttled() {
        let bench = throttle_test();
        let _busy = bench.foreground.enter();
        bench.throttle.disable();
        assert_eq!(bench.work(10, false, |_| {}), 10 * BLOCK);
        let bench = self::throttle_test();
        let _busy = bench.foreground.enter();
        let is_backlogged = || false;
        let throttle = bench.throttle.begin(Some(&is_backlogged));
        bench.clock.advance(BLOCK);
        throttle.yield_to_queries(&|| true);
        assert_eq!(bench.clock.uptime(), BLOCK);
    }
}
