//! Draws lines over a logarithmic scale, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

/// Width and height of a plot.
const SIZE: (u32, u32) = (760, 420);

/// The figures of one subject, by the value of a dimension.
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws lines with points; `titles` are those of the two axes.
pub(crate) fn draw(path: &Path, titles: (&str, &str), lines: &[PlotLine]) -> anyhow::Result<()> {
    draw_chart(path, titles, lines).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    println!("drawn to {}", path.display());
    Ok(())
}

fn draw_chart(
    path: &Path,
    (x_title, y_title): (&str, &str),
    lines: &[PlotLine],
) -> Result<(), Box<dyn std::error::Error>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        low / 1.3..high * 1.3
    };
    let (x, y) = (bounds(&mut all().map(|point| point.0)), bounds(&mut all().map(|point| point.1)));
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x_title)
        .y_desc(y_title)
        .x_label_formatter(&|value| if *value < 1.0 { format!("{value}") } else { format!("{value:.0}") })
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)).point_size(3))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    root.present()?;
    Ok(())
}
