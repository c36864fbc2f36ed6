//! The signals that stop a node.

use anyhow::Context as _;
use bucksaw_node::NodeTasks;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use crate::exit::Exit;

/// SIGINT and SIGTERM. They are caught before the node reports itself ready, so none is missed.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn install(runtime: &Runtime) -> anyhow::Result<Self> {
        let _entered = runtime.enter();
        let caught = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { interrupt: caught(SignalKind::interrupt())?, terminate: caught(SignalKind::terminate())? })
    }

    /// Waits for a signal and returns its name, or `None` if a task of the node has ended because of a bug. A second
    /// signal ends the process at once.
    pub(super) async fn wait_for_stop(mut self, tasks: &mut NodeTasks) -> Option<&'static str> {
        let reason = tokio::select! {
            reason = self.next() => Some(reason),
            () = tasks.ended() => None,
        };
        tokio::spawn(async move {
            self.next().await;
            warn!("stopped immediately by a second signal; the next start recovers the open segments");
            Exit::Interrupted.exit_now();
        });
        reason
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "asked to terminate",
        }
    }
}
