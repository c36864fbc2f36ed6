//! What nodes say in their logs, with the time of their world and who says it.

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

/// Takes the moments from a world, on this thread, until this is dropped.
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

/// Puts the world's time and the node's name before each line.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let moment = OBSERVER.with_borrow(|watched| watched.as_ref().and_then(Observer::time_and_running_host));
        let (time, name) = moment.unwrap_or_default();
        write!(writer, "{:>12.6} {:<3}", time.as_secs_f64(), name.as_deref().unwrap_or("-"))
    }
}

/// Writes what is logged to standard error from now on: what `filter` lets through, as `RUST_LOG` says it.
///
/// # Errors
/// When somebody else takes the log already.
pub fn log_to_stderr(filter: &str) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt().with_timer(SimulatedTime).with_ansi(false).with_writer(std::io::stderr);
    lines.with_env_filter(EnvFilter::new(filter)).finish().try_init()
}
