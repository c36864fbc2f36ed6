//! `bucksaw query`: searches the records of a time range.

mod around;
mod query_run;
mod streams;

use bucksaw_env::{Clock, real};
use bucksaw_record::Millis;

use crate::args::QueryArgs;
use crate::exit::Exit;
use crate::expression::RecordRules;
use crate::interrupt;
use crate::node_client::{self, NodeClient};
use query_run::QueryRun;

pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<Exit> {
    let selection = RecordRules::build(&args.pattern)?;
    let mut parameters = vec![("q", selection.spelling.clone())];
    parameters.extend(args.window.parameters(Millis(real::Clock::default().unix_ms()), &args.display.zone())?);
    interrupt::exit_on_interrupt()?;
    node_client::runtime()?.block_on(async {
        let search = QueryRun { args, selection, parameters, client: NodeClient::new(&args.node)? };
        if args.max_count == Some(0) && !args.count {
            return Ok(Exit::Failed);
        }
        // As in grep, each of these takes precedence over a context.
        match (args.quiet, args.streams_with_matches, args.count, args.context_sizes()) {
            (true, ..) => search.quiet().await,
            (_, true, ..) => streams::run(&search).await,
            (_, _, true, _) => search.count().await,
            (.., Some(sides)) => around::run(&search, sides).await,
            (.., None) => search.records().await,
        }
    })
}
