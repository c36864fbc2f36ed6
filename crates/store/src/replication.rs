//! The segment store with what it needs to exchange replicas with other stores.

use std::sync::Arc;

use crate::segment_store::SegmentStore;
use crate::store_context::StoreContext;

/// Receives replicas, reports held ids, and repairs ([`Repair`](crate::repair::Repair)). It holds the segment store and not
/// a [`Store`](crate::Store), because it sends, compares and verifies files. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replication {
    /// What all parts of the store tier have in common.
    pub context: StoreContext,
    /// The store, which is also that of `context`.
    pub store: Arc<SegmentStore>,
}
