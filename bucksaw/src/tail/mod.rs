//! `bucksaw tail`: shows matching records as they are accepted.

mod follower;
mod shown_records;

use bucksaw_env::{Clock, real};
use bucksaw_record::Millis;

use crate::args::TailArgs;
use crate::exit::Exit;
use crate::expression::RecordRules;
use crate::print::{Out, RecordPrefix, RecordPrinter, RecordStyle};
use crate::{args, interrupt, node_client};
use follower::{Follower, TailHistory};

/// The range of `-n` without `--since`.
const HISTORY: &str = "1h";

pub(crate) fn run(args: &TailArgs) -> anyhow::Result<Exit> {
    let selection = RecordRules::build(&args.pattern)?;
    let zone = args.display.zone();
    let history = match (&args.since, args.lines) {
        (None, None) | (_, Some(0)) => None,
        (since, lines) => {
            let now = Millis(real::Clock::default().unix_ms());
            let from = args::time_parameter(since.as_deref().unwrap_or(HISTORY), now, &zone)?;
            Some(TailHistory { from, lines })
        }
    };
    if args.max_count == Some(0) {
        return Ok(Exit::Failed);
    }
    let style = RecordStyle {
        format: args.output.clone(),
        zone,
        highlighter: selection.highlighter(),
        prefix: RecordPrefix::None,
    };
    let printer = RecordPrinter::new(Out::coloured(args.display.color)?, style);
    interrupt::exit_on_interrupt()?;
    node_client::runtime()?.block_on(async {
        let follower = Follower::new(args, selection.spelling, printer)?;
        follower.run(history).await
    })
}
