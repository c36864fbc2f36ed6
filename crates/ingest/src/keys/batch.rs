//! A batch with an idempotency key, while it arrives.

use bucksaw_record::{Millis, Producer, key_time};
use twox_hash::XxHash3_64;

use crate::scoped_ids::ScopedIds;

/// A batch with an idempotency key, while it arrives.
#[derive(Clone, Debug)]
pub struct IdempotentBatch {
    pub(super) key: u64,
    pub(super) key_time: Option<Millis>,
    /// A hash of the key, the context, and all sections that have ids.
    pub(super) content_hash: u64,
    /// The number of sections that have ids.
    pub(super) section_count: u32,
    pub(super) base_time: Option<Millis>,
    pub(super) last_producer: Producer,
    /// Of a client with a label scope.
    pub(super) scoped_ids: Option<ScopedIds>,
}

impl IdempotentBatch {
    /// A batch with this key. `context` is what its records depend on beside the body: the stream and the content type.
    pub fn new(key: &[u8], context: &[u8]) -> Self {
        let hash = XxHash3_64::oneshot(key);
        Self {
            key: hash,
            key_time: key_time(key),
            content_hash: XxHash3_64::oneshot_with_seed(hash, context),
            section_count: 0,
            base_time: None,
            last_producer: Producer::new(0),
            scoped_ids: None,
        }
    }

    /// Makes it a batch of a client with a label scope: the same key of a client with another scope is another key. Has an
    /// effect once, before the first section has ids.
    pub fn set_scope(&mut self, ids: &ScopedIds) {
        if self.section_count == 0 && self.scoped_ids.is_none() {
            self.key = ids.key(self.key);
            self.scoped_ids = Some(ids.clone());
        }
    }

    /// The same batch with this time instead of one by its key: a retry gets the same ids at every node and on every day.
    #[must_use]
    pub fn with_time(self, at: Millis) -> Self {
        Self { key_time: Some(at), base_time: Some(at), ..self }
    }

    /// A hash of the key.
    pub fn key_hash(&self) -> u64 {
        self.key
    }

    /// The time of the batch; known when its first section has ids.
    pub fn base_time(&self) -> Option<Millis> {
        self.base_time
    }

    /// Whether a retry gets the same ids only from this node, because the time is not that of the key.
    pub fn depends_on_remembered_key(&self) -> bool {
        self.base_time.is_some() && self.base_time != self.key_time
    }

    pub(super) fn hash_with(&self, section: &[&[u8]]) -> u64 {
        let with = |seed, part: &&[u8]| {
            XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(seed, &(part.len() as u64).to_le_bytes()), part)
        };
        section.iter().fold(self.content_hash, with)
    }
}
