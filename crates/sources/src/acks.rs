//! Acknowledges the batches of a connection in order.
//!
//! Batches become durable in any order and on any thread. An acknowledgement states how many are durable from the start without
//! a gap, so one may cover many. At most [`Config::unacked_frames_max`](crate::Config) batches are unacknowledged, which bounds
//! the memory of the tracker.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use bucksaw_env::lock;
use bucksaw_ingest::IngestError;
use bucksaw_wire::ServerMessage;
use tokio::sync::Notify;

use crate::socket::Socket;

/// Bytes of unacknowledged batches above which a connection is not read from.
const UNACKED_BYTES_MAX: usize = 32 << 20;

/// The batches of one connection.
#[derive(Default)]
pub(crate) struct AckTracker {
    state: Mutex<AckState>,
    /// Notifies the writer of something to send.
    changed: Notify,
    /// Notifies the reader that a batch is finished.
    batch_done: Notify,
}

#[derive(Default)]
struct AckState {
    started: u64,
    /// Durable batches from the start without a gap.
    acked: u64,
    /// Durable batches behind a gap.
    acked_out_of_order: BTreeSet<u64>,
    /// Bytes of batches that are not durable.
    unacked_bytes: usize,
    failed: Option<String>,
    /// Other messages to send.
    queued_messages: Vec<ServerMessage>,
    /// Whether no batch will follow.
    ended: bool,
}

impl AckTracker {
    fn state(&self) -> MutexGuard<'_, AckState> {
        lock(&self.state)
    }

    /// Records the next batch and returns its number.
    pub(crate) fn start_batch(&self, bytes: usize) -> u64 {
        let mut inner = self.state();
        inner.started += 1;
        inner.unacked_bytes += bytes;
        inner.started - 1
    }

    /// The callback for the result of a batch.
    pub(crate) fn on_durable(
        self: &Arc<Self>,
        number: u64,
        bytes: usize,
    ) -> impl FnOnce(Result<(), IngestError>) + Send + 'static {
        let acks = Arc::clone(self);
        move |result| {
            match result {
                Ok(()) => acks.state().record_acked(number, bytes),
                Err(refusal) => drop(acks.state().failed.get_or_insert(refusal.to_string())),
            }
            acks.changed.notify_one();
            acks.batch_done.notify_one();
        }
    }

    /// Waits until another batch may be read. One is always allowed, whatever its size.
    pub(crate) async fn wait_for_capacity(&self, frames_max: u64) {
        loop {
            let batch_done = self.batch_done.notified();
            {
                let inner = self.state();
                let open = inner.started - inner.acked;
                if open == 0 || (open < frames_max && inner.unacked_bytes < UNACKED_BYTES_MAX) {
                    return;
                }
            }
            batch_done.await;
        }
    }

    /// Sends another message to the client.
    pub(crate) fn queue_message(&self, message: ServerMessage) {
        self.state().queued_messages.push(message);
        self.changed.notify_one();
    }

    /// Records that no batch will follow.
    pub(crate) fn end_input(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// Durable batches from the start without a gap.
    pub(crate) fn acked(&self) -> u64 {
        self.state().acked
    }

    /// Sends acknowledgements until all batches are durable and none will follow, or one failed; returns the reason then.
    pub(crate) async fn send_acks(&self, socket: &Socket) -> io::Result<Option<String>> {
        let mut sent = 0;
        loop {
            let changed = self.changed.notified();
            let (acked, failed, is_done, messages) = {
                let mut inner = self.state();
                let is_done = inner.ended && inner.acked == inner.started;
                (inner.acked, inner.failed.clone(), is_done, std::mem::take(&mut inner.queued_messages))
            };
            for message in messages {
                socket.write_all(&message.encode()).await?;
            }
            if acked > sent {
                socket.write_all(&ServerMessage::Acked(acked).encode()).await?;
                sent = acked;
            }
            if failed.is_some() || is_done {
                return Ok(failed);
            }
            changed.await;
        }
    }
}

impl AckState {
    fn record_acked(&mut self, number: u64, bytes: usize) {
        self.unacked_bytes = self.unacked_bytes.saturating_sub(bytes);
        self.acked_out_of_order.insert(number);
        while self.acked_out_of_order.remove(&self.acked) {
            self.acked += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_batches_without_a_gap_before_them_are_acked() {
        let acks = Arc::new(AckTracker::default());
        let mut done: Vec<_> = (0..4).map(|_| Some(acks.on_durable(acks.start_batch(10), 10))).collect();
        let mut check = |number: usize, want_acked: u64, want_unacked: usize| {
            done[number].take().unwrap()(Ok(()));
            assert_eq!((acks.acked(), acks.state().unacked_bytes), (want_acked, want_unacked));
        };
        check(1, 0, 30);
        check(0, 2, 20);
        check(3, 2, 10);
        check(2, 4, 0);
    }
}
