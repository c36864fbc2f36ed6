//! Waits until every part of a body has the requested durability.

use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_ingest::IngestError;
use tokio::sync::Notify;

/// Counts the parts of a body that are not yet durable. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct DurabilityWait(Arc<DurabilityWaitState>);

#[derive(Debug, Default)]
struct DurabilityWaitState {
    pending: Mutex<PendingParts>,
    part_finished: Notify,
}

#[derive(Debug, Default)]
struct PendingParts {
    unfinished_parts: usize,
    first_error: Option<IngestError>,
}

impl DurabilityWait {
    /// Adds a part. The callback takes its result.
    pub(super) fn add_part(&self) -> impl FnOnce(Result<(), IngestError>) + Send + 'static {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner).unfinished_parts += 1;
        let inner = Arc::clone(&self.0);
        move |result| {
            let mut state = inner.pending.lock().unwrap_or_else(PoisonError::into_inner);
            state.unfinished_parts -= 1;
            if let Err(refusal) = result {
                state.first_error.get_or_insert(refusal);
            }
            drop(state);
            inner.part_finished.notify_one();
        }
    }

    /// Removes a part that was refused, whose callback is never called.
    pub(super) fn cancel_part(&self) {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner).unfinished_parts -= 1;
    }

    /// Waits for all parts. Returns the first error.
    pub(super) async fn wait(&self) -> Result<(), IngestError> {
        loop {
            {
                let state = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if state.unfinished_parts == 0 {
                    return state.first_error.clone().map_or(Ok(()), Err);
                }
            }
            self.0.part_finished.notified().await;
        }
    }
}
