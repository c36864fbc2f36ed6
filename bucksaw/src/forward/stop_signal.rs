//! The signals that stop an agent.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Becomes true at SIGINT or SIGTERM.
pub(super) struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// Catches the signals from now on.
    pub(super) fn catch() -> anyhow::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot catch signals")?;
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stop.send_replace(true);
            // A dropped sender is a stop too.
            stop.closed().await;
        });
        Ok(Self(stopping))
    }

    pub(super) fn receiver(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    pub(super) fn is_received(&self) -> bool {
        *self.0.borrow()
    }
}
