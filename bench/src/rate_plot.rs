//! Draws the rate log of `bucksaw generate` as SVG: records per second over time, written and acknowledged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use plotters::prelude::*;

/// Width and height of the plot.
const SIZE: (u32, u32) = (760, 420);

/// A figure of a sample.
type SampleFigure = fn(&IntervalRate) -> f64;

/// Draw a rate log
#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// CSV of `bucksaw generate --rate-log FILE`
    #[arg(value_name = "FILE")]
    log: PathBuf,

    /// The drawing; by default beside the log with the ending .svg
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The rates in one interval of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
struct IntervalRate {
    /// Seconds from the start to its end.
    at: f64,
    /// Records per second.
    written: f64,
    acked: f64,
}

pub(crate) fn run(args: &PlotArgs) -> anyhow::Result<()> {
    let log = fs::read_to_string(&args.log).with_context(|| format!("cannot read {}", args.log.display()))?;
    let samples = samples(&log).with_context(|| format!("{} is no rate log", args.log.display()))?;
    let path = args.output.clone().unwrap_or_else(|| args.log.with_extension("svg"));
    draw(&path, &samples).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    println!("drawn to {}", path.display());
    Ok(())
}

/// The samples of a log. A last line that was cut short by a power cut is left out.
fn samples(log: &str) -> anyhow::Result<Vec<IntervalRate>> {
    let (header, rows) = log.split_once('\n').context("it is empty")?;
    let column = |name: &str| {
        header.split(',').position(|other| other == name).with_context(|| format!("it has no column {name}"))
    };
    let (seconds, written, acked) = (column("seconds")?, column("written_records")?, column("acked_records")?);
    let (mut samples, mut at) = (Vec::new(), 0.0);
    for row in rows.split_inclusive('\n').filter_map(|row| row.strip_suffix('\n')) {
        let cells: Vec<f64> = row.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        let cell = |at: usize| cells.get(at).copied().filter(|cell| cell.is_finite());
        let (Some(interval), Some(written), Some(acked)) = (cell(seconds), cell(written), cell(acked)) else {
            bail!("`{row}` is no line of figures");
        };
        at += interval;
        // A rate over a few milliseconds would be a peak without a meaning.
        if interval >= 0.2 {
            samples.push(IntervalRate { at, written: written / interval, acked: acked / interval });
        }
    }
    if samples.is_empty() { bail!("it has no interval of 0.2 s or more") } else { Ok(samples) }
}

fn draw(path: &Path, samples: &[IntervalRate]) -> Result<(), Box<dyn std::error::Error>> {
    let end = samples.last().map_or(1.0, |sample| sample.at);
    let most = samples.iter().map(|sample| sample.written.max(sample.acked)).fold(1.0, f64::max);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(78)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("records per second")
        .y_label_formatter(&|value| format!("{value:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    let lines: [(&str, RGBColor, SampleFigure); 2] =
        [("written", BLUE, |sample| sample.written), ("acknowledged", RED, |sample| sample.acked)];
    for (name, color, figure) in lines {
        // Standard output acknowledges nothing.
        if samples.iter().all(|sample| figure(sample) == 0.0) {
            continue;
        }
        let points = samples.iter().map(|sample| (sample.at, figure(sample)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "time,seconds,written_records,written_bytes,acked_records\n\
                       t,1.000,100,9,80\nt,2.000,100,9,110\nt,0.001,5,9,5\nt,1.0";

    #[test]
    fn rates_are_those_of_their_interval() {
        let sample = |at, written, acked| IntervalRate { at, written, acked };
        assert_eq!(samples(LOG).unwrap(), [sample(1.0, 100.0, 80.0), sample(3.0, 50.0, 55.0)]);
        for wrong in ["", "a,b\n", "seconds,written_records\n1,2\n", "seconds,written_records,acked_records\n1,x,2\n"] {
            assert!(samples(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_log_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("rate.csv");
        fs::write(&log, LOG).unwrap();
        run(&PlotArgs { log, output: None }).unwrap();
        let drawn = fs::read_to_string(dir.path().join("rate.svg")).unwrap();
        assert!(drawn.contains("acknowledged") && drawn.contains("records per second"), "{drawn}");
    }
}
