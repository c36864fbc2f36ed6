//! Waits for the stop.

use tokio::sync::watch;

/// Resolves when `stop` is true or its sender is dropped.
pub(crate) async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
