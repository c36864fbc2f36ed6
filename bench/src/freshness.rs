//! `freshness`: the time from sending a line to its visibility under load.
//!
//! The time starts before the line is written to the socket. It ends when a tail client has the line, or when an
//! answer that contains it has arrived: a count, which searches its whole time range, or a search for the newest line
//! with the marker, which stops at the first.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use bucksaw_faults::http::Client;
use bucksaw_faults::wait;
use clap::Args;

use crate::context::{BenchContext, Size};
use crate::feed::{self, FeedTotals};
use crate::machine;
use crate::node::{BenchNode, number};
use crate::results::{BenchRun, Figure, figure};
use crate::spread::percentile_ms;
use crate::trace::VisibilityTrace;

/// The maximum time until a line is visible.
const VISIBLE_MAX: Duration = Duration::from_secs(30);

/// The pause between queries.
const POLL: Duration = Duration::from_millis(1);

/// Bytes of the corpus that are sent repeatedly.
const SAMPLE: u64 = 64_000_000;

/// The time of load before the first probe.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measure the time from sending a line to its visibility, under load
#[derive(Debug, Args)]
pub(crate) struct FreshnessArgs {
    /// Bytes per second of other lines, over TCP
    #[arg(long, value_name = "SIZE", default_value = "20MB")]
    rate: Size,

    /// Lines to find with each query
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    probes: u32,

    /// Milliseconds between lines
    #[arg(long, value_name = "MS", default_value_t = 50)]
    every: u64,

    /// Time ranges of counts, separated by commas
    #[arg(long, value_name = "AGE", value_delimiter = ',', default_values = ["1m", "5s"])]
    from: Vec<String>,

    /// Time ranges of searches, separated by commas
    #[arg(long, value_name = "AGE", value_delimiter = ',', default_values = ["5s"])]
    search_from: Vec<String>,
}

/// A query that is repeated until it finds the line.
#[derive(Clone, Copy, Debug)]
enum VisibilityQuery<'a> {
    /// A count over this time range.
    Count(&'a str),
    /// A search for the newest match in this time range.
    Search(&'a str),
}

impl VisibilityQuery<'_> {
    fn name(self) -> String {
        match self {
            Self::Count(from) => format!("count {from}"),
            Self::Search(from) => format!("search {from}"),
        }
    }

    /// Returns the number of matches.
    fn ask(self, http: &mut Client, marker: &str) -> anyhow::Result<u64> {
        match self {
            Self::Count(from) => {
                number(&http.get(&format!("/api/v1/count?q={marker}&from={from}"))?.ok_json()?, "/count")
            }
            Self::Search(from) => {
                let answer = http.get(&format!("/api/v1/query?q={marker}&from={from}&order=desc&limit=1"))?;
                let text = String::from_utf8_lossy(&answer.body);
                let is_whole = answer.status == 200 && text.contains("{\"stats\":");
                ensure!(is_whole, "status {}: {text}", answer.status);
                Ok(text.lines().filter(|line| line.starts_with("{\"id\":") && line.contains(marker)).count() as u64)
            }
        }
    }
}

pub(crate) fn run(args: &FreshnessArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus_up_to(SAMPLE)?;
    let sample = corpus.sample(SAMPLE)?;
    let load = machine::load();
    let node = context.node("node", &[])?;
    let trace = VisibilityTrace::start(node.http()?, "probe")?;
    let counts = args.from.iter().map(|from| VisibilityQuery::Count(from));
    let questions: Vec<VisibilityQuery> =
        counts.chain(args.search_from.iter().map(|from| VisibilityQuery::Search(from))).collect();
    let done = AtomicBool::new(false);
    let (fed, probed) = thread::scope(|scope| {
        let address = node.address("fast")?;
        let fed = scope.spawn(|| feed::paced(address, &sample, args.rate.0 as f64, |_| !done.load(Ordering::Relaxed)));
        thread::sleep(WARM_UP);
        let probed = probe(args, &questions, &node, &trace);
        done.store(true, Ordering::Relaxed);
        let fed = fed.join().map_err(|_| anyhow!("the sender panicked"))??;
        anyhow::Ok((fed, probed?))
    })?;
    let cpu = node.cpu()?;
    let followed = trace.end()?;
    let sent = args.probes as usize * questions.len();
    ensure!(followed.len() == sent, "{sent} lines were looked for, and {} followed", followed.len());
    node.wait_accepted(fed.bytes + probed.bytes)?;
    node.assert_count(fed.lines + sent as u64)?;

    let mut results = context.results("freshness")?.with_corpus(&corpus);
    let mut add = |subject: &str, times: &[Duration]| {
        let mut figures = percentiles(times);
        figures.extend(rate(&fed, cpu));
        results.runs.push(BenchRun { subject: subject.into(), round: 1, load, figures });
    };
    add("tail", &followed);
    for (question, times) in questions.iter().zip(&probed.times) {
        add(&question.name(), &times.answered);
        add(&format!("{} asked", question.name()), &times.asked);
    }
    context.report(&results)?;
    println!("tail: until a tail client had the line");
    println!("count, search: until the end of the first answer that contained it, over this time range");
    println!("asked: until the start of that query, which excludes the time of the answer");
    Ok(())
}

#[derive(Debug)]
struct ProbeRun {
    bytes: u64,
    /// By query.
    times: Vec<ProbeTimes>,
}

#[derive(Clone, Debug, Default)]
struct ProbeTimes {
    /// Times from sending to the end of the answer that contains the line.
    answered: Vec<Duration>,
    /// Times from sending to the start of the query that found the line.
    asked: Vec<Duration>,
}

fn probe(
    args: &FreshnessArgs,
    questions: &[VisibilityQuery],
    node: &BenchNode,
    trace: &VisibilityTrace,
) -> anyhow::Result<ProbeRun> {
    let mut stream = TcpStream::connect(node.address("fast")?)?;
    stream.set_nodelay(true)?;
    let mut http = node.http()?;
    let mut probed = ProbeRun { bytes: 0, times: vec![ProbeTimes::default(); questions.len()] };
    for _ in 0..args.probes {
        for (question, times) in questions.iter().zip(&mut probed.times) {
            let sent = Instant::now();
            let (line_number, line) = trace.send();
            stream.write_all(line.as_bytes())?;
            probed.bytes += line.len() as u64;
            times.asked.push(find(&mut http, *question, &trace.name(line_number), sent)?);
            times.answered.push(sent.elapsed());
            thread::sleep(Duration::from_millis(args.every).saturating_sub(sent.elapsed()));
        }
    }
    Ok(probed)
}

/// Repeats a query until it finds the line, and returns the start of that query.
fn find(http: &mut Client, question: VisibilityQuery, marker: &str, sent: Instant) -> anyhow::Result<Duration> {
    wait::until("a line being found", POLL, VISIBLE_MAX, || {
        let asked = sent.elapsed();
        let found = question.ask(http, marker)?;
        ensure!(found < 2, "a line was found {found} times");
        Ok((found == 1).then_some(asked))
    })
}

fn percentiles(times: &[Duration]) -> Vec<Figure> {
    vec![
        figure("visible_p50", "ms", percentile_ms(times, 50.0)),
        figure("visible_p99", "ms", percentile_ms(times, 99.0)),
        figure("visible_max", "ms", percentile_ms(times, 100.0)),
        figure("probes", "lines", times.len() as f64),
    ]
}

fn rate(fed: &FeedTotals, cpu: f64) -> Vec<Figure> {
    vec![
        figure("ingest_rate", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_delay_max", "s", fed.delay),
        figure("cpu_of_node_with_searches", "s/s", cpu / fed.seconds),
    ]
}
