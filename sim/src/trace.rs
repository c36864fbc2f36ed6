//! The log of a run, with simulated time and node.

use std::cell::RefCell;
use std::fmt;

use bucksaw_env::sim::{Observer, World};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::util::TryInitError;
use tracing_subscriber::{EnvFilter, util::SubscriberInitExt as _};

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Logs on this thread have the time of a world until this is dropped.
pub(crate) struct TraceGuard;

pub(crate) fn attach(world: &World) -> TraceGuard {
    OBSERVER.set(Some(world.observer()));
    TraceGuard
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        OBSERVER.take();
    }
}

/// Prefixes each line with simulated time and node name.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let moment = OBSERVER.with_borrow(|observer| observer.as_ref().and_then(Observer::time_and_running_host));
        let (time, name) = moment.unwrap_or_default();
        write!(writer, "{:>12.6} {:<3}", time.as_secs_f64(), name.as_deref().unwrap_or("-"))
    }
}

/// Writes the log to standard error, filtered as by `RUST_LOG`.
///
/// # Errors
/// If the process already has a logger.
pub fn log_to_stderr(filter: &str) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt().with_timer(SimulatedTime).with_ansi(false).with_writer(std::io::stderr);
    lines.with_env_filter(EnvFilter::new(filter)).finish().try_init()
}
