//! Draws the records per CPU second over each setting, as SVG.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::load::{PipelineLoad, PipelineSource, PipelineStore};
use crate::line_plot::{self, PlotLine};

/// A setting that varies.
struct SettingAxis {
    file: &'static str,
    title: &'static str,
    value: fn(&PipelineLoad) -> Option<f64>,
}

const AXES: [SettingAxis; 3] = [
    SettingAxis {
        file: "pipeline-commit-interval",
        title: "seconds between two commits",
        value: |load| bucksaw_record::time::parse_duration(&load.commit_interval).ok().map(|time| time.as_secs_f64()),
    },
    SettingAxis {
        file: "pipeline-fetch-bytes",
        title: "bytes of a fetch from a partition",
        value: |load| Some(load.fetch_bytes as f64),
    },
    SettingAxis {
        file: "pipeline-batch-records",
        title: "records of a batch",
        value: |load| Some(load.batch_records as f64),
    },
];

/// Draws a plot for each setting with several values. The first load from Kafka is the base.
pub(super) fn draw_all(dir: &Path, loads: &[PipelineLoad], figure: &dyn Fn(&str) -> Option<f64>) -> anyhow::Result<()> {
    let Some(base) = loads.iter().find(|load| load.source == PipelineSource::Kafka) else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for axis in &AXES {
        let is_base = |other: &SettingAxis, load: &PipelineLoad| (other.value)(load) == (other.value)(base);
        let varies = |load: &&PipelineLoad| {
            load.source == PipelineSource::Kafka
                && AXES.iter().filter(|other| other.file != axis.file).all(|other| is_base(other, load))
        };
        let stores = [(PipelineStore::Segments, "to segments"), (PipelineStore::ClickHouse, "to ClickHouse")];
        let lines = stores.into_iter().map(|(store, name)| {
            let of_store = loads.iter().filter(varies).filter(|load| load.store == store);
            let mut points: Vec<(f64, f64)> =
                of_store.filter_map(|load| Some(((axis.value)(load)?, figure(&load.name())? / 1e3))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            PlotLine { name: name.to_owned(), points }
        });
        let lines: Vec<PlotLine> = lines.filter(|line| line.points.len() > 1).collect();
        if !lines.is_empty() {
            let path = dir.join(format!("{}.svg", axis.file));
            line_plot::draw(&path, (axis.title, "thousand records per CPU second"), &lines)?;
        }
    }
    Ok(())
}
