//! Loads in each environment, at shares of the predicted capacity.

use super::environment::NodeEnvironment;
use super::node_run::{NodeRun, node_figures};
use super::planned_load::{PlannedLoad, QUESTIONS_PER_HOUR};
use super::planner::Planner;
use super::prediction::Predictions;
use super::scenario::{Meter, ModelScenario};
use crate::results::{Figure, figure};

/// Bytes of a line.
const LINE_BYTES: u64 = 240;

/// The rate from which a plan finds the capacity, in bytes per second.
const PROBE_RATE: u64 = 1_000_000;

/// The share of the time in which questions at most wait for delayed reads. They keep the threads of all questions meanwhile.
const DELAYED_SHARE_MAX: f64 = 0.4;

/// A share of the predicted capacity of a node in an environment.
#[derive(Clone, Copy, Debug)]
struct EnvironmentLoad {
    environment: NodeEnvironment,
    capacity_percent: u64,
    has_questions: bool,
}

/// All of them: a low load with questions, and a middle one with and without.
pub(super) fn scenarios() -> Vec<Box<dyn ModelScenario>> {
    let loads = [(20, true), (60, false), (60, true)];
    let of = |environment| {
        loads.map(move |(capacity_percent, has_questions)| -> Box<dyn ModelScenario> {
            Box::new(EnvironmentLoad { environment, capacity_percent, has_questions })
        })
    };
    NodeEnvironment::ALL.into_iter().flat_map(of).collect()
}

impl EnvironmentLoad {
    fn load(&self, bytes_per_second: u64, questions_per_hour: u32) -> PlannedLoad {
        let questions_per_hour = if self.has_questions { questions_per_hour } else { 0 };
        PlannedLoad { questions_per_hour, ..PlannedLoad::without_questions(bytes_per_second, LINE_BYTES) }
    }
}

impl ModelScenario for EnvironmentLoad {
    fn name(&self) -> String {
        let questions = if self.has_questions { ", questions" } else { "" };
        format!("{}, {} %{questions}", self.environment.name, self.capacity_percent)
    }

    fn predict(&self, planner: &Planner) -> anyhow::Result<Vec<Figure>> {
        let probe = planner.plan(self.load(PROBE_RATE, QUESTIONS_PER_HOUR), &self.environment)?;
        let rate = rounded(PROBE_RATE as f64 * probe.capacity()? * self.capacity_percent as f64 / 100.0);
        let plan = planner.plan(self.load(rate as u64, QUESTIONS_PER_HOUR), &self.environment)?;
        let delay = self.environment.question_delay(rate, plan.queue_seconds(planner, &self.environment)?);
        let questions_per_hour = f64::from(QUESTIONS_PER_HOUR).min((DELAYED_SHARE_MAX / delay * 3_600.0).round());
        let load = self.load(rate as u64, questions_per_hour as u32);
        let plan = planner.plan(load, &self.environment)?;
        let mut figures = vec![figure("rate", "B/s", rate)];
        if self.has_questions {
            figures.push(figure("questions", "1/h", questions_per_hour));
        }
        figures.extend(node_figures(&plan, load)?);
        // As the plan has it for reads that are slow by themselves.
        let free = 1.0 - questions_per_hour / 3_600.0 * delay;
        for figure in figures.iter_mut().filter(|figure| figure.name.starts_with("question_")) {
            figure.value = (figure.value + delay * 1e3) / free;
        }
        Ok(figures)
    }

    fn measure(&self, meter: &Meter<'_>, predicted: &Predictions) -> anyhow::Result<Vec<Figure>> {
        let rate = predicted.required(&self.name(), "rate")?;
        let questions_per_hour = predicted.get(&self.name(), "questions").unwrap_or_default();
        let load = self.load(rate as u64, questions_per_hour as u32);
        let run = NodeRun { environment: &self.environment, load, warm_up: meter.warm_up, time: meter.time };
        let mut figures = vec![figure("rate", "MB/s", rate / 1e6)];
        figures.extend(run.measure(meter)?);
        Ok(figures)
    }
}

/// In two digits, so that files and tables show the load as it is.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 1.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_has_a_low_and_a_middle_load() {
        let mut names: Vec<String> = scenarios().iter().map(|scenario| scenario.name()).collect();
        let wanted = ["0.25 cores, 20 %, questions", "reads + 5 ms, 60 %", "disk of 10 MB/s, 60 %, questions"];
        for name in wanted {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3 * NodeEnvironment::ALL.len());
    }

    #[test]
    fn rates_have_two_digits() {
        for (rate, want) in [(17_812_345.0, 18_000_000.0), (5_840_000.0, 5_800_000.0), (99.6, 100.0)] {
            assert_eq!(rounded(rate), want);
        }
    }
}
