//! Predictions of `bucksaw plan`, and the file that keeps them until they are measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::planned_load::{PlannedLoad, QUESTIONS_PER_HOUR, RANGE, REQUEST_BYTES};
use crate::results::{Figure, figure};

/// The figures that are compared: name, unit.
pub(super) const COMPARED: [(&str, &str); 5] =
    [("cpu", "cores"), ("ack_mean", "ms"), ("ack_p99", "ms"), ("question_mean", "ms"), ("question_p99", "ms")];

/// What the program predicts for a node under this load.
pub(super) fn predict(bucksaw: &Path, calibration: &Path, scenario: PlannedLoad) -> anyhow::Result<Vec<Figure>> {
    let mut command = Command::new(bucksaw);
    command.arg("plan").arg("--calibration").arg(calibration).args(["--peak", "1", "--nodes", "1", "-o", "json"]);
    command.arg("--rate").arg(scenario.bytes_per_second.to_string());
    command.arg("--line-bytes").arg(scenario.line_bytes.to_string());
    command.arg("--request-bytes").arg(REQUEST_BYTES.to_string());
    // Without questions one is planned that costs next to nothing.
    let per_hour = if scenario.has_questions { QUESTIONS_PER_HOUR.to_string() } else { "0.001".to_owned() };
    command.arg("--question").arg(format!("word:{per_hour}:{}s", RANGE.as_secs()));
    let output = command.output().with_context(|| format!("cannot run {}", bucksaw.display()))?;
    let plan: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("the program has no plan for {}: {}", scenario.name(), String::from_utf8_lossy(&output.stderr))
    })?;
    let value = |name: &str| {
        let figures = plan["figures"].as_array().into_iter().flatten();
        let found = figures.filter(|figure| figure["name"] == name).find_map(|figure| figure["value"].as_f64());
        found.with_context(|| format!("the plan has no value for '{name}'"))
    };
    let mut figures = vec![
        figure("cpu", "cores", value("CPU of all work")?),
        figure("ack_mean", "ms", value("acknowledgement, mean")? * 1e3),
        figure("ack_p99", "ms", value("acknowledgement, p99")? * 1e3),
    ];
    if scenario.has_questions {
        let of = |name: &str| plan["questions"][0][name].as_f64().context("the plan has no response time");
        figures.push(figure("question_mean", "ms", of("mean_seconds")? * 1e3));
        figures.push(figure("question_p99", "ms", of("p99_seconds")? * 1e3));
    }
    Ok(figures)
}

/// Writes predictions as CSV: scenario, figure, unit, value. An existing file is not replaced: predictions stay as they were
/// made.
pub(super) fn save(predictions: &[(PlannedLoad, Vec<Figure>)], path: &Path) -> anyhow::Result<()> {
    ensure!(!path.exists(), "{} exists: predictions are made once", path.display());
    let mut text = "scenario;figure;unit;value\n".to_owned();
    for (scenario, figures) in predictions {
        for figure in figures {
            text.push_str(&format!("{};{};{};{}\n", scenario.name(), figure.name, figure.unit, figure.value));
        }
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads what [`save`] wrote: values by scenario and figure.
pub(super) fn load(path: &Path) -> anyhow::Result<BTreeMap<(String, String), f64>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut found = BTreeMap::new();
    for line in text.lines().skip(1) {
        let [scenario, figure, _, value] = line.split(';').collect::<Vec<_>>()[..] else {
            anyhow::bail!("{} has a line without four columns: {line}", path.display());
        };
        found.insert((scenario.to_owned(), figure.to_owned()), value.parse().context("a value is no number")?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_come_back_and_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("predictions.csv");
        let scenario = PlannedLoad::all()[1];
        save(&[(scenario, vec![figure("cpu", "cores", 0.25)])], &path).unwrap();
        assert_eq!(load(&path).unwrap(), BTreeMap::from([((scenario.name(), "cpu".to_owned()), 0.25)]));
        assert!(save(&[], &path).is_err());
        fs::write(&path, "scenario;figure;unit;value\na;b\n").unwrap();
        assert!(load(&path).is_err());
    }
}
