//! Waits for a condition with a time limit.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Repeats `ask` every `every` until it returns a value.
///
/// # Errors
/// No value within `timeout`, with `what` in the message, or `ask` fails.
pub fn until<T>(
    what: &str,
    every: Duration,
    timeout: Duration,
    mut ask: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if started.elapsed() > timeout {
            bail!("{what}: not within {} s", timeout.as_secs());
        }
        std::thread::sleep(every);
    }
}
