//! The figures of accepting and acknowledging records.

use std::borrow::Cow;

use bucksaw_model::Distribution;

use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::input::AckPoint;
use crate::limits::least_factor;
use crate::planned_node::PlannedNode;
use crate::segment_rotation::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS};
use crate::write_path::CORE_WAIT_SECONDS;

/// All of them.
pub(crate) fn ingest_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Ingest;
    let (input, cost) = (node.input, &node.calibration.accept);
    let accepted = node.accepted();
    let nodes = node.ingest_nodes;
    let mut figures = vec![
        PlanFigure::new(
            Ingest,
            "accepted at the peak",
            accepted,
            FigureUnit::BytesPerSecond,
            "L·f / n",
            &[
                ("L", input.bytes_per_second * node.factor, FigureUnit::BytesPerSecond),
                ("f", input.peak_factor, FigureUnit::Number),
                ("n", nodes, FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Ingest,
            "CPU of accepting",
            node.accept_cores(),
            FigureUnit::Cores,
            "p·(a + b/l + (q + g·G)/m)·k; a request has g group commits",
            &[
                ("p", accepted, FigureUnit::BytesPerSecond),
                ("a", cost.seconds_per_byte, FigureUnit::SecondsPerByte),
                ("b", cost.seconds_per_record, FigureUnit::Seconds),
                ("l", input.line_bytes, FigureUnit::Bytes),
                ("q", cost.seconds_per_request, FigureUnit::Seconds),
                ("g", node.commits_per_request(), FigureUnit::Number),
                ("G", cost.seconds_per_commit, FigureUnit::Seconds),
                ("m", input.request_bytes, FigureUnit::Bytes),
                ("k", node.calibration.scaling.factor(nodes), FigureUnit::Number),
            ],
        ),
    ];
    figures.extend(ack_figures(node));
    figures.push(queue_segments_figure(node));
    figures
}

/// The time until an acknowledgement, and the load at which it is twice as long.
fn ack_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Ingest;
    let ack = node.ack();
    let of = |value: &dyn Fn(&Distribution) -> f64| ack.as_ref().map_or(f64::INFINITY, value);
    let idle_ack = node.at(0.0).ack_mean();
    let (formula, symbols) = ack_formula(node);
    vec![
        PlanFigure::new(
            Ingest,
            "acknowledgement, mean",
            of(&Distribution::mean),
            FigureUnit::Seconds,
            formula.clone(),
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "acknowledgement, p50",
            of(&|ack| ack.quantile(0.5)),
            FigureUnit::Seconds,
            formula.clone(),
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "acknowledgement, p99",
            of(&|ack| ack.quantile(0.99)),
            FigureUnit::Seconds,
            formula,
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "until a record is found, p99",
            of(&|ack| ack.quantile(0.99)),
            FigureUnit::Seconds,
            "acknowledgement: a search reads the queue",
            &[],
        ),
        PlanFigure::new(
            Ingest,
            "load at which an acknowledgement takes twice as long",
            least_factor(|factor| node.at(factor).ack_mean() >= 2.0 * idle_ack),
            FigureUnit::Number,
            "relative to the planned load; least x with ack(x) = 2·ack(0)",
            &[],
        ),
    ]
}

/// The formula of the time until an acknowledgement, and its symbols.
fn ack_formula(node: &PlannedNode<'_>) -> (Cow<'static, str>, Vec<(&'static str, f64, FigureUnit)>) {
    let input = node.input;
    let mean_of = |time: Option<Distribution>| time.map_or(f64::INFINITY, |time| time.mean());
    let data = input.request_bytes / input.node.disk_bytes_per_second;
    let write = ("w", mean_of(node.write_time()), FigureUnit::Seconds);
    let formula = match input.ack_point {
        AckPoint::Written => {
            "w, its latency at this load and CPU / (1 - CPU of accepting), + W with the probability u of a question"
        }
        AckPoint::Synced => {
            "w + W with the probability u of a question + rest of the running commit + own commit, each a sync, or two if its requests are in two queue segments, and the data of its requests"
        }
        AckPoint::Stored => {
            "w + W with the probability u of a question + rest of the running commit + own commit, each a sync, or two if its requests are in two queue segments, and the data of its requests, + m·S, the gather"
        }
    };
    let symbols = [
        write,
        ("W", CORE_WAIT_SECONDS, FigureUnit::Seconds),
        ("u", node.searching_share(), FigureUnit::Share),
        ("syncs", mean_of(node.group_commit().map(|commits| commits.sync)), FigureUnit::Seconds),
        ("data of a request", data, FigureUnit::Seconds),
        ("requests", node.requests(), FigureUnit::PerSecond),
        ("m", input.request_bytes, FigureUnit::Bytes),
        ("S", node.gather_cost(), FigureUnit::SecondsPerByte),
    ];
    let used = match input.ack_point {
        AckPoint::Written => 3,
        AckPoint::Synced => 6,
        AckPoint::Stored => 8,
    };
    let mut symbols: Vec<_> = symbols.into_iter().take(used).collect();
    let mut formula = Cow::Borrowed(formula);
    if input.node.disk_write_limit.is_some() && input.ack_point != AckPoint::Written {
        let delays = if input.ack_point == AckPoint::Stored { "2·D" } else { "D" };
        let text = format!(" + {delays}, for which the limit of writes stops it after other writes in the same 0.1 s");
        formula.to_mut().push_str(&text);
        symbols.push(("D", mean_of(node.write_delay()), FigureUnit::Seconds));
    }
    if let Some(limit) = input.node.effective_limit() {
        formula.to_mut().push_str(
            "; with the probability B of a gather or merge, which uses up the CPU limit, sooner while a question runs too, or of a question \
             that does, all of it only in the first part of each period T",
        );
        symbols.push(("B", node.limited_background_share(), FigureUnit::Share));
        symbols.push(("T", limit.period_seconds, FigureUnit::Seconds));
    }
    (formula, symbols)
}

fn queue_segments_figure(node: &PlannedNode<'_>) -> PlanFigure {
    let accepted = node.accepted();
    let is_by_size = accepted * QUEUE_SEGMENT_SECONDS >= QUEUE_SEGMENT_BYTES;
    let (segments, _) = node.queue_segments();
    PlanFigure::new(
        Section::Ingest,
        "queue segments closed",
        segments,
        FigureUnit::PerSecond,
        if is_by_size { "p / s, by size" } else { "1 / t, by age" },
        &[
            ("p", accepted, FigureUnit::BytesPerSecond),
            ("s", QUEUE_SEGMENT_BYTES, FigureUnit::Bytes),
            ("t", QUEUE_SEGMENT_SECONDS, FigureUnit::Seconds),
        ],
    )
}
