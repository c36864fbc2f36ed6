//! The store of an agent: an agent keeps records only until a node has them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_ingest::{FetchThreshold, Queue};
use bucksaw_record::{Id, Millis};
use bucksaw_store::{BlockSelector, Foreground, Selection, Store, StoreBatch, StoreError, StoreStatus, StoredBatch};

/// Stores and finds nothing. The HTTP surface of a node wants a store.
#[derive(Debug)]
pub(super) struct NoStore(Arc<Foreground>);

impl NoStore {
    pub(super) fn new(env: &Env) -> Self {
        Self(Foreground::new(Arc::clone(&env.clock)))
    }
}

impl Store for NoStore {
    fn fetch_threshold(&self) -> FetchThreshold {
        FetchThreshold { text_bytes_min: u64::MAX, age_min: Duration::MAX }
    }

    fn batch_bytes_max(&self) -> u64 {
        1
    }

    fn append(&self, _batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError> {
        Err(StoreError::Stopped)
    }

    fn select(&self, _filter: &BlockSelector<'_>, _queued: &mut HashSet<Id>) -> Selection {
        Selection::default()
    }

    fn answers_since(&self) -> Option<Millis> {
        None
    }

    fn retain(&self, _queue: &Queue) {}

    fn maintain(&self, _queue: &Queue, _is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn foreground(&self) -> &Arc<Foreground> {
        &self.0
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::default()
    }
}
