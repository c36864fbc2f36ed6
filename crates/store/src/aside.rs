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

use bucksaw_doors::Clock;

use crate::foreground::Foreground;
use crate::metrics::Metrics;
use crate::shelf::lock;

/// How often is looked whether queries still run.
const LOOK: Duration = Duration::from_millis(5);

/// No wait is longer than this, however much was worked before: a client may come meanwhile who waits for a gathering.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// Lets one kind of work step aside, which one thread at a time does.
#[derive(Debug)]
pub(crate) struct Aside {
    foreground: Arc<Foreground>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Time of waiting that each time of work earns.
    rate: u32,
    /// What was earned and not spent. Held for moments only.
    credit: Mutex<Duration>,
    ended: AtomicBool,
}

/// One gathering or merge: from its making until it is dropped, all time that is not waited counts as work.
pub(crate) struct Turns<'a> {
    aside: &'a Aside,
    /// `None` when somebody waits for this, too, so that it never steps aside.
    is_pressed: Option<&'a dyn Fn() -> bool>,
    /// Since when it works.
    since: Cell<Duration>,
    /// Whether it did not step aside where it would have.
    overrode: Cell<bool>,
}

impl Aside {
    /// Leaves at least `share_min` of a hundred of the time for work.
    pub(crate) fn new(foreground: &Arc<Foreground>, clock: &Arc<dyn Clock>, metrics: &Metrics, share_min: u32) -> Self {
        let share = share_min.clamp(1, 100);
        Self {
            foreground: Arc::clone(foreground),
            clock: Arc::clone(clock),
            metrics: metrics.clone(),
            rate: (100 - share) / share,
            credit: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Begins a piece of work of many blocks. `is_pressed` is asked while it would wait.
    pub(crate) fn begin<'a>(&'a self, is_pressed: &'a dyn Fn() -> bool) -> Turns<'a> {
        self.turns(Some(is_pressed))
    }

    /// Begins a piece of work that somebody waits for as others do for an answer.
    pub(crate) fn begin_awaited(&self) -> Turns<'_> {
        self.turns(None)
    }

    fn turns<'a>(&'a self, is_pressed: Option<&'a dyn Fn() -> bool>) -> Turns<'a> {
        Turns { aside: self, is_pressed, since: Cell::new(self.clock.uptime()), overrode: Cell::new(false) }
    }

    /// From now on nothing waits, and what waits goes on: the node is stopping.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Turns<'_> {
    /// Lets queries go first, if there are any. To be called before each block; `stopped` ends the wait.
    pub(crate) fn step_aside(&self, stopped: &dyn Fn() -> bool) {
        let Some(is_pressed) = self.is_pressed else { return };
        let aside = self.aside;
        let mut credit = self.earned();
        let mut now = self.since.get();
        while !credit.is_zero() && aside.foreground.is_busy() && !aside.ended.load(Ordering::Acquire) && !stopped() {
            if is_pressed() {
                if !self.overrode.replace(true) {
                    aside.metrics.debt_overrides.inc();
                }
                break;
            }
            let nap = LOOK.min(credit);
            std::thread::sleep(nap);
            let later = aside.clock.uptime();
            // A clock that stands still, as that of a test may, must not make it wait for ever.
            let waited = later.saturating_sub(now).max(nap);
            aside.metrics.aside_seconds.inc_by(waited.as_secs_f64());
            credit = credit.saturating_sub(waited);
            now = later;
        }
        self.since.set(now);
        *lock(&aside.credit) = credit;
    }

    /// Counts the work since it was counted last, and gives the credit.
    fn earned(&self) -> Duration {
        let now = self.aside.clock.uptime();
        let worked = now.saturating_sub(self.since.replace(now));
        let mut credit = lock(&self.aside.credit);
        *credit = credit.saturating_add(worked.saturating_mul(self.aside.rate)).min(WAIT_MAX);
        *credit
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        self.earned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_doors::sim;

    const BLOCK: Duration = Duration::from_millis(200);

    struct Bench {
        clock: Arc<sim::Clock>,
        foreground: Arc<Foreground>,
        metrics: Metrics,
        aside: Aside,
    }

    fn bench() -> Bench {
        let clock = Arc::new(sim::Clock::at(0));
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let (foreground, metrics) = (Foreground::new(Arc::clone(&shared)), Metrics::default());
        let aside = Aside::new(&foreground, &shared, &metrics, 20);
        Bench { clock, foreground, metrics, aside }
    }

    impl Bench {
        /// Does so many blocks, and gives the time that this took. Each look takes 50 ms.
        fn work(&self, blocks: u32, is_pressed: bool, mut each: impl FnMut(u32)) -> Duration {
            let started = self.clock.uptime();
            let pressed = || is_pressed;
            let turns = self.aside.begin(&pressed);
            for block in 0..blocks {
                each(block);
                turns.step_aside(&|| {
                    self.clock.advance(Duration::from_millis(50));
                    false
                });
                self.clock.advance(BLOCK);
            }
            self.clock.uptime() - started
        }
    }

    #[test]
    fn nobody_waits_while_nothing_is_asked() {
        let bench = bench();
        assert_eq!(bench.work(20, false, |_| {}), 20 * BLOCK);
        assert_eq!(bench.metrics.aside_seconds.get(), 0.0);
    }

    #[test]
    fn a_share_is_left_however_long_queries_run() {
        let bench = bench();
        let _busy = bench.foreground.enter();
        let took = bench.work(50, false, |_| {});
        let share = (50 * BLOCK).as_secs_f64() / took.as_secs_f64();
        assert!((0.19..0.22).contains(&share), "{share}");
        let aside = bench.metrics.aside_seconds.get();
        assert!((aside - (took - 50 * BLOCK).as_secs_f64()).abs() < 1e-6, "{aside}");
        assert_eq!(bench.metrics.debt_overrides.get(), 0);
    }

    #[test]
    fn no_wait_is_longer_than_its_bound() {
        let bench = bench();
        bench.work(1_000, false, |_| {});
        let _busy = bench.foreground.enter();
        let took = bench.work(1, false, |_| {});
        assert!(took > BLOCK + WAIT_MAX / 2 && took <= BLOCK + WAIT_MAX, "{took:?}");
    }

    #[test]
    fn it_goes_on_when_the_queries_end() {
        let bench = bench();
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
    fn debt_goes_before_queries() {
        let bench = bench();
        let _busy = bench.foreground.enter();
        let looks = Duration::from_millis(50) * 9;
        assert_eq!(bench.work(10, true, |_| {}), 10 * BLOCK + looks, "it looked, and did not wait");
        assert_eq!(bench.metrics.aside_seconds.get(), 0.0);
        assert_eq!(bench.metrics.debt_overrides.get(), 1, "a piece of work counts once");
    }

    #[test]
    fn what_somebody_waits_for_does_not_step_aside() {
        let bench = bench();
        let _busy = bench.foreground.enter();
        bench.clock.advance(BLOCK);
        let turns = bench.aside.begin_awaited();
        bench.clock.advance(BLOCK);
        turns.step_aside(&|| panic!("it would have waited"));
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_wait() {
        let bench = bench();
        let pressed = || false;
        let turns = bench.aside.begin(&pressed);
        let _busy = bench.foreground.enter();
        bench.clock.advance(Duration::from_millis(5));
        turns.step_aside(&|| false);
        assert_eq!(bench.metrics.aside_seconds.get(), 0.02, "four times the work");
    }

    #[test]
    fn a_node_that_stops_waits_for_no_query() {
        let bench = bench();
        let _busy = bench.foreground.enter();
        bench.aside.end();
        assert_eq!(bench.work(10, false, |_| {}), 10 * BLOCK);
        let bench = self::bench();
        let _busy = bench.foreground.enter();
        let pressed = || false;
        let turns = bench.aside.begin(&pressed);
        bench.clock.advance(BLOCK);
        turns.step_aside(&|| true);
        assert_eq!(bench.clock.uptime(), BLOCK);
    }
}
