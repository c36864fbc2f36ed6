//! `bucksaw forward`: ships standard input or files to a node.

mod args;
mod counted_input;
mod files;
mod rate_line;
mod status_listener;
mod stop_signal;
mod stream;

use anyhow::Context as _;

pub(crate) use args::ForwardArgs;
use bucksaw_forward::AgentInfo;

use crate::exit::Exit;

/// The name of this machine.
fn host_name() -> String {
    String::from_utf8_lossy(rustix::system::uname().nodename().to_bytes()).into_owned()
}

/// What this agent tells about itself.
fn info() -> AgentInfo {
    AgentInfo { host: host_name(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

pub(crate) fn run(args: &ForwardArgs) -> anyhow::Result<Exit> {
    let config = args.config()?;
    crate::log::start("info")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the network")?;
    let result = runtime.block_on(async {
        match args.paths.is_empty() {
            true => stream::run(args, config).await,
            false => files::run(args, config).await,
        }
    });
    // A read from a terminal may never return, and must not delay the exit.
    runtime.shutdown_background();
    result
}
