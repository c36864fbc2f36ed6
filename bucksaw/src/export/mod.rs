//! `bucksaw export`: copies the records of a time range to a file, as NDJSON or Parquet.
//!
//! Records are requested in pages, in the order of their ids. A page counts only if its answer is complete. After each page the
//! file is synced, and a small file beside it says how far it is ([`PartFile`]), so an export that was interrupted goes on when
//! the command is repeated, and has each record once.

mod format;
mod parquet_file;
mod part_file;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bucksaw_env::{Clock, real};
use bucksaw_record::{Millis, time};
use clap::Args;

use crate::answer::{AnswerItem, AnswerReader, AnswerStats, NodeRecord};
use crate::args::{DisplayArgs, NodeArgs, PatternArgs, WindowArgs};
use crate::exit::Exit;
use crate::expression::RecordRules;
use crate::failure::{UsageError, print_error};
use crate::interrupt;
use crate::node_client::{self, ConnectionLost, NodeClient, Refusal};
use crate::print::Out;
use crate::progress::Progress;
use crate::values::page_count;
use format::ExportFormat;
use part_file::{PartFile, Question};

/// How long a page is requested again before the export fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// The delay before a page is requested again, if the node names none.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay that a node may request.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Export the records of a time range to a file
///
/// Without an expression every record is exported. The file appears under its name when it is complete. After an interruption,
/// repeat the command: it goes on where it was, and each record is in the file once. Records that are accepted while it runs may
/// be missing if they are older than what was already written.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pattern: PatternArgs,

    #[command(flatten)]
    window: WindowArgs,

    /// Format of the file
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "ndjson")]
    format: ExportFormat,

    /// File to write, which must not exist; standard output without it
    #[arg(short = 'o', long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Go on if records may be missing from an answer, and say so
    #[arg(long)]
    allow_partial: bool,

    /// Records per request
    #[arg(long, value_name = "N", default_value = "100000", value_parser = page_count)]
    page_records: u64,

    #[command(flatten)]
    display: DisplayArgs,

    #[command(flatten)]
    node: NodeArgs,
}

impl ExportArgs {
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> crate::layers::Layer) -> Result<(), UsageError> {
        self.pattern.apply_layers(&layer)?;
        self.window.apply_layers(&layer)?;
        self.display.apply_layers(&layer)
    }
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<Exit> {
    if args.format == ExportFormat::Parquet && args.file.is_none() {
        return Err(UsageError("Parquet needs a file: add -o FILE".to_owned()).into());
    }
    let expression = RecordRules::build(&args.pattern)?.spelling;
    let now = Millis(real::Clock::default().unix_ms());
    let zone = args.display.zone();
    // Fails if the range ends before it begins.
    args.window.parameters(now, &zone)?;
    let begin = args.window.from.as_deref().unwrap_or(&args.window.since);
    let end = args.window.to.as_deref().unwrap_or("now");
    let question = Question {
        expression,
        begin: begin.to_owned(),
        end: end.to_owned(),
        from: time::format_rfc3339(zone.parse(begin, now)?, 0),
        to: time::format_rfc3339(zone.parse(end, now)?, 0),
    };
    let mut output = match &args.file {
        Some(path) => Output::File(Box::new(PartFile::open(path, args.format, question.clone())?)),
        None => Output::Standard { out: Out::stdout()?, question },
    };
    interrupt::exit_on_interrupt()?;
    let client = NodeClient::new(&args.node)?;
    let mut progress = Progress::new("exporting");
    let exit = node_client::runtime()?.block_on(export(args, &client, &mut output, &mut progress))?;
    if exit == Exit::Done {
        progress.clear();
        output.finish(&mut Progress::new("writing Parquet"))?;
    }
    Ok(exit)
}

/// Where the records go.
enum Output {
    Standard { out: Out, question: Question },
    File(Box<PartFile>),
}

impl Output {
    fn question(&self) -> &Question {
        match self {
            Self::Standard { question, .. } => question,
            Self::File(file) => file.question(),
        }
    }

    /// The last record of a page that was interrupted earlier, and the number of records up to it.
    fn position(&self) -> (Option<String>, u64) {
        match self {
            Self::Standard { .. } => (None, 0),
            Self::File(file) => file.position(),
        }
    }

    fn write(&mut self, object: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Standard { out, .. } => {
                out.write_json(object)?;
                out.write(b"\n")
            }
            Self::File(file) => file.write(object),
        }
    }

    /// Ends a page.
    fn commit(&mut self, last: &str, records: u64) -> anyhow::Result<()> {
        match self {
            Self::Standard { out, .. } => out.flush(),
            Self::File(file) => file.commit(last, records),
        }
    }

    /// Removes the page that was begun; `false` if that is not possible.
    fn roll_back(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Standard { .. } => Ok(false),
            Self::File(file) => file.roll_back().map(|()| true),
        }
    }

    fn finish(self, progress: &mut Progress) -> anyhow::Result<()> {
        match self {
            Self::Standard { mut out, .. } => out.flush(),
            Self::File(file) => file.finish(progress),
        }
    }
}

/// What a page had.
struct Page {
    records: u64,
    /// The id of its last record.
    last: Option<String>,
    stats: AnswerStats,
}

async fn export(
    args: &ExportArgs,
    client: &NodeClient,
    output: &mut Output,
    progress: &mut Progress,
) -> anyhow::Result<Exit> {
    let (mut after, mut exported) = output.position();
    if exported > 0 {
        print_error(&format!("going on after the {exported} records that an earlier run exported"));
    }
    let mut has_succeeded = false;
    let mut failing_since: Option<Instant> = None;
    let mut is_partial_reported = false;
    loop {
        let page = match page(args, &client.renewed(), output, after.as_deref(), exported, progress).await {
            Ok(page) => page,
            Err(error) => {
                progress.clear();
                let refusal = error.downcast_ref::<Refusal>();
                let may_pass = match refusal {
                    Some(refusal) => !refusal.is_final(),
                    None => has_succeeded || error.is::<ConnectionLost>(),
                };
                let since = *failing_since.get_or_insert_with(Instant::now);
                if !output.roll_back()? || !may_pass || since.elapsed() > GIVE_UP_AFTER {
                    return Err(error);
                }
                let delay = refusal.and_then(|refusal| refusal.retry_after).unwrap_or(RETRY_DELAY);
                print_error(&format!("{error:#}: trying again for {} s", GIVE_UP_AFTER.as_secs()));
                tokio::time::sleep(delay.min(RETRY_DELAY_MAX)).await;
                continue;
            }
        };
        (has_succeeded, failing_since) = (true, None);
        if page.stats.is_partial() {
            progress.clear();
            if !args.allow_partial {
                page.stats.print_partial();
                let advice = match output.roll_back()? {
                    true => "the file is not complete: repeat the command to go on, or add --allow-partial",
                    false => "the output is not complete: try again, or add --allow-partial",
                };
                print_error(advice);
                return Ok(Exit::Trouble);
            }
            if !is_partial_reported {
                page.stats.print_partial();
                is_partial_reported = true;
            }
        }
        exported += page.records;
        let Some(last) = page.last else { return Ok(Exit::Done) };
        output.commit(&last, exported)?;
        if page.records < args.page_records {
            return Ok(Exit::Done);
        }
        after = Some(last);
    }
}

/// Writes the records of one page.
async fn page(
    args: &ExportArgs,
    client: &NodeClient,
    output: &mut Output,
    after: Option<&str>,
    exported: u64,
    progress: &mut Progress,
) -> anyhow::Result<Page> {
    let Question { expression, from, to, .. } = output.question();
    let mut parameters = vec![("q", expression.clone()), ("from", from.clone()), ("to", to.clone())];
    parameters.extend([("order", "asc".to_owned()), ("format", "json".to_owned())]);
    parameters.push(("limit", args.page_records.to_string()));
    parameters.extend(after.map(|id| ("after", id.to_owned())));
    let path = node_client::path("/api/v1/query", &parameters);
    let stream = progress.during(client.open_answer(&path)).await?;
    let mut reader = AnswerReader::new(stream, &client.addr, Progress::none());
    let (mut records, mut last) = (0, Vec::new());
    loop {
        match reader.next(|| Ok(())).await? {
            Some(AnswerItem::Object(object)) => {
                output.write(&object)?;
                records += 1;
                last.clear();
                last.extend_from_slice(&object);
                if progress.is_due() {
                    let at = NodeRecord::parse(&object)?.time.into_owned();
                    progress.show(&format!(", {} records, up to {at}", exported + records));
                }
            }
            Some(AnswerItem::Raw(_) | AnswerItem::Notice(_)) => {}
            Some(AnswerItem::Stats(stats)) => {
                let last = if records > 0 { Some(NodeRecord::parse(&last)?.id()?.to_string()) } else { None };
                return Ok(Page { records, last, stats });
            }
            None => {
                return Err(ConnectionLost(format!("the answer of {} ended early", client.addr)).into());
            }
        }
    }
}
