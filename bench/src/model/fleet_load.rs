//! The senders of the experiment of OK Log: forwarders of 100 to 1,000 records per second of 100 to 8,000 bytes each.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::planned_load::PlannedLoad;

/// The least time between two writes of a sender: one write per record would cost more than the record.
const CYCLE_MIN: Duration = Duration::from_millis(50);

/// The most text of a batch of `bucksaw forward`.
const BATCH_BYTES: f64 = (256_u32 << 10) as f64;

/// What one forwarder sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwarderLoad {
    pub(super) records_per_second: u64,
    /// Bytes of each line, with its line end.
    pub(super) line_bytes: u64,
}

impl ForwarderLoad {
    /// Draws evenly, with a fixed seed.
    pub(super) fn drawn(forwarders: usize, seed: u64) -> Vec<Self> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut between = |low: u64, high: u64| low + (random.next_u64() >> 11) % (high - low + 1);
        (0..forwarders)
            .map(|_| Self { records_per_second: between(100, 1_000), line_bytes: between(100, 8_000) })
            .collect()
    }

    /// The most that is drawn.
    pub(super) const GREATEST: Self = Self { records_per_second: 1_000, line_bytes: 8_000 };

    /// Bytes per second.
    pub(super) fn bytes_per_second(self) -> f64 {
        (self.records_per_second * self.line_bytes) as f64
    }

    /// Records that are written at once, and the time between two such writes.
    pub(super) fn cycle(self) -> (u64, Duration) {
        let (mut records, mut time) = (1_u64, Duration::from_secs_f64(1.0 / self.records_per_second as f64));
        while time < CYCLE_MIN {
            records *= 2;
            time *= 2;
        }
        (records, time)
    }

    /// Batches per second. A forwarder waits up to 50 ms for more, so one cycle is one batch if it fits.
    fn batches_per_second(self) -> f64 {
        let (records, time) = self.cycle();
        ((records * self.line_bytes) as f64 / BATCH_BYTES).ceil() / time.as_secs_f64()
    }
}

/// The load of all of them together, as a plan takes it.
pub(super) fn planned(forwarders: &[ForwarderLoad]) -> PlannedLoad {
    let sum = |of: fn(ForwarderLoad) -> f64| forwarders.iter().map(|forwarder| of(*forwarder)).sum::<f64>();
    let bytes = sum(ForwarderLoad::bytes_per_second);
    PlannedLoad {
        bytes_per_second: bytes as u64,
        line_bytes: (bytes / sum(|forwarder| forwarder.records_per_second as f64)) as u64,
        request_bytes: (bytes / sum(ForwarderLoad::batches_per_second)) as u64,
        questions_per_hour: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_loads_are_in_range_and_the_same_each_time() {
        let drawn = ForwarderLoad::drawn(1_000, 9);
        for load in &drawn {
            assert!((100..=1_000).contains(&load.records_per_second) && (100..=8_000).contains(&load.line_bytes));
        }
        let mean = drawn.iter().map(|load| load.line_bytes).sum::<u64>() / 1_000;
        assert!((3_800..4_300).contains(&mean), "{mean}");
        assert_eq!(drawn[..8], ForwarderLoad::drawn(8, 9));
    }

    #[test]
    fn cycles_are_powers_of_two_records_and_keep_the_rate() {
        let cycle = |records_per_second| ForwarderLoad { records_per_second, line_bytes: 100 }.cycle();
        assert_eq!(cycle(1_000), (64, Duration::from_millis(64)));
        assert_eq!(cycle(100), (8, Duration::from_millis(80)));
    }

    #[test]
    fn a_plan_takes_the_sum_of_the_rates_and_the_means_of_lines_and_batches() {
        let small = ForwarderLoad { records_per_second: 100, line_bytes: 1_000 };
        // 8 MB/s of 8,000 bytes, in cycles of 512,000 bytes, each two batches; and 0.1 MB/s of 1,000 in cycles of 8,000.
        let load = planned(&[ForwarderLoad::GREATEST, small]);
        assert_eq!((load.bytes_per_second, load.line_bytes), (8_100_000, 7_363));
        assert_eq!(load.request_bytes, (8_100_000.0 / (2.0 / 0.064 + 1.0 / 0.08)) as u64);
    }
}
