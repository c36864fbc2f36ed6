//! Makes idempotency keys durable, many by one sync: while one is under way, further batches wait for the next.

use std::sync::Arc;

use bucksaw_ingest::Queue;
use tokio::sync::Mutex;

use super::body_error::{BodyError, BodyErrorReason};

/// Lets one request at a time sync the keys. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySync(Arc<Mutex<()>>);

impl KeySync {
    /// Resolves when all keys that are remembered now are durable.
    ///
    /// # Errors
    /// The error of the sync.
    pub(super) async fn wait_synced(&self, queue: &Arc<Queue>) -> Result<(), BodyError> {
        let written = queue.keys_written();
        let _turn = self.0.lock().await;
        if queue.keys_synced() >= written {
            return Ok(());
        }
        let queue = Arc::clone(queue);
        let synced = tokio::task::spawn_blocking(move || queue.sync_keys()).await;
        Ok(synced.map_err(|_| BodyErrorReason::Internal)??)
    }
}
