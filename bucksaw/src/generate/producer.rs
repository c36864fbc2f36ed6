//! Makes the lines that are due, in batches.

use std::time::Duration;

use bucksaw_env::{Clock, real};
use bucksaw_generate::{Config, Generator, LineSchedule};
use tokio::sync::watch;

use super::load_totals::LoadCounters;

/// The longest sleep, after which a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Lines that are later than this are left out.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Lines with their line ends. They have the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineBatch {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}

/// How lines are divided into batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadPace {
    /// The shortest time between two batches that are not full.
    pub(super) tick: Duration,
    /// A batch with as many bytes is full.
    pub(super) batch_bytes: usize,
}

/// What is produced.
#[derive(Clone, Debug)]
pub(super) struct ProducerConfig {
    pub(super) lines: Config,
    /// Lines per second; `None` for as many as the target takes.
    pub(super) rate: Option<f64>,
    /// The number of lines; `None` for no end.
    pub(super) count: Option<u64>,
    pub(super) pace: LoadPace,
}

/// Makes lines until their number is reached or the stop.
pub(super) struct LineProducer {
    config: ProducerConfig,
    stop: watch::Receiver<bool>,
    clock: Box<dyn Clock>,
}

impl LineProducer {
    pub(super) fn new(config: ProducerConfig, stop: watch::Receiver<bool>) -> Self {
        Self { config, stop, clock: Box::new(real::Clock::default()) }
    }

    /// Passes the batches to `put`, which may block. Ends when it returns `false` or an error.
    pub(super) fn run(
        self,
        counters: &LoadCounters,
        mut put: impl FnMut(LineBatch) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let Self { config: ProducerConfig { lines, rate, count, pace }, stop, clock } = self;
        let is_stopped = || *stop.borrow() || stop.has_changed().is_err();
        let mut generator = Generator::new(lines, clock.unix_ms());
        let started = clock.uptime();
        let mut schedule = rate.map(LineSchedule::new);
        let mut left = count.unwrap_or(u64::MAX);
        while left > 0 && !is_stopped() {
            let mut due = left;
            if let Some(schedule) = &mut schedule {
                let elapsed = clock.uptime() - started;
                counters.add_late(schedule.skip_late(elapsed, LATE_MAX));
                due = schedule.lines_due(elapsed).min(left);
            }
            left -= due;
            while due > 0 && !is_stopped() {
                let (mut batch, now) = (LineBatch::default(), clock.unix_ms());
                batch.text.reserve(pace.batch_bytes + pace.batch_bytes / 8);
                while due > 0 && batch.text.len() < pace.batch_bytes {
                    generator.append_line(&mut batch.text, now);
                    batch.lines += 1;
                    due -= 1;
                }
                if !put(batch)? {
                    return Ok(());
                }
            }
            if let Some(schedule) = schedule.as_ref().filter(|_| left > 0) {
                let wait = schedule.next_due().saturating_sub(clock.uptime() - started);
                clock.sleep(wait.clamp(pace.tick, SLEEP_MAX));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bucksaw_generate::SampleFormat;

    use super::*;

    /// A clock that moves by its sleeps only, and by what a target takes.
    #[derive(Clone, Debug, Default)]
    struct SteppedClock(Arc<AtomicU64>);

    impl SteppedClock {
        fn advance(&self, time: Duration) {
            self.0.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
        }
    }

    impl Clock for SteppedClock {
        fn unix_ms(&self) -> u64 {
            1_700_000_000_000 + self.0.load(Ordering::Relaxed) / 1_000
        }
        fn uptime(&self) -> Duration {
            Duration::from_micros(self.0.load(Ordering::Relaxed))
        }
        fn sleep(&self, time: Duration) {
            self.advance(time);
        }
    }

    struct Produced {
        batches: Vec<LineBatch>,
        late: u64,
        seconds: f64,
    }

    fn produce(rate: Option<f64>, count: u64, size: Option<usize>, each: Duration) -> Produced {
        let lines = Config { format: SampleFormat::Text, size, seed: 3 };
        let pace = LoadPace { tick: Duration::from_millis(10), batch_bytes: 1_000 };
        let (_stop, stopping) = watch::channel(false);
        let (clock, counters) = (SteppedClock::default(), LoadCounters::default());
        let config = ProducerConfig { lines, rate, count: Some(count), pace };
        let producer = LineProducer { clock: Box::new(clock.clone()), ..LineProducer::new(config, stopping) };
        let mut batches = Vec::new();
        let put = |batch| {
            batches.push(batch);
            clock.advance(each);
            Ok(true)
        };
        producer.run(&counters, put).unwrap();
        Produced { batches, late: counters.totals().late_records, seconds: clock.uptime().as_secs_f64() }
    }

    #[test]
    fn batches_have_the_lines_of_the_count_and_their_size() {
        for (rate, count) in [(None, 1_234), (Some(1e6), 20_000), (Some(10.0), 7), (None, 0)] {
            let Produced { batches, late, .. } = produce(rate, count, Some(99), Duration::ZERO);
            assert_eq!((batches.iter().map(|batch| batch.lines).sum::<u64>(), late), (count, 0));
            for batch in batches {
                assert!(batch.text.len() as u64 == 100 * batch.lines && batch.text.len() <= 1_100);
                assert_eq!(batch.text.iter().filter(|byte| **byte == b'\n').count() as u64, batch.lines);
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_batches() {
        let texts = |seconds| produce(Some(500.0), 2_000, None, seconds).batches;
        assert!(texts(Duration::ZERO) == texts(Duration::ZERO));
    }

    #[test]
    fn lines_are_even_over_the_seconds() {
        let check = |rate: f64, count: u64| {
            let Produced { batches, late, seconds } = produce(Some(rate), count, Some(20), Duration::ZERO);
            let (want, most) = (count as f64 / rate, batches.iter().map(|batch| batch.lines).max().unwrap());
            assert!((seconds - want).abs() < 0.12 && late == 0, "{count} lines at {rate}/s took {seconds} s");
            assert!(most <= 48, "{most} lines at once");
        };
        check(1e6, 3_000_000);
        check(1_000.0, 5_000);
        check(7.0, 70);
        check(0.5, 10);
    }

    #[test]
    fn a_slow_target_gets_no_burst() {
        // It takes 100 lines per second of 1,000.
        let Produced { batches, late, seconds } = produce(Some(1_000.0), 2_000, Some(99), Duration::from_millis(100));
        assert_eq!(batches.iter().map(|batch| batch.lines).sum::<u64>(), 2_000);
        // Those that are due behind the last line are not late.
        assert!(late > 8_000 && (19.0..22.0).contains(&seconds), "{late} lines late, {seconds} s");
    }
}
