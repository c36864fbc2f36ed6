//! Waits until every part of a request has the requested durability.

use std::sync::{Arc, Mutex};

use bucksaw_env::lock;
use bucksaw_ingest::IngestError;
use tokio::sync::Notify;

/// Counts the parts of a request that are not yet durable. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DurabilityWait(Arc<DurabilityWaitState>);

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
        lock(&self.0.pending).unfinished_parts += 1;
        let inner = Arc::clone(&self.0);
        move |result| {
            let mut state = lock(&inner.pending);
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
        lock(&self.0.pending).unfinished_parts -= 1;
    }

    /// Waits for all parts. Returns the first error.
    ///
    /// # Errors
    /// The first [`IngestError`] of a part.
    pub async fn wait(&self) -> Result<(), IngestError> {
        loop {
            {
                let state = lock(&self.0.pending);
                if state.unfinished_parts == 0 {
                    return state.first_error.clone().map_or(Ok(()), Err);
                }
            }
            self.0.part_finished.notified().await;
        }
    }
}
