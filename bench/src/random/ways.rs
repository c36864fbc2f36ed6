//! `ways`: random questions over the columns of blocks and over their text, the time and the counted work of each.
//!
//! A node searches a block the way that has less work (`crates/query/src/block.rs`), so the weights of the work must name the way
//! that takes less time. This says how long one unit takes in each way, and what following the work costs. Runs on one thread in
//! this process, over blocks that are decoded and have no attributes.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use bucksaw_columns::{ColumnBlock, Encoder, TextEncoding};
use bucksaw_record::Labels;
use bucksaw_scan::Plan;
use bucksaw_search::{RowSet, SearchBlock};
use bucksaw_segment::{Chunk, Codec, RecordBlock, RecordMap, Rows};
use bucksaw_store::Config;
use clap::Args;

use super::LogArgs;
use super::draw::{DrawnQuestion, Kind};
use super::text::LogText;
use crate::context::BenchContext;
use crate::encode::blocks;
use crate::results::{BenchRun, figure};
use crate::spread::median;
use crate::{machine, process};

/// Measure both ways to search blocks, columns and text, by random questions
#[derive(Debug, Args)]
pub(crate) struct WaysArgs {
    #[command(flatten)]
    logs: LogArgs,

    /// Rounds, in which both ways take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// A block in both forms.
struct BothForms<'t> {
    columns: ColumnBlock,
    map: RecordMap,
    rows: Arc<Rows>,
    text: &'t [u8],
}

/// What a search of all blocks of a log took one way.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    nanos: f64,
    work: f64,
}

impl Way {
    /// Nanoseconds of one unit of work.
    fn unit_nanos(self) -> f64 {
        self.nanos / self.work
    }
}

/// A question, both ways.
struct QuestionWays {
    log: String,
    kind: Kind,
    expr: String,
    bytes: u64,
    columns: Way,
    text: Way,
}

impl QuestionWays {
    /// The time of the way with less work.
    fn chosen_nanos(&self) -> f64 {
        if self.columns.work <= self.text.work { self.columns.nanos } else { self.text.nanos }
    }

    /// The time of the way with less work relative to that of the faster way.
    fn cost(&self) -> f64 {
        self.chosen_nanos() / self.columns.nanos.min(self.text.nanos)
    }

    fn as_run(&self, round: usize) -> BenchRun {
        let kb = self.bytes as f64 / 1e3;
        let figures = vec![
            figure("columns", "ns per kB", self.columns.nanos / kb),
            figure("columns_work", "units per kB", self.columns.work / kb),
            figure("text", "ns per kB", self.text.nanos / kb),
            figure("text_work", "units per kB", self.text.work / kb),
            figure("chosen_against_faster", "times", self.cost()),
        ];
        let subject = format!("{}: {}: {}", self.log, self.kind.name(), self.expr);
        BenchRun { subject, round, load: machine::load(), figures }
    }
}

pub(crate) fn run(args: &WaysArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("ways")?;
    let mut compared = Vec::new();
    args.logs.each_log(context, |name, text| {
        let log = LogText::new(text);
        let blocks = both_forms(log.bytes())?;
        eprintln!("{name}: {} blocks of columns", blocks.len());
        for question in args.logs.draw(&log) {
            // The page with the newest asks the same of a block.
            if question.kind != Kind::NewestPage && !blocks.is_empty() {
                compared.push(compare(name, &question, &blocks, args.rounds)?);
            }
        }
        Ok(())
    })?;
    results.runs.extend(compared.iter().map(|one| one.as_run(1)));
    print(&compared);
    context.report_file(&results)
}

/// The blocks that the store would keep as columns. A last line without line feed is left out.
fn both_forms(text: &[u8]) -> anyhow::Result<Vec<BothForms<'_>>> {
    let config = Config::default();
    let (block_bytes, Codec::Columns(level)) = (usize::try_from(config.block_bytes)?, config.codec_final) else {
        return Ok(Vec::new());
    };
    let mut encoder = Encoder::new();
    let mut blocks_of_log = Vec::new();
    for text in blocks(text, block_bytes).filter(|text| text.ends_with(b"\n")) {
        let TextEncoding::Columns(packed) = encoder.encode(text, &[], i32::from(level)).text else { continue };
        let count = memchr::memchr_iter(b'\n', text).count();
        let columns = ColumnBlock::open(packed, count, text.len()).context("a block cannot be decoded")?;
        let rows = Arc::new(Rows { count: u32::try_from(count)?, ..Rows::default() });
        blocks_of_log.push(BothForms { columns, map: RecordMap::identity(count), rows, text });
    }
    Ok(blocks_of_log)
}

fn compare(
    name: &str,
    question: &DrawnQuestion,
    blocks: &[BothForms<'_>],
    rounds: u32,
) -> anyhow::Result<QuestionWays> {
    let expr = &question.expr;
    let plan =
        || Plan::parse(expr.as_bytes()).map(|(_, plan)| plan).map_err(|error| anyhow::anyhow!("{expr}: {error}"));
    // A first run unpacks the columns.
    let (rows, _) = columns_way(&plan()?, blocks).with_context(|| expr.clone())?;
    let (mut columns, mut text) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // The costs are those of one query.
        let plan = plan()?;
        let (found, way) = columns_way(&plan, blocks).with_context(|| expr.clone())?;
        columns.push(way);
        let (lines, way) = text_way(&plan, blocks)?;
        text.push(way);
        ensure!(found == rows && lines == rows, "{name}: {expr}: {found} lines in columns, {lines} in text");
    }
    let bytes = blocks.iter().map(|block| block.text.len() as u64).sum();
    let middle = |ways: &[Way]| {
        let of = |value: fn(&Way) -> f64| median(&ways.iter().map(value).collect::<Vec<_>>());
        Way { nanos: of(|way| way.nanos), work: of(|way| way.work) }
    };
    let (columns, text) = (middle(&columns), middle(&text));
    Ok(QuestionWays { log: name.to_owned(), kind: question.kind, expr: expr.clone(), bytes, columns, text })
}

fn columns_way(plan: &Plan, blocks: &[BothForms<'_>]) -> anyhow::Result<(u64, Way)> {
    let (before, mut found, mut work) = (process::thread_cpu_seconds()?, 0, 0);
    for block in blocks {
        let before = SearchBlock::work(&block.columns);
        let records = RecordBlock::new(&block.columns, &block.map).context("the lines were counted differently")?;
        let rows = plan.bind(&Labels::default()).match_rows(records, RowSet::All, &|| false);
        found += rows.context("a block is damaged")?.count(block.columns.rows()) as u64;
        work += SearchBlock::work(&block.columns) - before;
    }
    Ok((found, Way { nanos: (process::thread_cpu_seconds()? - before) * 1e9, work: work as f64 }))
}

fn text_way(plan: &Plan, blocks: &[BothForms<'_>]) -> anyhow::Result<(u64, Way)> {
    let labels = Labels::default();
    let (before, mut found, mut bytes) = (process::thread_cpu_seconds()?, 0, 0);
    for block in blocks {
        let chunk = Chunk { labels: &labels, rows: Arc::clone(&block.rows), text: block.text };
        found += u64::from(plan.bind(&labels).count(&chunk, &|| false));
        bytes += block.text.len() as u64;
    }
    let nanos = (process::thread_cpu_seconds()? - before) * 1e9;
    Ok((found, Way { nanos, work: plan.costs().of_text(bytes) as f64 }))
}

/// Prints how long a unit takes by kind and way, and the questions for which following the work costs most.
fn print(compared: &[QuestionWays]) {
    println!("A unit of work in ns: 10 %, median, 90 %; and the way with less work beside the faster one\n");
    println!("| kind | questions | columns | | | text | | | slower way | mean cost | worst |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for kind in Kind::ALL {
        print_row(kind.name(), compared.iter().filter(|one| one.kind == kind));
    }
    print_row("all", compared.iter());
    let mut worst: Vec<&QuestionWays> = compared.iter().filter(|one| one.cost() > 1.0).collect();
    worst.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    println!("\n| log | kind | question | columns, ns per kB | unit | text, ns per kB | unit | cost |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for QuestionWays { log, kind, expr, bytes, columns, text, .. } in worst.iter().take(WORST) {
        let kb = *bytes as f64 / 1e3;
        let way = |way: &Way| format!("{:.0} | {:.3}", way.nanos / kb, way.unit_nanos());
        let cost = columns.nanos.max(text.nanos) / columns.nanos.min(text.nanos);
        println!("| {log} | {} | `{expr}` | {} | {} | {cost:.1} |", kind.name(), way(columns), way(text));
    }
}

/// Questions that are listed for which following the work costs most.
const WORST: usize = 20;

fn print_row<'a>(head: &str, compared: impl Iterator<Item = &'a QuestionWays> + Clone) {
    let count = compared.clone().count();
    if count == 0 {
        return;
    }
    let units = |way: fn(&QuestionWays) -> Way| {
        let mut units: Vec<f64> = compared.clone().map(|one| way(one).unit_nanos()).collect();
        units.sort_by(f64::total_cmp);
        let at = |tenths: usize| units.get((count * tenths / 10).min(count - 1)).copied().unwrap_or(f64::NAN);
        format!("{:.3} | {:.3} | {:.3}", at(1), at(5), at(9))
    };
    let wrong = compared.clone().filter(|one| one.cost() > 1.0).count();
    let mean = compared.clone().map(QuestionWays::cost).sum::<f64>() / count as f64;
    let worst = compared.clone().map(QuestionWays::cost).fold(1.0, f64::max);
    let (columns, text) = (units(|one| one.columns), units(|one| one.text));
    println!("| {head} | {count} | {columns} | {text} | {wrong} | {mean:.2} | {worst:.1} |");
}
