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

/// Why a node stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeStopReason {
    Interrupt,
    Terminate,
    /// A task of the node ended by a bug.
    TaskEnded,
}

impl NodeStopReason {
    /// The reason as the log names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupted",
            Self::Terminate => "asked to terminate",
            Self::TaskEnded => "a part of the node failed",
        }
    }
}

impl Signals {
    pub(super) fn install(runtime: &Runtime) -> anyhow::Result<Self> {
        let _entered = runtime.enter();
        let caught = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { interrupt: caught(SignalKind::interrupt())?, terminate: caught(SignalKind::terminate())? })
    }

    /// Waits for a signal or the end of a task. A second signal ends the process at once.
    pub(super) async fn wait_for_stop(mut self, tasks: &mut NodeTasks) -> NodeStopReason {
        let reason = tokio::select! {
            reason = self.next() => reason,
            () = tasks.ended() => NodeStopReason::TaskEnded,
        };
        tokio::spawn(async move {
            self.next().await;
            warn!("stopped immediately by a second signal; the next start recovers the open segments");
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        reason
    }

    async fn next(&mut self) -> NodeStopReason {
        tokio::select! {
            _ = self.interrupt.recv() => NodeStopReason::Interrupt,
            _ = self.terminate.recv() => NodeStopReason::Terminate,
        }
    }
}
