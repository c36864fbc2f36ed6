//! The file that keeps predictions until they are measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::results::Figure;

/// The columns of the file.
const HEAD: &str = "scenario;figure;unit;value\n";

/// Predictions by scenario and figure.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Predictions(BTreeMap<(String, String), f64>);

impl Predictions {
    /// Reads what [`save`] wrote.
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut found = BTreeMap::new();
        for line in text.lines().skip(1) {
            let [scenario, figure, _, value] = line.split(';').collect::<Vec<_>>()[..] else {
                anyhow::bail!("{} has a line without four columns: {line}", path.display());
            };
            found.insert((scenario.to_owned(), figure.to_owned()), value.parse().context("a value is no number")?);
        }
        Ok(Self(found))
    }

    /// The prediction of a figure of a scenario.
    pub(super) fn get(&self, scenario: &str, figure: &str) -> Option<f64> {
        self.0.get(&(scenario.to_owned(), figure.to_owned())).copied()
    }

    /// The same of a figure without which the scenario cannot be measured.
    pub(super) fn required(&self, scenario: &str, figure: &str) -> anyhow::Result<f64> {
        self.get(scenario, figure).with_context(|| format!("there is no prediction of '{figure}' for '{scenario}'"))
    }
}

/// Writes predictions as CSV: scenario, figure, unit, value. An existing file is not replaced: predictions stay as they
/// were made.
pub(super) fn save(predictions: &[(String, Vec<Figure>)], path: &Path) -> anyhow::Result<()> {
    ensure!(!path.exists(), "{} exists: predictions are made once", path.display());
    let mut text = HEAD.to_owned();
    for (scenario, figures) in predictions {
        for figure in figures {
            text.push_str(&format!("{scenario};{};{};{}\n", figure.name, figure.unit, figure.value));
        }
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::figure;

    #[test]
    fn predictions_come_back_and_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("predictions.csv");
        save(&[("a load, questions".to_owned(), vec![figure("cpu", "cores", 0.25)])], &path).unwrap();
        let predictions = Predictions::load(&path).unwrap();
        assert_eq!(predictions.get("a load, questions", "cpu"), Some(0.25));
        assert_eq!(predictions.get("a load", "cpu"), None);
        assert!(predictions.required("a load, questions", "ack_mean").is_err());
        assert!(save(&[], &path).is_err());
        fs::write(&path, format!("{HEAD}a;b\n")).unwrap();
        assert!(Predictions::load(&path).is_err());
    }
}
