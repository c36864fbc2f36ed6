//! The log of `serve` and `forward`, on standard error.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Starts the log at a level, coloured on a terminal unless `NO_COLOR` is set.
pub(crate) fn start(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).with_context(|| format!("--log-level {level} is not a level"))?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .init();
    Ok(())
}
