//! `bucksaw tail`: shows matching records as they are accepted.

use anyhow::bail;

use crate::args::{OutputFormat, TailArgs};
use crate::exit::Exit;
use crate::query::StopWhen;
use crate::{expression, interrupt, node_client, query};

pub(crate) fn run(args: TailArgs) -> anyhow::Result<Exit> {
    let filter = args.filter;
    let expr = expression::build(&filter)?;
    if filter.max_count == Some(0) {
        return Ok(Exit::Failed);
    }
    interrupt::exit_on_interrupt()?;
    node_client::runtime()?.block_on(async {
        // Raw records cannot be counted, because a line end may be part of one.
        let raw = filter.output == OutputFormat::Raw && filter.max_count.is_none();
        let parameters = [("q", expr.as_str()), ("format", if raw { "raw" } else { "json" })];
        let stream = node_client::open_stream(&filter.addr, &node_client::path("/api/v1/tail", &parameters)).await?;
        let printed = query::print(stream, &filter, StopWhen::AtLimit).await?;
        if printed.stats.is_none() && !printed.full {
            bail!("{} ended the connection: it may have been stopped; see 'bucksaw status'", filter.addr);
        }
        Ok(Exit::found(printed.any))
    })
}
