//! Acknowledges chunks, in the order of their arrival.

use std::sync::Arc;

use bucksaw_ingest::IngestError;
use tokio::sync::mpsc;

use super::connection_end::FluentEnd;
use super::waiting_senders::WaitingSender;
use crate::intake::DurabilityWait;
use crate::listener_state::ListenerState;
use crate::socket::Socket;

/// Chunks without an acknowledgement above which a connection is not read from.
pub(super) const ACKS_MAX: usize = 64;

/// A chunk whose records are appended.
pub(super) struct PendingAck {
    pub(super) durability_wait: DurabilityWait,
    /// Whether the name of the chunk must be durable, so that a retry gets the same ids.
    pub(super) syncs_keys: bool,
    /// What the sender gets.
    pub(super) answer: Vec<u8>,
    /// Ends the wait of the sender.
    pub(super) _waiting: WaitingSender,
}

/// Sends an acknowledgement for each chunk once its records have their durability, until no chunk will follow.
pub(super) async fn write_acks(
    socket: &Socket,
    shared: &Arc<ListenerState>,
    mut pending: mpsc::Receiver<PendingAck>,
) -> FluentEnd {
    while let Some(ack) = pending.recv().await {
        if let Err(refusal) = ack.durability_wait.wait().await {
            return FluentEnd::Refused(refusal);
        }
        if ack.syncs_keys {
            let queue = Arc::clone(&shared.intake.queue);
            let synced = tokio::task::spawn_blocking(move || queue.sync_keys()).await;
            if let Err(refusal) = synced.unwrap_or_else(|error| Err(IngestError::Io(error.to_string()))) {
                return FluentEnd::Refused(refusal);
            }
        }
        if socket.write_all(&ack.answer).await.is_err() {
            return FluentEnd::Unreachable;
        }
    }
    FluentEnd::Closed
}
