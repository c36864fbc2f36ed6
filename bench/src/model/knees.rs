//! The load at which a mean time is twice that of an idle node.

use std::time::Duration;

use anyhow::Context as _;

use super::environment::NodeEnvironment;
use super::knee_search::KneeSearch;
use super::node_run::NodeRun;
use super::planned_load::{PlannedLoad, QUESTIONS_PER_HOUR};
use super::planner::Planner;
use super::prediction::Predictions;
use super::scenario::{Meter, ModelScenario};
use crate::results::{Figure, figure};

/// Rates that are measured besides that of an almost idle node.
const RATES: usize = 6;

/// The rate of an almost idle node relative to the predicted knee.
const IDLE_SHARE: f64 = 0.05;

/// Bytes of a line, and of text per second while the rate of questions varies.
const LINE_BYTES: u64 = 240;
const RATE_WITH_QUESTIONS: u64 = 2_000_000;

/// The rate from which a plan finds the knee of acknowledgements.
const PROBE_RATE: u64 = 1_000_000;

/// The time until acknowledgements are as they stay, at most: that of the first merge, of four batches of ten seconds.
const WARM_UP: Duration = Duration::from_secs(45);

/// The time that one rate is measured, at most: one merge, where batches are merged. It is longer if fewer than this many requests are
/// made in it: their mean would be one of chance.
const TIME_MAX: Duration = Duration::from_secs(40);
const SAMPLES_MIN: f64 = 60.0;

/// What takes twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KneeOf {
    Acks,
    Questions,
}

/// A knee in an environment.
#[derive(Clone, Copy, Debug)]
struct Knee {
    environment: NodeEnvironment,
    of: KneeOf,
}

/// Those that are measured, where the senders leave the node enough of the machine.
pub(super) fn scenarios() -> Vec<Box<dyn ModelScenario>> {
    let quarter = NodeEnvironment::with_cpu("0.25 cores", 25);
    let half = NodeEnvironment::with_cpu("0.5 cores", 50);
    let disk = NodeEnvironment::with_disk("disk of 10 MB/s", 10_000_000);
    let knees = [(quarter, KneeOf::Acks), (disk, KneeOf::Acks), (half, KneeOf::Questions)];
    knees
        .into_iter()
        .map(|(environment, of)| -> Box<dyn ModelScenario> { Box::new(Knee { environment, of }) })
        .collect()
}

impl Knee {
    /// The load at a rate of bytes or of questions per second.
    fn load(&self, rate: f64) -> PlannedLoad {
        match self.of {
            KneeOf::Acks => PlannedLoad::without_questions(rate as u64, LINE_BYTES),
            KneeOf::Questions => PlannedLoad {
                questions_per_hour: (rate * 3_600.0).max(1.0) as u32,
                ..PlannedLoad::without_questions(RATE_WITH_QUESTIONS, LINE_BYTES)
            },
        }
    }

    /// How long this rate is measured.
    fn time(&self, rate: f64, wanted: Duration) -> Duration {
        let samples_per_second = match self.of {
            KneeOf::Acks => rate / self.load(rate).request_bytes as f64,
            KneeOf::Questions => rate,
        };
        wanted.min(TIME_MAX).max(Duration::from_secs_f64(SAMPLES_MIN / samples_per_second))
    }

    /// The name of the figure, and how many of the units of a load are one of its unit.
    fn figure(&self, rate: f64) -> Figure {
        match self.of {
            KneeOf::Acks => figure("ack_knee", "MB/s", rate / 1e6),
            KneeOf::Questions => figure("question_knee", "1/s", rate),
        }
    }
}

impl ModelScenario for Knee {
    fn name(&self) -> String {
        let of = match self.of {
            KneeOf::Acks => "acknowledgements",
            KneeOf::Questions => "questions",
        };
        format!("{}, knee of {of}", self.environment.name)
    }

    fn predict(&self, planner: &Planner) -> anyhow::Result<Vec<Figure>> {
        let (probe, name) = match self.of {
            KneeOf::Acks => (PROBE_RATE as f64, "load at which an acknowledgement takes twice as long"),
            KneeOf::Questions => {
                let name = "rate of questions at which they take twice as long";
                (f64::from(QUESTIONS_PER_HOUR) / 3_600.0, name)
            }
        };
        let factor = planner.plan(self.load(probe), &self.environment)?.value(name)?;
        Ok(vec![figure("knee", "units/s", probe * factor), self.figure(probe * factor)])
    }

    fn measure(&self, meter: &Meter<'_>, predicted: &Predictions) -> anyhow::Result<Vec<Figure>> {
        let first = predicted.required(&self.name(), "knee")?;
        let mean = |rate: f64| {
            let name = match self.of {
                KneeOf::Acks => "ack_mean",
                KneeOf::Questions => "question_mean",
            };
            let (warm_up, time) = (WARM_UP.min(meter.warm_up), self.time(rate, meter.time));
            let run = NodeRun { environment: &self.environment, load: self.load(rate), warm_up, time };
            let figures = run.measure(meter)?;
            let mean = figures.iter().find(|figure| figure.name == name).context("there is no mean")?.value;
            let shown = self.figure(rate);
            eprintln!("    {:.1} {}: mean {mean:.2} ms", shown.value, shown.unit);
            anyhow::Ok(mean)
        };
        let idle = mean(first * IDLE_SHARE)?;
        let mut search = KneeSearch::new(idle, first);
        for _ in 0..RATES {
            search.add(mean(search.next())?);
        }
        let knee = search.knee().context("no rate below or above the knee was measured")?;
        Ok(vec![self.figure(knee), figure("idle_mean", "ms", idle)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_that_varies_is_that_of_bytes_or_of_questions() {
        let knee = |of| Knee { environment: NodeEnvironment::with_cpu("1 core", 100), of };
        let (acks, questions) = (knee(KneeOf::Acks), knee(KneeOf::Questions));
        assert_eq!((acks.load(3e6).bytes_per_second, acks.load(3e6).questions_per_hour), (3_000_000, 0));
        assert_eq!(questions.load(2.0).questions_per_hour, 7_200);
        assert_eq!(questions.load(2.0).bytes_per_second, RATE_WITH_QUESTIONS);
        assert_eq!((acks.figure(3e6).value, questions.figure(2.0).value), (3.0, 2.0));
        assert_eq!(acks.name(), "1 core, knee of acknowledgements");
        let time = |rate| acks.time(rate, Duration::from_secs(60)).as_secs_f64().round();
        assert_eq!((time(655_360.0), time(32_768.0)), (40.0, 120.0));
    }
}
