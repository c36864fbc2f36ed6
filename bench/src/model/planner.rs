//! Runs `bucksaw plan`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use super::environment::NodeEnvironment;
use super::planned_load::PlannedLoad;

/// A store gathers what waits in a queue when it is this much text or this old: the defaults of the store.
const GATHER_BYTES: f64 = (128_u32 << 20) as f64;
const GATHER_SECONDS: f64 = 10.0;

/// The program, and the costs from which all predictions are made.
#[derive(Debug)]
pub(super) struct Planner {
    bucksaw: PathBuf,
    calibration: toml::Table,
}

impl Planner {
    /// With the costs in a file of `bucksaw plan --save-calibration`.
    pub(super) fn new(bucksaw: &Path, calibration: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(calibration);
        let text = text.with_context(|| format!("cannot read {}", calibration.display()))?;
        let calibration = text.parse::<toml::Table>().map_err(|error| anyhow!("{}: {error}", calibration.display()))?;
        Ok(Self { bucksaw: bucksaw.to_owned(), calibration })
    }

    /// A cost of the calibration.
    pub(super) fn cost(&self, section: &str, name: &str) -> anyhow::Result<f64> {
        let cost = self.calibration.get(section).and_then(|section| section.get(name)?.as_float());
        cost.with_context(|| format!("the calibration has no {section}.{name}"))
    }

    /// The plan for one node at this load, without a peak.
    pub(super) fn plan(&self, load: PlannedLoad, environment: &NodeEnvironment) -> anyhow::Result<CapacityPlan> {
        self.plan_with(load, environment, &["--nodes", "1"])
    }

    /// The plan with more flags, among them the number of nodes.
    pub(super) fn plan_with(
        &self,
        load: PlannedLoad,
        environment: &NodeEnvironment,
        flags: &[&str],
    ) -> anyhow::Result<CapacityPlan> {
        let mut file = tempfile::NamedTempFile::new().context("no temporary file")?;
        file.write_all(toml::to_string(&environment.costs(&self.calibration)?)?.as_bytes())?;
        let mut command = Command::new(&self.bucksaw);
        command.arg("plan").arg("--calibration").arg(file.path()).args(["--peak", "1", "-o", "json"]);
        // All nodes are on this machine, and no record becomes old.
        command.args(["--network-rate", "10GB", "--retention-age", "1h"]);
        command.args(load.plan_flags()).args(environment.plan_flags()).args(flags);
        let output = command.output().with_context(|| format!("cannot run {}", self.bucksaw.display()))?;
        let plan = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("the program has no plan for {load:?}: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(CapacityPlan(plan))
    }
}

/// The JSON of a plan.
#[derive(Debug)]
pub(super) struct CapacityPlan(Value);

impl CapacityPlan {
    /// The value of a figure.
    pub(super) fn value(&self, name: &str) -> anyhow::Result<f64> {
        let figures = self.0["figures"].as_array().into_iter().flatten();
        let found = figures.filter(|figure| figure["name"] == name).find_map(|figure| figure["value"].as_f64());
        found.with_context(|| format!("the plan has no value for '{name}'"))
    }

    /// The value of a figure of the nodes of one tier.
    pub(super) fn tier_value(&self, tier: &str, name: &str) -> anyhow::Result<f64> {
        let mut figures = self.0["figures"].as_array().into_iter().flatten();
        let found = figures.find(|figure| figure["tier"] == tier && figure["name"] == name);
        let value = found.and_then(|figure| figure["value"].as_f64());
        value.with_context(|| format!("the plan has no value for '{name}' of each {tier}"))
    }

    /// A value of the first question.
    pub(super) fn question(&self, name: &str) -> anyhow::Result<f64> {
        self.0["questions"][0][name].as_f64().with_context(|| format!("the plan has no {name} of its question"))
    }

    /// The load at which the CPU or the disk is fully used, relative to the planned one.
    pub(super) fn capacity(&self) -> anyhow::Result<f64> {
        let limits = self.0["limits"].as_array().into_iter().flatten();
        let of = |limit: &Value| match limit["resource"].as_str() {
            Some("CPU" | "disk bandwidth") => limit["load_factor"].as_f64(),
            _ => None,
        };
        limits.filter_map(of).reduce(f64::min).context("the plan has no limit")
    }

    /// Seconds that a byte of text is in the queue on average: half of the time in which a batch for a gather collects, and its gather, for
    /// which it does not wait below overload. The plan itself has an upper bound of the 99th percentile only.
    pub(super) fn queue_seconds(&self, planner: &Planner, environment: &NodeEnvironment) -> anyhow::Result<f64> {
        let accepted = self.value("accepted at the peak")?;
        let cost = planner.cost("store", "seconds_per_byte")? + environment.gather_delay(1.0);
        Ok(queue_seconds(accepted, cost))
    }

    /// Cores of all work of a node.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        self.value("CPU of all work")
    }
}

fn queue_seconds(bytes_per_second: f64, store_seconds_per_byte: f64) -> f64 {
    let collecting = (GATHER_BYTES / bytes_per_second).min(GATHER_SECONDS);
    collecting / 2.0 + bytes_per_second * collecting * store_seconds_per_byte
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_capacity_is_that_of_cpu_or_disk_bandwidth() {
        let limits = json!([
            {"resource": "disk space", "load_factor": 1.0}, {"resource": "CPU", "load_factor": 4.0},
            {"resource": "disk bandwidth", "load_factor": 3.0}, {"resource": "network", "load_factor": null},
        ]);
        assert_eq!(CapacityPlan(json!({ "limits": limits })).capacity().unwrap(), 3.0);
        assert!(CapacityPlan(json!({})).capacity().is_err());
    }

    #[test]
    fn text_is_in_the_queue_until_it_is_old_or_much() {
        assert_eq!(queue_seconds(1e6, 1e-8), 5.1);
        assert!((queue_seconds(GATHER_BYTES, 1e-8) - 0.5 - GATHER_BYTES * 1e-8).abs() < 1e-9);
    }

    #[test]
    fn values_are_found_by_name() {
        let figures = json!([
            {"name": "a", "value": 1.5, "tier": "ingest node"}, {"name": "b", "value": null, "tier": "ingest node"},
            {"name": "a", "value": 2.5, "tier": "store node"},
        ]);
        let plan = CapacityPlan(json!({"figures": figures, "questions": [{"mean_seconds": 0.5}]}));
        assert_eq!((plan.value("a").unwrap(), plan.question("mean_seconds").unwrap()), (1.5, 0.5));
        assert_eq!(plan.tier_value("store node", "a").unwrap(), 2.5);
        assert!(plan.tier_value("store node", "b").is_err());
        assert!(plan.value("b").is_err() && plan.value("c").is_err() && plan.cpu().is_err());
    }
}
