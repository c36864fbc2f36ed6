//! A secret that senders must know.

use std::fmt;
use std::sync::Arc;

/// The key that the listener and all senders share. Its debug form does not show it.
#[derive(Clone)]
pub struct SharedKey(Arc<[u8]>);

impl SharedKey {
    /// A key of any bytes.
    pub fn new(key: &[u8]) -> Self {
        Self(key.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey")
    }
}
