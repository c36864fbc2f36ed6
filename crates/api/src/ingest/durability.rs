//! Waiting until every part of a body is as safe as was promised.

use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_ingest::IngestError;
use tokio::sync::Notify;

/// Counts what is not yet safe. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurabilityWait(Arc<DurabilityWaitState>);

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
    /// One more part; call what comes back when it is safe, or cannot be made so.
    pub(crate) fn add_part(&self) -> impl FnOnce(Result<(), IngestError>) + Send + 'static {
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

    /// Takes back a part that was refused and will not be told of.
    pub(crate) fn cancel_part(&self) {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner).unfinished_parts -= 1;
    }

    /// Waits for all parts.
    pub(crate) async fn wait(&self) -> Result<(), IngestError> {
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
