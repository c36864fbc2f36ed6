//! A plan as text for people, and as JSON.

use bucksaw_capacity::{Calibration, Capacity, CapacityInput, FigureUnit, PlanFigure, Section, Tier, TierSize};
use serde_json::{Value, json};

use crate::print::{human_bytes, human_seconds, plural};
use crate::text_table::TextTable;

/// Longest bar of the plot, in columns.
const BAR_COLUMNS: f64 = 50.0;

/// The sections in the order of the output.
const SECTIONS: [Section; 5] = [Section::Ingest, Section::Store, Section::Search, Section::Network, Section::Failure];

/// Tables and a plot.
pub(super) fn text(input: &CapacityInput, calibration: &Calibration, capacity: &Capacity, explain: bool) -> String {
    let mut text = summary(input, calibration, capacity);
    for (TierSize { tier, .. }, section) in capacity.tiers.iter().flat_map(|tier| SECTIONS.map(|part| (tier, part))) {
        let of = |figure: &&PlanFigure| figure.tier == *tier && figure.section == section;
        let figures: Vec<&PlanFigure> = capacity.figures.iter().filter(of).collect();
        if figures.is_empty() {
            continue;
        }
        match tier {
            Tier::Both => text.push_str(&format!("\n{}\n", section.name())),
            _ => text.push_str(&format!("\n{}: {}\n", tier.name(), section.name())),
        }
        let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or_default();
        for figure in figures {
            let (name, shown) = (&figure.name, amount(figure.value, figure.unit));
            text.push_str(&format!("  {name:width$}  {shown}\n"));
            if explain {
                text.push_str(&format!("    = {}\n", explanation(figure)));
            }
        }
    }
    if !capacity.questions.is_empty() {
        text.push('\n');
        text.push_str(&questions(capacity).to_string());
    }
    text.push('\n');
    text.push_str(&limits(capacity).to_string());
    text.push_str(&plot(capacity));
    text
}

fn summary(input: &CapacityInput, calibration: &Calibration, capacity: &Capacity) -> String {
    let each = if capacity.tiers.len() > 1 { " of each" } else { "" };
    let down = match input.failed_nodes {
        0 => String::new(),
        failed => format!(", of which {failed}{each} may be down"),
    };
    let verdict = if capacity.is_enough { "enough" } else { "not enough" };
    let tiers: Vec<String> = capacity.tiers.iter().map(|size| plural(size.nodes, size.tier.name())).collect();
    let mut text = format!("{}{down}: {verdict}\n", tiers.join(" and "));
    text.extend(capacity.shortfalls.iter().map(|shortfall| format!("- {shortfall}\n")));
    match capacity.separate_nodes {
        _ if tiers.len() > 1 => {}
        Some((ingest, store)) => text.push_str(&format!(
            "with roles on nodes of their own: {} and {}, for CPU, disk, memory and network alone\n",
            plural(ingest, "ingest node"),
            plural(store, "store node")
        )),
        None => text.push_str("with roles on nodes of their own: no number of nodes up to 1,000 is enough\n"),
    }
    let machine = &calibration.machine;
    text.push_str(&format!(
        "costs: measured on {} with {} of {}, bucksaw {}, with the log {}\n",
        machine.measured,
        plural(machine.cores, "core"),
        machine.processor,
        machine.program,
        machine.sample
    ));
    text.push_str("figures are per node at the peak, unless they say otherwise");
    text.push_str(if input.failed_nodes > 0 { ", while these nodes are down\n" } else { "\n" });
    text
}

fn questions(capacity: &Capacity) -> TextTable {
    let mut table =
        TextTable::new(vec!["question", "per hour", "range", "text per node", "cached", "cpu", "mean", "p50", "p99"]);
    for figures in &capacity.questions {
        let question = &figures.question;
        let seconds = |seconds| Some(amount(seconds, FigureUnit::Seconds));
        table.push(vec![
            Some(question.kind.to_string()),
            Some(amount(question.per_second * 3_600.0, FigureUnit::Number)),
            seconds(question.range_seconds),
            Some(amount(figures.node_bytes, FigureUnit::Bytes)),
            Some(amount(figures.cached_share, FigureUnit::Share)),
            seconds(figures.cpu_seconds),
            seconds(figures.mean_seconds),
            seconds(figures.p50_seconds),
            seconds(figures.p99_seconds),
        ]);
    }
    table
}

fn limits(capacity: &Capacity) -> TextTable {
    let mut table = TextTable::new(vec!["resource", "in use", "full at a rate of"]);
    let has_tiers = capacity.tiers.len() > 1;
    for limit in &capacity.limits {
        let (resource, tier) = (limit.resource.name(), limit.tier.name());
        let factor = match limit.load_factor {
            factor if factor.is_finite() => format!("{} times this", amount(factor, FigureUnit::Number)),
            _ => "no rate".to_owned(),
        };
        table.push(vec![
            Some(if has_tiers { format!("{tier}: {resource}") } else { resource.to_owned() }),
            Some(amount(limit.utilisation, FigureUnit::Share)),
            Some(factor),
        ]);
    }
    table
}

/// The mean response time of the dearest question, by the rate of questions.
fn plot(capacity: &Capacity) -> String {
    let most = capacity.load_curve.iter().map(|(_, seconds)| *seconds).filter(|seconds| seconds.is_finite());
    let most = most.fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let mut text =
        "\nmean time of the dearest question, by the rate of questions relative to that planned\n".to_owned();
    for (factor, seconds) in &capacity.load_curve {
        let columns = (seconds / most * BAR_COLUMNS).round().clamp(1.0, BAR_COLUMNS) as usize;
        let (factor, time) = (amount(*factor, FigureUnit::Number), amount(*seconds, FigureUnit::Seconds));
        text.push_str(&format!("  {factor:>8}  {time:>8}  {}\n", "█".repeat(columns)));
    }
    text
}

/// The formula and the values of its symbols.
fn explanation(figure: &PlanFigure) -> String {
    let symbols: Vec<String> = figure
        .symbols
        .iter()
        .map(|symbol| format!("{} = {}", symbol.name, amount(symbol.value, symbol.unit)))
        .collect();
    if symbols.is_empty() {
        figure.formula.clone().into_owned()
    } else {
        format!("{} with {}", figure.formula, symbols.join(", "))
    }
}

/// A value with its unit, in three digits.
pub(super) fn amount(value: f64, unit: FigureUnit) -> String {
    if !value.is_finite() {
        return "unbounded".to_owned();
    }
    match unit {
        FigureUnit::Seconds if value > 0.0 && value < 1e-6 => format!("{} ns", digits(value * 1e9)),
        FigureUnit::Seconds => human_seconds(value),
        FigureUnit::Bytes => human_bytes(value as u64),
        FigureUnit::BytesPerSecond => format!("{}/s", human_bytes(value as u64)),
        FigureUnit::Cores => format!("{} cores", digits(value)),
        FigureUnit::SecondsPerByte => format!("{} ns/B", digits(value * 1e9)),
        FigureUnit::PerSecond => format!("{}/s", digits(value)),
        FigureUnit::Number => digits(value),
        FigureUnit::Share => format!("{} %", digits(value * 100.0)),
    }
}

/// A number in three significant digits, without an exponent.
pub(super) fn digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || magnitude == 0.0 {
        return format!("{value:.0}");
    }
    let decimals = (2.0 - magnitude.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All of it, in SI units; infinite values are null.
pub(super) fn json(input: &CapacityInput, calibration: &Calibration, capacity: &Capacity) -> String {
    let figures: Vec<Value> = capacity
        .figures
        .iter()
        .map(|figure| {
            let symbols: serde_json::Map<String, Value> =
                figure.symbols.iter().map(|symbol| (symbol.name.to_owned(), json!(symbol.value))).collect();
            json!({
                "tier": figure.tier.name(), "section": figure.section.name(), "name": figure.name, "value": figure.value, "unit": unit(figure.unit),
                "formula": figure.formula, "symbols": symbols,
            })
        })
        .collect();
    let questions: Vec<Value> = capacity
        .questions
        .iter()
        .map(|figures| {
            json!({
                "kind": figures.question.kind.name(), "per_second": figures.question.per_second,
                "range_seconds": figures.question.range_seconds, "node_bytes": figures.node_bytes,
                "cached_share": figures.cached_share, "cpu_seconds": figures.cpu_seconds,
                "mean_seconds": figures.mean_seconds, "p50_seconds": figures.p50_seconds,
                "p99_seconds": figures.p99_seconds,
            })
        })
        .collect();
    let limits: Vec<Value> = capacity
        .limits
        .iter()
        .map(|limit| {
            json!({
                "tier": limit.tier.name(), "resource": limit.resource.name(), "utilisation": limit.utilisation, "load_factor": limit.load_factor,
            })
        })
        .collect();
    let tiers: Vec<Value> =
        capacity.tiers.iter().map(|size| json!({"tier": size.tier.name(), "nodes": size.nodes})).collect();
    let separate = capacity.separate_nodes.map(|(ingest, store)| json!({"ingest": ingest, "store": store}));
    let document = json!({
        "tiers": tiers, "failed_nodes": input.failed_nodes, "is_enough": capacity.is_enough,
        "shortfalls": capacity.shortfalls, "separate_nodes": separate, "figures": figures, "questions": questions,
        "limits": limits, "load_curve": capacity.load_curve, "calibration": calibration,
    });
    format!("{document}\n")
}

const fn unit(unit: FigureUnit) -> &'static str {
    match unit {
        FigureUnit::Seconds => "seconds",
        FigureUnit::Bytes => "bytes",
        FigureUnit::BytesPerSecond => "bytes/s",
        FigureUnit::Cores => "cores",
        FigureUnit::SecondsPerByte => "seconds/byte",
        FigureUnit::PerSecond => "1/s",
        FigureUnit::Number | FigureUnit::Share => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits() {
        let check = |number: f64, unit: FigureUnit, want: &str| assert_eq!(amount(number, unit), want);
        check(0.0, FigureUnit::Number, "0");
        check(1.0, FigureUnit::Number, "1");
        check(12.345, FigureUnit::Number, "12.3");
        check(12_345.0, FigureUnit::Number, "12345");
        check(0.001_234_5, FigureUnit::Cores, "0.00123 cores");
        check(0.256, FigureUnit::Share, "25.6 %");
        check(f64::INFINITY, FigureUnit::Seconds, "unbounded");
        check(1.5e-8, FigureUnit::Seconds, "15 ns");
        check(3e-9, FigureUnit::SecondsPerByte, "3 ns/B");
        check(2_048.0, FigureUnit::BytesPerSecond, "2.0 KB/s");
    }
}
