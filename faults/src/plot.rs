//! Draws a run as SVG: three strips above one time axis.

use std::fmt::Write as _;
use std::time::Duration;

use crate::monitor::{ClusterSample, LatencyProbe};
use crate::report::FaultResult;
use crate::timeline::ratio;

const WIDTH: f64 = 1_400.0;
const LEFT: f64 = 70.0;
const STRIP: f64 = 190.0;
const GAP: f64 = 34.0;
const TOP: f64 = 130.0;

/// Samples over which rates are averaged: one second.
const OVER: usize = 4;

/// A strip: its vertical position, and its minimum and maximum values.
struct Strip {
    place: usize,
    low: f64,
    high: f64,
    log: bool,
}

impl Strip {
    fn foot(&self) -> f64 {
        TOP + (self.place as f64 + 1.0) * STRIP + self.place as f64 * GAP
    }

    fn y(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.max(self.low).log10() } else { value };
        let share = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low)).max(f64::EPSILON);
        self.foot() - share.clamp(0.0, 1.0) * STRIP
    }
}

/// Draws the picture.
pub(crate) fn draw(rows: &[FaultResult], samples: &[ClusterSample], probes: &[LatencyProbe]) -> String {
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1.0);
    let x = |at: Duration| LEFT + at.as_secs_f64() / end * (WIDTH - LEFT - 20.0);
    let height = TOP + 3.0 * STRIP + 2.0 * GAP + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for row in rows {
        let (from, to, healed) =
            (x(row.started_at), x(row.ended_at), x(row.ended_at + row.healed_after.unwrap_or_default()));
        let foot = height - 40.0;
        let mut band = |from: f64, to: f64, fill: &str| {
            let width = (to - from).max(0.5);
            let _ = writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>",
                foot - TOP
            );
        };
        band(from, to, "#f6c9c4");
        band(to, healed, "#fbeccb");
        let (at, name) = ((from + to) / 2.0, escape(&row.name));
        let _ = writeln!(
            svg,
            "<text transform=\"translate({at:.1} {}) rotate(-45)\" font-size=\"9\">{name}</text>",
            TOP - 4.0
        );
    }
    let rates = |of: &dyn Fn(&ClusterSample) -> f64| -> Vec<(f64, f64)> {
        let pairs = samples.iter().zip(samples.iter().skip(OVER));
        pairs
            .map(|(before, now)| {
                let time = (now.at - before.at).as_secs_f64().max(1e-3);
                (x(now.at), (of(now) - of(before)).max(0.0) / time)
            })
            .collect()
    };
    let sent = rates(&|sample| sample.sent.iter().sum::<u64>() as f64);
    let found = rates(&|sample| sample.found as f64);
    let high = sent.iter().map(|(_, rate)| *rate).fold(1.0, f64::max) * 2.5;
    let strip = Strip { place: 0, low: 0.0, high, log: false };
    axis(&mut svg, &strip, "lines a second: sent (blue), found (green)", &[0.0, high / 2.0, high]);
    line(&mut svg, &strip, &sent, "#2b6cb0");
    line(&mut svg, &strip, &found, "#2f855a");

    let strip = Strip { place: 1, low: 0.0, high: 1.0, log: false };
    axis(&mut svg, &strip, "bytes consumed over bytes accepted, last 10 s", &[0.0, 0.5, 1.0]);
    line(&mut svg, &strip, &recent_ratio(samples, &x), "#805ad5");

    let strip = Strip { place: 2, low: 0.01, high: 100.0, log: true };
    axis(&mut svg, &strip, "seconds from sent to found, a probe line each second", &[0.01, 0.1, 1.0, 10.0, 100.0]);
    for probe in probes {
        let (took, fill) = probe.took.map_or((100.0, "#c53030"), |took| (took.as_secs_f64(), "#2c5282"));
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\" fill=\"{fill}\"/>",
            x(probe.sent),
            strip.y(took)
        );
    }
    let step = [5.0, 10.0, 30.0, 60.0, 120.0].into_iter().find(|step| end / step <= 16.0).unwrap_or(300.0);
    for tick in (0..).map(|tick| f64::from(tick) * step).take_while(|at| *at <= end) {
        let at = x(Duration::from_secs_f64(tick));
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick:.0} s</text>", height - 22.0);
    }
    svg + "</svg>\n"
}

/// The consumed ratio over the last ten seconds. Over a long run, the total ratio would hide a stall.
fn recent_ratio(samples: &[ClusterSample], x: &dyn Fn(Duration) -> f64) -> Vec<(f64, f64)> {
    let consumed = |sample: &ClusterSample| sample.nodes.iter().map(|node| node.consumed).sum::<f64>();
    let pending = |sample: &ClusterSample| sample.nodes.iter().map(|node| node.pending).sum::<f64>();
    let over = 10 * OVER;
    let mut points = Vec::new();
    for (place, sample) in samples.iter().enumerate() {
        let Some(before) = place.checked_sub(over).map(|place| &samples[place]) else {
            points.push((x(sample.at), ratio(sample)));
            continue;
        };
        let (took, waits) = (consumed(sample) - consumed(before), pending(sample));
        points.push((x(sample.at), if took + waits > 0.0 { took / (took + waits) } else { 1.0 }));
    }
    points
}

fn axis(svg: &mut String, strip: &Strip, title: &str, ticks: &[f64]) {
    let _ =
        writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", strip.foot() - STRIP - 6.0);
    for tick in ticks {
        let y = strip.y(*tick);
        let text = if *tick >= 10.0 || *tick == 0.0 { format!("{tick:.0}") } else { format!("{tick}") };
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\" stroke-width=\"0.6\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - 20.0,
            LEFT - 6.0,
            y + 4.0
        );
    }
}

fn line(svg: &mut String, strip: &Strip, points: &[(f64, f64)], colour: &str) {
    let points: Vec<String> = points.iter().map(|(x, value)| format!("{x:.1},{:.1}", strip.y(*value))).collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.1\" points=\"{}\"/>",
        points.join(" ")
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
