//! Follows the records of a node, over broken connections.
//!
//! A tail is opened before the records of the past are queried, so no record falls between the two; those that are in both
//! are shown once. After a broken connection the records accepted meanwhile are queried in the same way.

use std::time::{Duration, Instant};

use bucksaw_record::time;
use bytes::Bytes;

use super::shown_records::ShownRecords;
use crate::answer::{AnswerItem, AnswerReader, AnswerStats, NodeRecord};
use crate::args::TailArgs;
use crate::exit::Exit;
use crate::failure::print_error;
use crate::node_client::{self, ConnectionLost, NodeClient, Refusal};
use crate::notice;
use crate::print::{RecordPrinter, human_seconds};
use crate::progress::Progress;

/// Wait before the first attempt to reconnect, and before each further one at most.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Which records of the past are shown first.
#[derive(Debug)]
pub(super) struct TailHistory {
    pub(super) from: String,
    /// At most this number, the newest.
    pub(super) lines: Option<u64>,
}

/// Shows records, each once.
#[derive(Debug)]
pub(super) struct Follower {
    client: NodeClient,
    expr: String,
    printer: RecordPrinter,
    shown: ShownRecords,
    /// Number of records that may still be shown.
    left: u64,
    /// When the first connection was made.
    started: Instant,
}

impl Follower {
    pub(super) fn new(args: &TailArgs, expr: String, printer: RecordPrinter) -> anyhow::Result<Self> {
        let (client, left) = (NodeClient::new(&args.node)?, args.max_count.unwrap_or(u64::MAX));
        Ok(Self { client, expr, printer, shown: ShownRecords::default(), left, started: Instant::now() })
    }

    /// Shows records until the limit is reached.
    pub(super) async fn run(mut self, history: Option<TailHistory>) -> anyhow::Result<Exit> {
        let mut reader = self.open().await?;
        self.started = Instant::now();
        self.print_hints().await;
        let mut followed = match history {
            Some(history) => self.show_history(history).await,
            None => Ok(()),
        };
        self.shown.end_past();
        loop {
            if followed.is_ok() {
                followed = self.follow(&mut reader).await;
            }
            self.printer.flush()?;
            match followed {
                Ok(()) => {
                    self.printer.finish()?;
                    return Ok(Exit::found(self.printer.printed));
                }
                Err(error) if error.is::<ConnectionLost>() => print_error(&format!("{error:#}: reconnecting")),
                Err(error) => return Err(error),
            }
            let lost = Instant::now();
            reader = self.reconnect().await?;
            followed = self.show_missed(lost).await;
        }
    }

    /// Prints hints on the expression. The answer of a tail has no statistics that would contain them.
    async fn print_hints(&self) {
        if self.expr.is_empty() {
            return;
        }
        let path = node_client::path("/api/v1/check", &[("q", &self.expr)]);
        // A node without this call has no hints.
        let answer = self.client.renewed().get(&path).await.unwrap_or_default();
        AnswerStats::from_stats(serde_json::from_slice(&answer).unwrap_or_default()).print_hints();
    }

    /// Shows records as they are accepted; ends well at the limit.
    async fn follow(&mut self, reader: &mut AnswerReader) -> anyhow::Result<()> {
        while self.left > 0 {
            match reader.next(|| self.printer.flush()).await? {
                Some(AnswerItem::Object(object)) => drop(self.show(&object)?),
                Some(AnswerItem::Raw(piece)) => self.printer.raw(&piece)?,
                Some(AnswerItem::Notice(notice)) => notice::print(&notice),
                Some(AnswerItem::Stats(_)) | None => {
                    return Err(ConnectionLost(format!("{} ended the connection", self.client.addr)).into());
                }
            }
        }
        Ok(())
    }

    async fn show_history(&mut self, TailHistory { from, lines }: TailHistory) -> anyhow::Result<()> {
        let mut parameters = vec![("from", from)];
        match lines {
            None => drop(self.query(parameters).await?),
            Some(lines) => {
                parameters.extend([("limit", lines.to_string()), ("order", "desc".to_owned())]);
                let mut reader = self.open_query(parameters).await?;
                let mut newest = Vec::new();
                while let Some(item) = reader.next(|| Ok(())).await? {
                    match item {
                        AnswerItem::Object(object) => newest.push(object),
                        AnswerItem::Raw(_) | AnswerItem::Notice(_) => {}
                        AnswerItem::Stats(stats) => {
                            stats.print_hints();
                            stats.print_partial();
                            break;
                        }
                    }
                }
                for object in newest.iter().rev() {
                    self.show(object)?;
                }
            }
        }
        Ok(())
    }

    /// Shows the records accepted since the connection was lost.
    async fn show_missed(&mut self, lost: Instant) -> anyhow::Result<()> {
        let point = self.shown.resume_after();
        let after = point.map(|point| point.after);
        let from = match (after, self.shown.oldest_wanted) {
            (Some(after), Some(_)) => time::format_rfc3339(after.time(), 0),
            // Records from before the start were not requested. The clocks of the node and this machine may differ, so
            // the time is relative.
            _ => format!("{}ms", self.started.elapsed().as_millis()),
        };
        let mut parameters = vec![("from", from)];
        parameters.extend(after.map(|after| ("after", after.to_string())));
        let shown = self.query(parameters).await?;
        let missed = match point.filter(|point| point.is_limited) {
            // The last record that was shown states an earlier time, so this is likely.
            Some(point) => {
                format!("those that state a time before {} are missing", time::format_rfc3339(point.after.time(), 0))
            }
            None => "those that state a much earlier time may be missing".to_owned(),
        };
        print_error(&format!(
            "reconnected to {} after {}, and showed {shown} records accepted meanwhile; {missed}",
            self.client.addr,
            human_seconds(lost.elapsed().as_secs_f64())
        ));
        Ok(())
    }

    /// Shows the records of a query, oldest first; returns how many were new.
    async fn query(&mut self, parameters: Vec<(&'static str, String)>) -> anyhow::Result<u64> {
        let mut reader = self.open_query(parameters).await?;
        let mut shown = 0;
        while self.left > 0 {
            match reader.next(|| self.printer.flush()).await? {
                Some(AnswerItem::Object(object)) => shown += u64::from(self.show(&object)?),
                Some(AnswerItem::Raw(_)) => {}
                Some(AnswerItem::Notice(notice)) => notice::print(&notice),
                Some(AnswerItem::Stats(stats)) => {
                    stats.print_hints();
                    stats.print_partial();
                    break;
                }
                None => return Err(ConnectionLost(format!("the answer of {} ended early", self.client.addr)).into()),
            }
        }
        Ok(shown)
    }

    /// Shows a record unless it was shown or the limit is reached.
    fn show(&mut self, object: &Bytes) -> anyhow::Result<bool> {
        if self.left == 0 || !self.shown.insert(NodeRecord::parse(object)?.id()?) {
            return Ok(false);
        }
        self.left -= 1;
        self.printer.matched(object)?;
        Ok(true)
    }

    async fn open(&self) -> anyhow::Result<AnswerReader> {
        let path = node_client::path("/api/v1/tail", &[("q", self.expr.as_str()), ("format", "json")]);
        let stream = self.client.renewed().open_tail(&path).await?;
        Ok(AnswerReader::new(stream, &self.client.addr, Progress::none()))
    }

    async fn open_query(&self, mut parameters: Vec<(&'static str, String)>) -> anyhow::Result<AnswerReader> {
        parameters.extend([("q", self.expr.clone()), ("format", "json".to_owned())]);
        let path = node_client::path("/api/v1/query", &parameters);
        let stream = self.client.renewed().open_tail(&path).await?;
        Ok(AnswerReader::new(stream, &self.client.addr, Progress::none()))
    }

    /// Connects again, however long it takes. Fails if the node refuses the request.
    async fn reconnect(&self) -> anyhow::Result<AnswerReader> {
        let mut backoff = BACKOFF_MIN;
        loop {
            tokio::time::sleep(backoff).await;
            match self.open().await {
                Ok(reader) => return Ok(reader),
                Err(error) if error.downcast_ref::<Refusal>().is_some_and(Refusal::is_final) => return Err(error),
                Err(_) => backoff = (backoff * 2).min(BACKOFF_MAX),
            }
        }
    }
}
