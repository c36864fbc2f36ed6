//! Making the keys of batches durable, many at once: while one sync is under way the next batches gather behind it.

use std::sync::Arc;

use bucksaw_ingest::Queue;
use tokio::sync::Mutex;

use crate::error::ApiError;

/// The turns at syncing. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySync(Arc<Mutex<()>>);

impl KeySync {
    /// Resolves when all keys that are remembered now are durable.
    pub(crate) async fn wait_synced(&self, queue: &Arc<Queue>) -> Result<(), ApiError> {
        let written = queue.keys_written();
        let _turn = self.0.lock().await;
        if queue.keys_synced() >= written {
            return Ok(());
        }
        let queue = Arc::clone(queue);
        let synced = tokio::task::spawn_blocking(move || queue.sync_keys()).await;
        Ok(synced.map_err(|_| ApiError::internal())??)
    }
}
