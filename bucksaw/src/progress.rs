//! Progress of long work, as one line on a terminal's standard error that is replaced as the work proceeds.
//!
//! Nothing is shown in the first second, or if standard error is no terminal. `indicatif` would add five crates for one
//! line with two escape sequences.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::print::{human_bytes, human_seconds};
use crate::terminal;

/// Time before a line is shown.
const QUIET: Duration = Duration::from_secs(1);

/// Interval between two lines.
const INTERVAL: Duration = Duration::from_millis(200);

/// The progress of one piece of work.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Names the work: `searching`. `None` shows nothing.
    verb: Option<&'static str>,
    started: Instant,
    shown_at: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// The progress of work named by this verb.
    pub(crate) fn new(verb: &'static str) -> Self {
        let verb = io::stderr().is_terminal().then_some(verb);
        Self { verb, started: Instant::now(), shown_at: None, is_shown: false }
    }

    /// No progress is shown.
    pub(crate) fn none() -> Self {
        Self { verb: None, started: Instant::now(), shown_at: None, is_shown: false }
    }

    /// Whether the line is due.
    pub(crate) fn is_due(&self) -> bool {
        self.verb.is_some() && self.wait().is_zero()
    }

    /// Waits until the line is due; for ever if nothing is shown. Cancel-safe.
    pub(crate) async fn tick(&self) {
        match self.verb {
            Some(_) => tokio::time::sleep(self.wait()).await,
            None => std::future::pending().await,
        }
    }

    /// Shows the progress of work without a measure while it is done.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.clear();
                    return done;
                }
                () = self.tick() => self.show(""),
            }
        }
    }

    /// Shows how much was found.
    pub(crate) fn show_found(&mut self, records: u64, bytes: u64) {
        let found = match (records, bytes) {
            (0, 0) => String::new(),
            (0, bytes) => format!(", {} found", human_bytes(bytes)),
            (1, _) => ", 1 record found".to_owned(),
            (records, _) => format!(", {records} records found"),
        };
        self.show(&found);
    }

    /// Shows the verb, the time since the start, and this text.
    pub(crate) fn show(&mut self, text: &str) {
        let Some(verb) = self.verb else { return };
        let line = format!("{verb} for {}{text}", human_seconds(self.started.elapsed().as_secs_f64()));
        // A line that wraps could not be removed.
        let width = terminal::columns(&io::stderr()).unwrap_or(80).saturating_sub(1);
        let line: String = line.chars().take(width).collect();
        // A closed standard error leaves no place to report it.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
        (self.shown_at, self.is_shown) = (Some(Instant::now()), true);
    }

    /// Removes the line, before something else is printed.
    pub(crate) fn clear(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
            self.is_shown = false;
        }
    }

    fn wait(&self) -> Duration {
        match self.shown_at {
            Some(shown_at) => INTERVAL.saturating_sub(shown_at.elapsed()),
            None => QUIET.saturating_sub(self.started.elapsed()),
        }
    }
}

/// Removes a line of progress, if one may be shown, before the process ends.
pub(crate) fn remove() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
