//! Twelve loads on a node of this machine: three rates, two lengths of lines, with questions and without.

use super::environment::NodeEnvironment;
use super::node_run::{NodeRun, node_figures};
use super::planned_load::{PlannedLoad, QUESTIONS_PER_HOUR};
use super::planner::Planner;
use super::prediction::Predictions;
use super::scenario::{Meter, ModelScenario};
use crate::results::Figure;

/// One of the loads.
#[derive(Clone, Copy, Debug)]
struct MachineLoad(PlannedLoad);

/// All of them.
pub(super) fn scenarios() -> Vec<Box<dyn ModelScenario>> {
    let mut all: Vec<Box<dyn ModelScenario>> = Vec::new();
    for bytes_per_second in [2_000_000, 8_000_000, 24_000_000] {
        for line_bytes in [240, 1_500] {
            for questions_per_hour in [0, QUESTIONS_PER_HOUR] {
                let load = PlannedLoad::without_questions(bytes_per_second, line_bytes);
                all.push(Box::new(MachineLoad(PlannedLoad { questions_per_hour, ..load })));
            }
        }
    }
    all
}

impl ModelScenario for MachineLoad {
    fn name(&self) -> String {
        let Self(PlannedLoad { bytes_per_second, line_bytes, questions_per_hour, .. }) = self;
        let questions = if *questions_per_hour > 0 { ", questions" } else { "" };
        format!("{} MB/s, {line_bytes} B{questions}", bytes_per_second / 1_000_000)
    }

    fn predict(&self, planner: &Planner) -> anyhow::Result<Vec<Figure>> {
        node_figures(&planner.plan(self.0, &NodeEnvironment::THIS_MACHINE)?, self.0)
    }

    fn measure(&self, meter: &Meter<'_>, _: &Predictions) -> anyhow::Result<Vec<Figure>> {
        NodeRun { environment: &NodeEnvironment::THIS_MACHINE, load: self.0, warm_up: meter.warm_up, time: meter.time }
            .measure(meter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_have_names_of_their_own() {
        let mut names: Vec<String> = scenarios().iter().map(|scenario| scenario.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12);
        assert!(names.iter().any(|name| name == "24 MB/s, 1500 B, questions"), "{names:?}");
    }
}
