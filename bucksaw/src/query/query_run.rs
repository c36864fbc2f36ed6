//! One search: its request, its answer in each form, and its exit code.

use anyhow::{Context as _, anyhow};
use serde_json::Value;

use crate::answer::{AnswerItem, AnswerReader, AnswerStats};
use crate::args::QueryArgs;
use crate::exit::Exit;
use crate::expression::RecordRules;
use crate::node_client::{self, NodeClient};
use crate::notice;
use crate::print::{Out, RecordPrefix, RecordPrinter, RecordStyle};
use crate::progress::Progress;

/// A search to run.
pub(super) struct QueryRun<'a> {
    pub(super) args: &'a QueryArgs,
    pub(super) selection: RecordRules,
    /// The expression and the time range.
    pub(super) parameters: Vec<(&'static str, String)>,
    pub(super) client: NodeClient,
}

impl QueryRun<'_> {
    /// Prints the number of matching records.
    pub(super) async fn count(&self) -> anyhow::Result<Exit> {
        let path = node_client::path("/api/v1/count", &self.parameters);
        let answer = Progress::new("counting").during(self.client.get_json(&path)).await?;
        let count = answer.get("count").and_then(Value::as_u64).context("the node's answer has no count")?;
        // As with grep, the limit applies to the count.
        let count = self.args.max_count.map_or(count, |max| count.min(max));
        Out::print(format!("{count}\n").as_bytes())?;
        Ok(self.settle(&AnswerStats::from_answer(&answer).unwrap_or_default(), count > 0))
    }

    /// Prints nothing, and ends at the first match. As with grep, a match outweighs trouble.
    pub(super) async fn quiet(&self) -> anyhow::Result<Exit> {
        let mut reader = self.open("json", Some(1)).await?;
        let mut any = false;
        while let Some(item) = reader.next(|| Ok(())).await? {
            match item {
                AnswerItem::Object(_) | AnswerItem::Raw(_) => return Ok(Exit::Done),
                AnswerItem::Notice(_) => {}
                AnswerItem::Stats(stats) => {
                    any |= stats.number("matched") > 0;
                    return Ok(if any { Exit::Done } else { self.settle(&stats, any) });
                }
            }
        }
        Err(self.ended_early())
    }

    /// Prints the matching records.
    pub(super) async fn records(&self) -> anyhow::Result<Exit> {
        let mut printer = self.printer()?;
        let format = if printer.takes_raw() { "raw" } else { "json" };
        let mut reader = self.open(format, self.args.max_count).await?;
        while let Some(item) = reader.next(|| printer.flush()).await? {
            match item {
                AnswerItem::Raw(piece) => printer.raw(&piece)?,
                AnswerItem::Object(object) => printer.matched(&object)?,
                AnswerItem::Notice(notice) => notice::print(&notice),
                AnswerItem::Stats(stats) => {
                    printer.finish()?;
                    let any = printer.printed || stats.number("matched") > 0;
                    return Ok(self.settle(&stats, any));
                }
            }
        }
        printer.flush()?;
        Err(self.ended_early())
    }

    pub(super) fn printer(&self) -> anyhow::Result<RecordPrinter> {
        let args = self.args;
        let style = RecordStyle {
            format: args.output.clone(),
            zone: args.display.zone(),
            highlighter: self.selection.highlighter(),
            prefix: if args.line_number { RecordPrefix::Number } else { RecordPrefix::None },
        };
        Ok(RecordPrinter::new(Out::coloured(args.display.color)?, style))
    }

    /// The answer in this format, of at most `limit` records.
    pub(super) async fn open(&self, format: &str, limit: Option<u64>) -> anyhow::Result<AnswerReader> {
        let mut parameters = self.parameters.clone();
        parameters.push(("order", if self.args.newest_first { "desc" } else { "asc" }.to_owned()));
        parameters.push(("format", format.to_owned()));
        parameters.extend(limit.map(|limit| ("limit", limit.to_string())));
        let mut progress = Progress::new("searching");
        let path = node_client::path("/api/v1/query", &parameters);
        let stream = progress.during(self.client.open_answer(&path)).await?;
        Ok(AnswerReader::new(stream, &self.client.addr, progress))
    }

    pub(super) fn settle(&self, stats: &AnswerStats, any: bool) -> Exit {
        let exit = stats.settle(any, self.args.allow_partial);
        if self.args.stats {
            stats.print();
        }
        exit
    }

    pub(super) fn ended_early(&self) -> anyhow::Error {
        let addr = &self.client.addr;
        anyhow!("the answer of {addr} ended early, so records may be missing: see 'bucksaw status' and try again")
    }
}
