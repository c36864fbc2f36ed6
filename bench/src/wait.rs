//! Waits for a condition with a time limit.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Repeats `ask` every `every` until it returns a value.
///
/// # Errors
/// No value within `most`, with `what` in the message, or `ask` fails.
pub(crate) fn until<T>(
    what: &str,
    every: Duration,
    most: Duration,
    mut ask: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if started.elapsed() > most {
            bail!("{what}: not within {} s", most.as_secs());
        }
        std::thread::sleep(every);
    }
}
