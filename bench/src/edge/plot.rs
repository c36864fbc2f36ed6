//! Draws the CPU per line over each dimension of the load, as SVG.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::agents::EdgeAgent;
use super::load::EdgeLoad;
use crate::line_plot::{self, PlotLine};

/// A dimension of the load.
struct PlotAxis {
    file: &'static str,
    title: &'static str,
    value: fn(&EdgeLoad) -> u64,
}

const AXES: [PlotAxis; 3] = [
    PlotAxis { file: "lines-per-second", title: "lines per second", value: |load| load.rate },
    PlotAxis { file: "bytes-per-line", title: "bytes per line", value: |load| load.line_bytes },
    PlotAxis { file: "writers", title: "writers", value: |load| load.writers },
];

/// Draws a plot for each dimension with several values. The first load is the base.
pub(super) fn draw_all(
    dir: &Path,
    measured: &[(EdgeAgent, EdgeLoad)],
    figure: &dyn Fn(&str) -> Option<f64>,
) -> anyhow::Result<()> {
    let Some((_, base)) = measured.first() else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for axis in &AXES {
        let others_are_base = |load: &EdgeLoad| {
            AXES.iter().filter(|other| other.file != axis.file).all(|other| (other.value)(load) == (other.value)(base))
        };
        let mut lines: Vec<PlotLine> = Vec::new();
        for (agent, load) in measured.iter().filter(|(_, load)| others_are_base(load)) {
            let Some(value) = figure(&format!("{} {}", agent.name(), load.name())) else { continue };
            let name = format!("{}, {}", agent.name(), load.delivery.name());
            let point = ((axis.value)(load) as f64, value);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(PlotLine { name, points: vec![point] }),
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            // A load that was measured in several rounds.
            line.points.dedup();
        }
        if lines.iter().any(|line| line.points.len() > 1) {
            let path = dir.join(format!("{}.svg", axis.file));
            line_plot::draw(&path, (axis.title, "CPU of the agent, µs per line"), &lines)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::load::{LineDelivery, LoadAxes};
    use super::*;

    #[test]
    fn a_plot_is_drawn_for_each_dimension_that_varies() {
        let axes = LoadAxes {
            deliveries: &[LineDelivery::Tail, LineDelivery::Push],
            writers: &[2],
            rates: &[1_000, 500],
            line_bytes: &[100, 1_000],
        };
        let measured: Vec<_> = axes.loads(false).into_iter().map(|load| (EdgeAgent::Bucksaw, load)).collect();
        let dir = tempfile::tempdir().unwrap();
        draw_all(dir.path(), &measured, &|name| Some(name.len() as f64)).unwrap();
        let mut drawn: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        drawn.sort();
        assert_eq!(drawn, ["bytes-per-line.svg", "lines-per-second.svg"]);
        let text = fs::read_to_string(dir.path().join("lines-per-second.svg")).unwrap();
        assert!(text.contains("bucksaw, tail") && text.contains("bucksaw, push"), "{text}");
    }
}
