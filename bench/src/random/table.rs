//! The answers as a table: worst, tenth percentile and median by kind and log.

use super::draw::{DrawnQuestion, Kind};
use super::other_stores::OtherCosts;
use super::rg::RgAnswer;
use crate::machine;
use crate::results::{BenchRun, figure};

/// Questions that are listed with the worst ratio.
const WORST: usize = 20;

/// The least time that is distinguished, in CPU seconds.
const LEAST_SECONDS: f64 = 1e-4;

/// A question with its answers and their costs in seconds.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) question: DrawnQuestion,
    pub(super) log: String,
    pub(super) found: u64,
    pub(super) expected: u64,
    /// CPU with a filled cache, on one core.
    pub(super) cpu: f64,
    pub(super) rg: RgAnswer,
    /// CPU of a node that has just started, if it was asked.
    pub(super) cold: Option<f64>,
    /// The time with a filled cache, on all cores.
    pub(super) wall: f64,
    pub(super) others: OtherCosts,
}

impl Answered {
    pub(super) fn is_exact(&self) -> bool {
        self.found == self.expected
    }

    /// The CPU of rg relative to that of Bucksaw: above 1, Bucksaw is cheaper.
    fn ratio(&self) -> f64 {
        self.rg.cpu_seconds / self.cpu.max(LEAST_SECONDS)
    }

    fn cold_ratio(&self) -> Option<f64> {
        self.cold.map(|cold| self.rg.cpu_seconds / cold.max(LEAST_SECONDS))
    }

    fn wall_ratio(&self) -> f64 {
        self.rg.wall_seconds / self.wall.max(LEAST_SECONDS)
    }

    pub(super) fn as_run(&self) -> BenchRun {
        let figures = vec![
            figure("matches", "lines", self.found as f64),
            figure("cpu", "ms", self.cpu * 1e3),
            figure("rg_cpu", "ms", self.rg.cpu_seconds * 1e3),
            figure("rg_relative", "times", self.ratio()),
            figure("cold_cpu", "ms", self.cold.unwrap_or(f64::NAN) * 1e3),
            figure("cold_rg_relative", "times", self.cold_ratio().unwrap_or(f64::NAN)),
            figure("all_cores_rg_relative", "times", self.wall_ratio()),
            figure("victorialogs_cpu", "ms", self.others.victoria.unwrap_or(f64::NAN) * 1e3),
            figure("clickhouse_cpu", "ms", self.others.clickhouse.unwrap_or(f64::NAN) * 1e3),
        ];
        let subject = format!("{}: {}: {}", self.log, self.question.kind.name(), self.question.expr);
        BenchRun { subject, round: 1, load: machine::load(), figures }
    }
}

/// Prints the table, the worst questions, and the wrong answers.
pub(super) fn print(answered: &[Answered]) {
    println!(
        "CPU of rg relative to Bucksaw, cached: worst, 10 %, median | first question of a new node: worst, median | time on all cores: worst, median\n"
    );
    println!(
        "| log | kind | questions | worst | 10 % | median | cold worst | cold median | all cores worst | median |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut logs: Vec<&str> = Vec::new();
    for answer in answered {
        if !logs.contains(&answer.log.as_str()) {
            logs.push(&answer.log);
        }
    }
    for log in &logs {
        for kind in Kind::ALL {
            print_row(log, kind.name(), answered.iter().filter(|one| one.log == *log && one.question.kind == kind));
        }
    }
    for kind in Kind::ALL {
        print_row("all", kind.name(), answered.iter().filter(|one| one.question.kind == kind));
    }
    for log in &logs {
        print_row(log, "all", answered.iter().filter(|one| one.log == *log));
    }
    print_row("all", "all", answered.iter());
    let mut sorted: Vec<&Answered> = answered.iter().collect();
    sorted.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    println!("\nThe worst:");
    for one in sorted.iter().take(WORST) {
        let (ratio, cpu, rg) = (one.ratio(), one.cpu * 1e3, one.rg.cpu_seconds * 1e3);
        let expr = &one.question.expr;
        println!("{ratio:.2}: {}: {expr}: {cpu:.1} ms, rg {rg:.1} ms, {} matches", one.log, one.found);
    }
    print_others("VictoriaLogs", answered, |others| others.victoria);
    print_others("ClickHouse", answered, |others| others.clickhouse);
    for one in answered.iter().filter(|one| !one.is_exact()) {
        println!("DIFFERS: {}: {}: {} found, {} expected", one.log, one.question.expr, one.found, one.expected);
    }
}

/// Prints the CPU of another store relative to that of Bucksaw, by kind, and the questions with the worst ratio.
fn print_others(name: &str, answered: &[Answered], cost: impl Fn(&OtherCosts) -> Option<f64>) {
    let ratio = |one: &Answered| Some(cost(&one.others)? / one.cpu.max(LEAST_SECONDS));
    let mut asked: Vec<(f64, &Answered)> =
        answered.iter().filter_map(|one| ratio(one).map(|ratio| (ratio, one))).collect();
    if asked.is_empty() {
        return;
    }
    println!("\nCPU of {name} relative to Bucksaw, cached:\n\n| kind | questions | worst | 10 % | median |");
    println!("| --- | --- | --- | --- | --- |");
    let row = |head: &str, ratios: Vec<f64>| {
        let cells = [0.0, 0.1, 0.5].map(|part| short(quantile(&ratios, part)));
        println!("| {head} | {} | {} |", ratios.len(), cells.join(" | "));
    };
    for kind in Kind::ALL {
        let of_kind: Vec<f64> =
            asked.iter().filter(|(_, one)| one.question.kind == kind).map(|(ratio, _)| *ratio).collect();
        if !of_kind.is_empty() {
            row(kind.name(), of_kind);
        }
    }
    row("all", asked.iter().map(|(ratio, _)| *ratio).collect());
    asked.sort_by(|one, other| one.0.total_cmp(&other.0));
    println!();
    for (ratio, one) in asked.iter().take(WORST / 2) {
        let ms = one.cpu * 1e3;
        println!("{ratio:.2}: {}: {}: {ms:.1} ms, {name} {:.1} ms", one.log, one.question.expr, ms * ratio);
    }
}

fn print_row<'a>(log: &str, kind: &str, answers: impl Iterator<Item = &'a Answered> + Clone) {
    let count = answers.clone().count();
    if count == 0 {
        return;
    }
    let hot: Vec<f64> = answers.clone().map(Answered::ratio).collect();
    let cold: Vec<f64> = answers.clone().filter_map(Answered::cold_ratio).collect();
    let wall: Vec<f64> = answers.map(Answered::wall_ratio).collect();
    let cells = [
        quantile(&hot, 0.0),
        quantile(&hot, 0.1),
        quantile(&hot, 0.5),
        quantile(&cold, 0.0),
        quantile(&cold, 0.5),
        quantile(&wall, 0.0),
        quantile(&wall, 0.5),
    ];
    let cells: String = cells.iter().map(|cell| format!(" {} |", short(*cell))).collect();
    println!("| {log} | {kind} | {count} |{cells}");
}

fn short(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_nan() => "-".to_owned(),
        ratio if ratio < 10.0 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.0}"),
    }
}

/// The value below which this part of the values is; NaN without values.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * part) as usize).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!((quantile(&values, 0.0), quantile(&values, 0.1), quantile(&values, 0.5)), (1.0, 3.0, 11.0));
        assert_eq!(quantile(&[7.0], 0.5), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
