//! Machines of which this one plays the part: with less CPU, a slower disk, or slower calls of the system.

use std::time::Duration;

use anyhow::{Context as _, anyhow};

use super::planned_load::RANGE;

/// Bytes of one read of a queue segment, bytes of text of a stored block, and the reads of one: of its filter and of its columns.
const QUEUE_READ_BYTES: f64 = (512_u32 << 10) as f64;
const BLOCK_TEXT_BYTES: f64 = 16e6;
const READS_PER_BLOCK: f64 = 2.0;

/// The period of CPU quotas: the default of Linux and of Kubernetes.
pub(super) const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// What a node runs on. The same costs predict all of them: only what the environment changes by a known amount is
/// changed in the calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NodeEnvironment {
    pub(super) name: &'static str,
    /// Hundredths of a core of a CPU quota.
    pub(super) cpu_percent: Option<u64>,
    /// The bandwidth to which writes to the disk are throttled, in bytes per second.
    pub(super) write_bytes_per_second: Option<u64>,
    /// By how much each `fsync` and `fdatasync` takes longer.
    pub(super) sync_delay: Duration,
    /// By how much each read of a file at an offset takes longer, if it is delayed. A node has no block cache then, so that
    /// questions read their blocks.
    pub(super) read_delay: Duration,
}

impl NodeEnvironment {
    /// This machine as it is.
    pub(super) const THIS_MACHINE: Self = Self {
        name: "this machine",
        cpu_percent: None,
        write_bytes_per_second: None,
        sync_delay: Duration::ZERO,
        read_delay: Duration::ZERO,
    };

    /// This machine with a CPU quota.
    pub(super) const fn with_cpu(name: &'static str, percent: u64) -> Self {
        Self { name, cpu_percent: Some(percent), ..Self::THIS_MACHINE }
    }

    /// This machine with a disk of this bandwidth.
    pub(super) const fn with_disk(name: &'static str, bytes_per_second: u64) -> Self {
        Self { name, write_bytes_per_second: Some(bytes_per_second), ..Self::THIS_MACHINE }
    }

    /// This machine with slower syncs.
    pub(super) const fn with_sync_delay(name: &'static str, millis: u64) -> Self {
        Self { name, sync_delay: Duration::from_millis(millis), ..Self::THIS_MACHINE }
    }

    /// This machine with slower reads.
    pub(super) const fn with_read_delay(name: &'static str, millis: u64) -> Self {
        Self { name, read_delay: Duration::from_millis(millis), ..Self::THIS_MACHINE }
    }

    /// Those that are measured.
    pub(super) const ALL: [Self; 9] = [
        Self::with_cpu("0.25 cores", 25),
        Self::with_cpu("0.5 cores", 50),
        Self::with_cpu("1 core", 100),
        Self::with_cpu("2 cores", 200),
        Self::with_disk("disk of 10 MB/s", 10_000_000),
        Self::with_disk("disk of 40 MB/s", 40_000_000),
        Self::with_sync_delay("syncs + 5 ms", 5),
        Self::with_sync_delay("syncs + 20 ms", 20),
        Self::with_read_delay("reads + 5 ms", 5),
    ];

    /// The flags of `bucksaw plan` for it.
    pub(super) fn plan_flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(percent) = self.cpu_percent {
            let limit = (percent as f64 / 100.0).to_string();
            let period = format!("{}ms", QUOTA_PERIOD.as_millis());
            flags.extend(["--cpu-limit".to_owned(), limit, "--cpu-period".to_owned(), period]);
        }
        if let Some(bytes) = self.write_bytes_per_second {
            flags.extend(["--disk-limit".to_owned(), bytes.to_string()]);
        }
        flags
    }

    /// The flags of `bucksaw serve` for it.
    pub(super) fn serve_flags(&self) -> &'static [&'static str] {
        if self.read_delay.is_zero() { &[] } else { &["--query-cache-bytes", "0"] }
    }

    /// Seconds by which reads delay a question: those of all its text over the cores of this machine, each of which has a thread, one
    /// after the other. Text in the queue is read in windows of [`QUEUE_READ_BYTES`], and stored text in two reads per block.
    pub(super) fn question_delay(&self, bytes_per_second: f64, queue_seconds: f64) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let queued = queue_seconds.min(RANGE.as_secs_f64());
        let stored = RANGE.as_secs_f64() - queued;
        let reads = bytes_per_second * (queued / QUEUE_READ_BYTES + READS_PER_BLOCK * stored / BLOCK_TEXT_BYTES);
        reads / cores * self.read_delay.as_secs_f64()
    }

    /// Seconds by which reads delay the gather of this much text, on one thread.
    pub(super) fn gather_delay(&self, text_bytes: f64) -> f64 {
        text_bytes / QUEUE_READ_BYTES * self.read_delay.as_secs_f64()
    }

    /// The costs in it, from those of this machine: each sync is longer by its delay, and without a block cache, all text costs what text outside of it costs.
    pub(super) fn costs(&self, calibration: &toml::Table) -> anyhow::Result<toml::Table> {
        let mut costs = calibration.clone();
        if !self.sync_delay.is_zero() {
            for load in ["quiet", "busy"] {
                let times = costs.get_mut("requests").and_then(|requests| requests.get_mut(load)?.get_mut("sync"));
                let sync = times.and_then(toml::Value::as_table_mut);
                delay_all(sync.context("the calibration has no time of a sync")?, self.sync_delay.as_secs_f64())?;
            }
        }
        if !self.read_delay.is_zero() {
            let questions = costs.get_mut("questions").and_then(toml::Value::as_array_mut);
            for question in questions.context("the calibration has no questions")? {
                let question = question.as_table_mut().context("a question of the calibration is no table")?;
                let cold = float(question, "cold_seconds_per_byte")?;
                question.insert("cached_seconds_per_byte".to_owned(), cold.into());
            }
        }
        Ok(costs)
    }

    /// The environment variables by which the preloaded library delays calls of the system; empty without delays.
    pub(super) fn slow_calls(&self) -> Vec<String> {
        let delays = [("SLOW_SYNC_MICROS", self.sync_delay), ("SLOW_READ_MICROS", self.read_delay)];
        let delays = delays.into_iter().filter(|(_, delay)| !delay.is_zero());
        delays.map(|(variable, delay)| format!("{variable}={}", delay.as_micros())).collect()
    }
}

/// Makes all times of a histogram longer.
fn delay_all(times: &mut toml::Table, delay: f64) -> anyhow::Result<()> {
    times.insert("mean_seconds".to_owned(), (float(times, "mean_seconds")? + delay).into());
    let list = |name: &str| times.get(name).and_then(toml::Value::as_array).context("a histogram has no buckets");
    let bounds = list("bounds")?.iter().map(|bound| bound.as_float().map(|bound| bound + delay));
    // No time is shorter than the delay.
    let bounds: Option<Vec<f64>> = std::iter::once(Some(delay)).chain(bounds).collect();
    let counts: Vec<toml::Value> = std::iter::once(0.0.into()).chain(list("counts")?.iter().cloned()).collect();
    times.insert("bounds".to_owned(), bounds.context("a bound of a histogram is no number")?.into());
    times.insert("counts".to_owned(), counts.into());
    Ok(())
}

fn float(table: &toml::Table, name: &str) -> anyhow::Result<f64> {
    table.get(name).and_then(toml::Value::as_float).ok_or_else(|| anyhow!("the calibration has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration() -> toml::Table {
        let sync = "mean_seconds = 0.001\nbounds = [0.001, 0.002]\ncounts = [3.0, 1.0]\n";
        let text = format!(
            "[requests.quiet.sync]\n{sync}[requests.busy.sync]\n{sync}[[questions]]\ncold_seconds_per_byte = 3e-10\n\
             cached_seconds_per_byte = 1e-10\n"
        );
        text.parse().unwrap()
    }

    #[test]
    fn each_sync_is_longer_by_its_delay() {
        let costs = NodeEnvironment::with_sync_delay("", 5).costs(&calibration()).unwrap();
        for load in ["quiet", "busy"] {
            let sync = costs["requests"][load]["sync"].as_table().unwrap();
            let list = |name: &str| -> Vec<f64> {
                sync[name].as_array().unwrap().iter().map(|value| value.as_float().unwrap()).collect()
            };
            assert!((float(sync, "mean_seconds").unwrap() - 0.006).abs() < 1e-12);
            assert_eq!((list("bounds"), list("counts")), (vec![0.005, 0.006, 0.007], vec![0.0, 3.0, 1.0]));
        }
        assert_eq!(costs["questions"], calibration()["questions"]);
    }

    #[test]
    fn only_a_node_without_a_cache_pays_for_cold_text() {
        let cached = |environment: NodeEnvironment| {
            let costs = environment.costs(&calibration()).unwrap();
            float(costs["questions"][0].as_table().unwrap(), "cached_seconds_per_byte").unwrap()
        };
        assert_eq!(cached(NodeEnvironment::with_read_delay("", 1)), 3e-10);
        assert_eq!(cached(NodeEnvironment::with_cpu("", 50)), 1e-10);
        assert!(NodeEnvironment::with_read_delay("", 1).costs(&toml::Table::new()).is_err());
    }

    #[test]
    fn reads_grow_with_the_text_and_with_its_time_in_the_queue() {
        let environment = NodeEnvironment::with_read_delay("", 1);
        let (stored, queued) = (environment.question_delay(1e6, 0.0), environment.question_delay(1e6, 60.0));
        assert!((queued / stored - BLOCK_TEXT_BYTES / 2.0 / QUEUE_READ_BYTES).abs() < 1e-9, "{stored} {queued}");
        assert!((environment.question_delay(2e6, 0.0) - 2.0 * stored).abs() < 1e-9);
        assert!((environment.gather_delay(QUEUE_READ_BYTES * 7.0) - 0.007).abs() < 1e-12);
    }

    #[test]
    fn flags_say_the_environment() {
        let check = |environment: NodeEnvironment, plan: &str, serve: &str, slow_calls: &str| {
            assert_eq!(environment.plan_flags().join(" "), plan);
            assert_eq!(environment.serve_flags().join(" "), serve);
            assert_eq!(environment.slow_calls().join(" "), slow_calls);
        };
        check(NodeEnvironment::THIS_MACHINE, "", "", "");
        check(NodeEnvironment::with_cpu("", 25), "--cpu-limit 0.25 --cpu-period 100ms", "", "");
        check(NodeEnvironment::with_disk("", 7), "--disk-limit 7", "", "");
        check(NodeEnvironment::with_sync_delay("", 5), "", "", "SLOW_SYNC_MICROS=5000");
        check(NodeEnvironment::with_read_delay("", 2), "", "--query-cache-bytes 0", "SLOW_READ_MICROS=2000");
    }
}
