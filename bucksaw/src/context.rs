//! `bucksaw context`: the records around one, in its stream.

use bucksaw_record::Id;
use clap::Args;

use crate::answer::{NodeRecord, RecordContext, context_path};
use crate::args::{DisplayArgs, NodeArgs, OutputFormat};
use crate::exit::Exit;
use crate::interrupt;
use crate::node_client::{self, NodeClient};
use crate::print::{Out, RecordPrefix, RecordPrinter, RecordStyle};
use crate::values::context_count;

/// Show the records around one, in its stream
///
/// `bucksaw query -o '{id} {line}'` prints ids. The record itself is marked with `>`, except in raw and json. Exits as
/// query does.
#[derive(Clone, Debug, Args)]
pub(crate) struct ContextArgs {
    /// Id of the record
    #[arg(value_name = "ID")]
    id: Id,

    /// Number of records after it
    #[arg(short = 'A', long, value_name = "N", value_parser = context_count)]
    after_context: Option<u64>,

    /// Number of records before it
    #[arg(short = 'B', long, value_name = "N", value_parser = context_count)]
    before_context: Option<u64>,

    /// Number of records before and after it
    #[arg(short = 'C', long, alias = "context", value_name = "N", default_value = "10", value_parser = context_count)]
    context_records: u64,

    /// Exit with 0 or 1 even if records may be missing from the answer
    #[arg(long)]
    allow_partial: bool,

    /// Output format: raw (the bytes as received), text (time, labels, line), json (the answer of the node), or a template
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &ContextArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let (before, after) =
        (args.before_context.unwrap_or(args.context_records), args.after_context.unwrap_or(args.context_records));
    let path = context_path(&args.id.to_string(), before, after);
    let answer = node_client::runtime()?.block_on(async { NodeClient::new(&args.node)?.get(&path).await })?;
    let context = RecordContext::parse(&answer)?;
    let mut out = Out::coloured(args.display.color)?;
    if args.output == OutputFormat::Json {
        out.write_json(answer.trim_ascii_end())?;
        out.write(b"\n")?;
        out.flush()?;
    } else {
        let prefix = if args.output == OutputFormat::Raw { RecordPrefix::None } else { RecordPrefix::Mark };
        let style = RecordStyle { format: args.output.clone(), zone: args.display.zone(), highlighter: None, prefix };
        let mut printer = RecordPrinter::new(out, style);
        for object in &context.records {
            match NodeRecord::parse(object)?.id()? == args.id {
                true => printer.matched(object)?,
                false => printer.context(object, false)?,
            }
        }
        printer.finish()?;
    }
    Ok(context.stats.settle(!context.records.is_empty(), args.allow_partial))
}
