//! `random`: questions drawn at random from many logs, compared with `rg` on the raw file.
//!
//! These questions cannot be tuned for: they are pieces of the lines themselves, of every file of a corpus directory, of
//! mixtures of all of them, and of generated lines. The table has the worst, the tenth percentile and the median by log and
//! kind, because a median hides what a user meets at night.

mod draw;
mod grow;
mod other_stores;
mod rg;
mod table;
mod text;
pub(crate) mod ways;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::http::{Client, encode};
use bucksaw_generate::{Config, Generator, SampleFormat};
use clap::Args;

use crate::context::{BenchContext, Size};
use crate::cores::OneCore;
use crate::corpus::Corpus;
use crate::node::{BenchNode, number};
use crate::results::{BenchRun, figure};
use crate::spread::median;
use crate::{feed, machine, process};
use draw::{DrawnQuestion, Kind, Questioner};
use other_stores::{OtherCosts, OtherStoreArgs};
use table::Answered;
use text::LogText;

/// Measure questions drawn at random from many logs
#[derive(Debug, Args)]
pub(crate) struct RandomArgs {
    #[command(flatten)]
    logs: LogArgs,

    /// Questions of each kind that are also asked of a node with an empty cache
    #[arg(long, value_name = "N", default_value_t = 3)]
    cold: usize,

    #[command(flatten)]
    others: OtherStoreArgs,
}

/// The logs, and how many questions are drawn from each.
#[derive(Debug, Args)]
struct LogArgs {
    /// Logs, plain or .zst; those of the directory --corpus if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Bytes of each log: small ones are grown, large ones are cut
    #[arg(long, value_name = "SIZE", default_value = "256MB")]
    each: Size,

    /// Questions of each kind for each log and seed
    #[arg(long, value_name = "N", default_value_t = 10)]
    questions: usize,

    /// Seeds of the questions and of the growth, separated by commas
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', default_values_t = [1, 2])]
    seeds: Vec<u64>,

    /// Mixtures of all logs
    #[arg(long, value_name = "N", default_value_t = 2)]
    mixtures: u64,
}

impl LogArgs {
    /// Passes each log with its name: the files, two generated ones, and the mixtures of the files.
    fn each_log(
        &self,
        context: &BenchContext,
        mut measure: impl FnMut(&str, Vec<u8>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let files = if self.files.is_empty() { context.corpus_files()? } else { self.files.clone() };
        let each = usize::try_from(self.each.0)?;
        let seed = self.seeds.first().copied().unwrap_or(1);
        let mut sources = Vec::new();
        for file in &files {
            let source = read(file)?;
            measure(&name_of(file), grow::grow(&source, each, seed))?;
            sources.push(source);
        }
        for format in [SampleFormat::Text, SampleFormat::Json] {
            let name = if format == SampleFormat::Text { "generated text" } else { "generated JSON" };
            measure(name, generated(format, each, seed))?;
        }
        if !sources.is_empty() {
            for mixture in 1..=self.mixtures {
                let part = each / sources.len() + (each >> 6);
                let grown: Vec<Vec<u8>> =
                    sources.iter().map(|source| grow::grow(source, part, seed + mixture)).collect();
                measure(&format!("mixture {mixture}"), grow::mix(&grown, each, seed + mixture))?;
            }
        }
        Ok(())
    }

    /// The questions about a log, of all seeds.
    fn draw(&self, log: &LogText) -> Vec<DrawnQuestion> {
        let mut questions = Vec::new();
        for seed in &self.seeds {
            let mut questioner = Questioner::new(log, *seed);
            for kind in Kind::ALL {
                questions.extend((0..self.questions).map_while(|_| questioner.draw(kind)));
            }
        }
        questions
    }
}

/// Runs of a question with a filled cache, after the first.
const RUNS: usize = 3;

/// Records on a page.
const PAGE: u64 = 100;

/// The data directory of the node.
const NODE: &str = "node";

pub(crate) fn run(args: &RandomArgs, context: &BenchContext) -> anyhow::Result<()> {
    ensure!(rg::is_installed(), "rg is missing: apt-get install ripgrep");
    let mut results = context.results("random")?;
    let mut answered = Vec::new();
    args.logs.each_log(context, |name, text| {
        eprintln!("{name}");
        let path = context.path("log");
        fs::write(&path, &text)?;
        let corpus = Corpus::of_file(&path)?;
        let log = LogText::new(text);
        ensure!(log.lines() == corpus.lines, "the lines of {name} were counted differently");
        let mut run = store(context, &corpus, &log)?;
        run.subject = format!("{name}: size");
        results.runs.push(run);
        for question in ask_all(args, context, &corpus, &log)? {
            let question = Answered { log: name.to_owned(), ..question };
            results.runs.push(question.as_run());
            answered.push(question);
        }
        context.clear(&context.path(NODE))
    })?;
    table::print(&answered);
    context.report_file(&results)?;
    let wrong = answered.iter().filter(|question| !question.is_exact()).count();
    if wrong > 0 {
        bail!("{wrong} answers differ from those of the oracle: see above");
    }
    Ok(())
}

/// The text of a log, which may be compressed.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match file.extension() {
        Some(zst) if zst == "zst" => {
            zstd::decode_all(bytes.as_slice()).with_context(|| format!("cannot decompress {}", file.display()))
        }
        _ => Ok(bytes),
    }
}

/// The file name up to the first dot that a number does not follow.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    [".zst", ".log", ".ndjson"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(&name).to_owned())
}

fn generated(format: SampleFormat, bytes: usize, seed: u64) -> Vec<u8> {
    /// The time of the first line in milliseconds since 1970, and lines with the same time.
    const FIRST_MS: u64 = 1_767_225_600_000;
    const LINES_PER_MS: u64 = 20;
    let mut generator = Generator::new(Config { format, size: None, seed }, FIRST_MS);
    let mut text = Vec::with_capacity(bytes + (1 << 16));
    for count in 0_u64.. {
        if text.len() >= bytes {
            break;
        }
        generator.append_line(&mut text, FIRST_MS + count / LINES_PER_MS);
    }
    text
}

fn start_node(context: &BenchContext) -> anyhow::Result<BenchNode> {
    context.node(NODE, &["--retention-age", "none"])
}

/// Stores the log, and compares its size with `zstd -3`.
fn store(context: &BenchContext, corpus: &Corpus, log: &LogText) -> anyhow::Result<BenchRun> {
    let load = machine::load();
    let node = start_node(context)?;
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    let (_, cpu) = node.wait_settled(corpus.bytes)?;
    node.wait_removed()?;
    node.assert_count(corpus.lines)?;
    let stored = process::disk_bytes(node.dir())?;
    node.stop()?;
    let zstd = zstd::encode_all(log.bytes(), 3)?.len();
    let figures = vec![
        figure("text", "MB", corpus.bytes as f64 / 1e6),
        figure("smaller_than_zstd", "times", zstd as f64 / stored as f64),
        figure("ingest_and_encoding", "MB per CPU second", corpus.bytes as f64 / 1e6 / cpu),
    ];
    Ok(BenchRun { subject: String::new(), round: 1, load, figures })
}

/// Asks all questions: of a warm node on one core, some of them of a node that has just started, all on all cores.
fn ask_all(args: &RandomArgs, context: &BenchContext, corpus: &Corpus, log: &LogText) -> anyhow::Result<Vec<Answered>> {
    let questions = args.logs.draw(log);
    let core = OneCore::take()?;
    let mut answered = Vec::new();
    let node = start_node(context)?;
    let mut http = node.http()?;
    for question in questions {
        let found = ask(&mut http, &question)?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let before = process::cpu_nanos(node.pid())?;
            ask(&mut http, &question)?;
            times.push((process::cpu_nanos(node.pid())? - before) as f64 / 1e9);
        }
        let rg = rg::search(&question.searches, &corpus.path)?;
        let (mut expected, undecided) = match &question.field {
            Some((name, value)) => log.lines_with_field(name, value),
            None => (rg.lines, 0),
        };
        // Lines that the oracle cannot read may match.
        expected = found.clamp(expected, expected + undecided);
        if question.kind == Kind::NewestPage {
            expected = expected.min(PAGE);
        }
        let cpu = median(&times);
        answered.push(Answered {
            question,
            log: String::new(),
            found,
            expected,
            cpu,
            rg,
            cold: None,
            wall: f64::NAN,
            others: OtherCosts::default(),
        });
    }
    node.stop()?;
    let mut asked_cold = std::collections::HashMap::<Kind, usize>::new();
    for answer in &mut answered {
        let asked = asked_cold.entry(answer.question.kind).or_default();
        if *asked < args.cold {
            *asked += 1;
            let node = start_node(context)?;
            let before = process::cpu_nanos(node.pid())?;
            ask(&mut node.http()?, &answer.question)?;
            answer.cold = Some((process::cpu_nanos(node.pid())? - before) as f64 / 1e9);
            node.stop()?;
        }
    }
    let drawn: Vec<&DrawnQuestion> = answered.iter().map(|answer| &answer.question).collect();
    let others = other_stores::ask(&args.others, context, log, &drawn)?;
    answered.iter_mut().zip(others).for_each(|(answer, others)| answer.others = others);
    drop(core);
    let node = start_node(context)?;
    let mut http = node.http()?;
    for answer in &mut answered {
        ask(&mut http, &answer.question)?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let started = std::time::Instant::now();
            ask(&mut http, &answer.question)?;
            times.push(started.elapsed().as_secs_f64());
        }
        answer.wall = median(&times);
    }
    node.stop()?;
    Ok(answered)
}

/// The number of matching records, or of those on the newest page.
fn ask(http: &mut Client, question: &DrawnQuestion) -> anyhow::Result<u64> {
    let q = encode(&question.expr);
    if question.kind == Kind::NewestPage {
        let target = format!("/api/v1/query?from=30d&order=desc&limit={PAGE}&q={q}");
        let mut response = http.open_borrowed("GET", &target, &[("Accept", "text/plain")], b"")?;
        ensure!(response.status == 200, "{}: status {}", question.expr, response.status);
        let mut page = Vec::new();
        std::io::Read::read_to_end(&mut response.body, &mut page)?;
        return Ok(memchr::memchr_iter(b'\n', &page).count() as u64);
    }
    let answer = http.get(&format!("/api/v1/count?from=30d&q={q}"))?.ok_json();
    number(&answer.with_context(|| question.expr.clone())?, "/count").with_context(|| question.expr.clone())
}
