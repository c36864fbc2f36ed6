//! The log of `serve` and `forward`, on standard error.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::print::Colour;

/// Starts the log at a level, coloured on a terminal unless `NO_COLOR` is set.
pub(crate) fn start(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).with_context(|| format!("--log-level {level} is not a level"))?;
    let colour = Colour::of(&io::stderr()) == Colour::On;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LogWriter)
        .with_ansi(colour)
        .with_target(false)
        .init();
    Ok(())
}

/// Standard error. On a terminal it removes a line of progress first.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if stderr.is_terminal() {
            stderr.write_all(b"\r\x1b[K")?;
        }
        stderr.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
