//! Waiting for something to become true, with an end.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Asks every so often until there is an answer.
///
/// # Errors
/// When it takes longer than `most`, naming `what` was waited for, or the question fails.
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
