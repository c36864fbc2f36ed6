//! `bucksaw tail`: shows matching records as they are accepted.

use anyhow::bail;

use crate::args::{Format, TailArgs};
use crate::exit::Exit;
use crate::query::Stop;
use crate::{expression, interrupt, node, query};

pub(crate) fn run(args: TailArgs) -> anyhow::Result<Exit> {
    let filter = args.filter;
    let expr = expression::build(&filter)?;
    if filter.max_count == Some(0) {
        return Ok(Exit::Failed);
    }
    interrupt::exit_on_interrupt()?;
    node::runtime()?.block_on(async {
        // Records can only be counted where it is certain where each ends.
        let raw = filter.output == Format::Raw && filter.max_count.is_none();
        let parameters = [("q", expr.as_str()), ("format", if raw { "raw" } else { "json" })];
        let stream = node::stream(&filter.addr, &node::path("/api/v1/tail", &parameters)).await?;
        let printed = query::print(stream, &filter, Stop::AtLimit).await?;
        if printed.stats.is_none() && !printed.full {
            bail!("{} ended the connection: it may have been stopped; see 'bucksaw status'", filter.addr);
        }
        Ok(Exit::found(printed.any))
    })
}
