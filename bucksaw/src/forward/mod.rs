//! `bucksaw forward`: ships standard input or files to a node.

mod args;
mod counted_input;
mod files;
mod line_args;
mod stop_signal;
mod stream;

use anyhow::Context as _;

pub(crate) use args::ForwardArgs;

use crate::exit::Exit;

pub(crate) fn run(args: &ForwardArgs) -> anyhow::Result<Exit> {
    let config = args.config()?;
    crate::log::start("info")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the network")?;
    let result = runtime.block_on(async {
        match args.paths.is_empty() {
            true => stream::run(config).await,
            false => files::run(args, config).await,
        }
    });
    // A read from a terminal may never return, and must not delay the exit.
    runtime.shutdown_background();
    result
}
