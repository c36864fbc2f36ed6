//! `bucksaw query`: searches the records of a time range.

use anyhow::{Context, bail};
use bucksaw_env::{Clock, real};
use bucksaw_record::Millis;
use serde_json::Value;

use crate::answer_stats::AnswerStats;
use crate::answer_stream::Message;
use crate::args::{FilterArgs, OutputFormat, QueryArgs};
use crate::exit::Exit;
use crate::failure::print_error;
use crate::node_client::{self, AnswerStream};
use crate::print::{Out, RecordPrinter};
use crate::{expression, interrupt};

pub(crate) fn run(args: QueryArgs) -> anyhow::Result<Exit> {
    let expr = expression::build(&args.filter)?;
    args.window.check(Millis(real::Clock::default().unix_ms()))?;
    interrupt::exit_on_interrupt()?;
    node_client::runtime()?
        .block_on(async { if args.count { count(&args, &expr).await } else { search(&args, &expr).await } })
}

async fn count(args: &QueryArgs, expr: &str) -> anyhow::Result<Exit> {
    let path = node_client::path("/api/v1/count", &parameters(args, expr));
    let answer = node_client::get(&args.filter.addr, &path).await?;
    let answer: Value = serde_json::from_slice(&answer).context("the node's answer cannot be read")?;
    let count = answer.get("count").and_then(Value::as_u64).context("the node's answer has no count")?;
    // As with grep, the limit applies to the count.
    let count = args.filter.max_count.map_or(count, |max| count.min(max));
    Out::print(format!("{count}\n").as_bytes())?;
    print_stats(args, &AnswerStats::from_answer(&answer).unwrap_or_default());
    Ok(Exit::found(count > 0))
}

async fn search(args: &QueryArgs, expr: &str) -> anyhow::Result<Exit> {
    if args.filter.max_count == Some(0) {
        return Ok(Exit::Failed);
    }
    let limit = args.filter.max_count.map(|max| max.to_string());
    let mut parameters = parameters(args, expr);
    parameters.push(("order", if args.newest_first { "desc" } else { "asc" }));
    parameters.push(("format", if args.filter.output == OutputFormat::Raw { "raw" } else { "json" }));
    parameters.extend(limit.as_deref().map(|limit| ("limit", limit)));
    let path = node_client::path("/api/v1/query", &parameters);
    let stream = node_client::open_stream(&args.filter.addr, &path).await?;
    let printed = print(stream, &args.filter, StopWhen::AtEnd).await?;
    let Some(stats) = printed.stats else {
        let addr = &args.filter.addr;
        bail!("the answer of {addr} ended early, so records may be missing: see 'bucksaw status' and try again")
    };
    print_stats(args, &stats);
    Ok(Exit::found(printed.any || stats.number("matched") > 0))
}

fn parameters<'a>(args: &'a QueryArgs, expr: &'a str) -> Vec<(&'static str, &'a str)> {
    let mut parameters = vec![("q", expr), ("from", args.window.begin())];
    parameters.extend(args.window.to.as_deref().map(|to| ("to", to)));
    parameters
}

fn print_stats(args: &QueryArgs, stats: &AnswerStats) {
    stats.print_partial();
    if args.stats {
        stats.print();
    }
}

/// When to stop reading an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopWhen {
    /// At its end; the node applies the limit.
    AtEnd,
    /// When the limit of records was printed.
    AtLimit,
}

/// What was printed of an answer.
#[derive(Debug, Default)]
pub(crate) struct PrintResult {
    /// Whether anything was printed.
    pub(crate) any: bool,
    /// Whether the limit was reached.
    pub(crate) full: bool,
    /// The statistics at the end; `None` if the answer is incomplete or was not read to its end.
    pub(crate) stats: Option<AnswerStats>,
}

/// Prints an answer as it arrives.
pub(crate) async fn print(
    mut stream: AnswerStream,
    filter: &FilterArgs,
    stop: StopWhen,
) -> anyhow::Result<PrintResult> {
    let mut records = RecordPrinter::new(Out::stdout()?, filter.output, filter.max_count);
    let mut printed = PrintResult::default();
    while !(stop == StopWhen::AtLimit && records.is_full()) {
        // Flushes when no message is ready.
        let message = tokio::select! {
            biased;
            message = stream.next() => message,
            () = std::future::ready(()) => {
                records.flush()?;
                stream.next().await
            }
        };
        // Records before an error are printed, except an incomplete object.
        match message {
            Ok(Some(Message::Raw(piece))) => records.raw(&piece)?,
            Ok(Some(Message::Json(piece))) => records.json(&piece)?,
            Ok(Some(Message::Notice(notice))) => print_notice(&notice),
            Ok(Some(Message::Stats(text))) => {
                records.finish()?;
                let answer = serde_json::from_slice(&text).context("the node's statistics cannot be read")?;
                printed.stats = Some(AnswerStats::from_answer(&answer).unwrap_or_default());
                break;
            }
            Ok(Some(Message::Error(reason))) => {
                records.flush()?;
                bail!("the node stopped: {}", node_client::one_line(&String::from_utf8_lossy(&reason)));
            }
            Ok(None) => break,
            Err(error) => {
                records.flush()?;
                return Err(error.context(format!("the answer of {} ended early", filter.addr)));
            }
        }
    }
    records.flush()?;
    (printed.any, printed.full) = (records.printed, records.is_full());
    Ok(printed)
}

fn print_notice(notice: &[u8]) {
    let object = serde_json::from_slice::<Value>(notice).unwrap_or_default();
    let text = |name| object.get(name).and_then(Value::as_str).map(node_client::one_line);
    print_error(&match (object.get("skipped_bytes").and_then(Value::as_u64), text("node"), text("lost")) {
        (Some(bytes), ..) => {
            format!("{bytes} bytes arrived faster than they could be printed and were skipped: narrow the expression")
        }
        (_, Some(node), Some(reason)) => format!("node {node} {reason}: its records are not followed until it returns"),
        (_, Some(node), None) if object.get("joined").is_some() => format!("node {node} is followed from now on"),
        _ => format!("the node reports: {}", node_client::one_line(&String::from_utf8_lossy(notice))),
    });
}
