//! Waiting until every part of a body is as safe as was promised.

use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_ingest::Refusal;
use tokio::sync::Notify;

/// Counts what is not yet safe. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promise(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    broken: Option<Refusal>,
}

impl Promise {
    /// One more part; call what comes back when it is safe, or cannot be made so.
    pub(crate) fn part(&self) -> impl FnOnce(Result<(), Refusal>) + Send + 'static {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
        let inner = Arc::clone(&self.0);
        move |result| {
            let mut state = inner.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.open -= 1;
            if let Err(refusal) = result {
                state.broken.get_or_insert(refusal);
            }
            drop(state);
            inner.bell.notify_one();
        }
    }

    /// Takes back a part that was refused and will not be told of.
    pub(crate) fn take_back(&self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
    }

    /// Waits for all parts.
    pub(crate) async fn kept(&self) -> Result<(), Refusal> {
        loop {
            {
                let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.open == 0 {
                    return state.broken.clone().map_or(Ok(()), Err);
                }
            }
            self.0.bell.notified().await;
        }
    }
}
