//! Writes a run as CSV tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::monitor::{ClusterSample, LatencyProbe, NodeCounters};
use crate::report::{FaultResult, Report};

/// Writes `faults.csv`, `timeline.csv` and `probes.csv`.
pub(crate) fn write(
    out: &Path,
    report: &Report,
    samples: &[ClusterSample],
    probes: &[LatencyProbe],
    writers: &[String],
) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("faults.csv", faults(&report.rows))?;
    write("timeline.csv", timeline(samples, &report.rows, writers))?;
    write("probes.csv", probe_rows(probes, &report.rows))
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// The fault at a time, followed by `recovery` after its end.
fn fault_at(at: Duration, rows: &[FaultResult]) -> String {
    let row =
        rows.iter().rev().find(|row| row.started_at <= at && at < row.ended_at + row.healed_after.unwrap_or_default());
    row.map_or_else(
        String::new,
        |row| if at < row.ended_at { row.name.clone() } else { format!("{} recovery", row.name) },
    )
}

fn faults(rows: &[FaultResult]) -> String {
    let mut text =
        "fault,began_s,ended_s,recovery_s,consumed,caught_up_s,restored_s,visibility_max_s,lost,duplicated,unexpected,complete_answers,partial_answers,no_answers\n"
            .to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            row.name,
            seconds(row.started_at),
            seconds(row.ended_at),
            row.healed_after.map_or_else(String::new, seconds),
            row.consumed.map_or_else(String::new, |share| format!("{share:.3}")),
            row.caught_up_after.map_or_else(String::new, seconds),
            row.restored_after.map_or_else(String::new, seconds),
            seconds(row.visibility_max),
            row.lost.len(),
            row.duplicated.len(),
            row.unexpected,
            row.answers[0],
            row.answers[1],
            row.answers[2]
        );
    }
    text
}

fn timeline(samples: &[ClusterSample], rows: &[FaultResult], writers: &[String]) -> String {
    let mut text =
        "at_s,accepted_bytes,consumed_bytes,pending_bytes,consumed_ratio,found_lines,sent_lines,nodes_answering,fault"
            .to_owned();
    writers.iter().for_each(|writer| text += &format!(",{writer}_sent,{writer}_found"));
    text.push('\n');
    for sample in samples {
        let sum = |of: fn(&NodeCounters) -> f64| sample.nodes.iter().map(of).sum::<f64>();
        let (consumed, pending) = (sum(|node| node.consumed), sum(|node| node.pending));
        let _ = write!(
            text,
            "{},{:.0},{consumed:.0},{pending:.0},{:.4},{},{},{},{}",
            seconds(sample.at),
            sum(|node| node.accepted),
            ratio(sample),
            sample.found,
            sample.sent.iter().sum::<u64>(),
            sample.nodes.iter().filter(|node| node.is_responding).count(),
            fault_at(sample.at, rows)
        );
        for (sent, seen) in sample.sent.iter().zip(&sample.seen) {
            let _ = write!(text, ",{sent},{seen}");
        }
        text.push('\n');
    }
    text
}

/// Bytes consumed over bytes accepted. Accepted bytes are computed as consumed plus pending bytes, so that a node
/// killed between two samples causes no error.
pub(crate) fn ratio(sample: &ClusterSample) -> f64 {
    let consumed: f64 = sample.nodes.iter().map(|node| node.consumed).sum();
    let pending: f64 = sample.nodes.iter().map(|node| node.pending).sum();
    if consumed + pending > 0.0 { consumed / (consumed + pending) } else { 1.0 }
}

/// The ratio between two times.
pub(crate) fn consumed_since(before: &[NodeCounters], now: &[NodeCounters]) -> f64 {
    let grown =
        |of: fn(&NodeCounters) -> f64| now.iter().zip(before).map(|(now, before)| of(now) - of(before)).sum::<f64>();
    let (consumed, pending) = (grown(|node| node.consumed), grown(|node| node.pending).max(0.0));
    if consumed + pending > 0.0 { consumed / (consumed + pending) } else { 1.0 }
}

fn probe_rows(probes: &[LatencyProbe], rows: &[FaultResult]) -> String {
    let mut text = "sent_s,found_after_s,fault\n".to_owned();
    for probe in probes {
        let took = probe.took.map_or_else(String::new, seconds);
        let _ = writeln!(text, "{},{took},{}", seconds(probe.sent), fault_at(probe.sent, rows));
    }
    text
}
