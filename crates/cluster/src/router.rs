//! Who answers which call.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use bucksaw_doors::{Body, Waiting};

/// Answers the calls of one name.
pub trait Handler: Send + Sync {
    /// Answers one call. An error is told to the caller in words; `Unsupported` means that there is no such call.
    fn answer(&self, body: Body) -> Waiting<io::Result<Body>>;
}

impl<F: Fn(Body) -> W + Send + Sync, W: Future<Output = io::Result<Body>> + Send + 'static> Handler for F {
    fn answer(&self, body: Body) -> Waiting<io::Result<Body>> {
        Box::pin(self(body))
    }
}

/// The calls that a node answers. Cheap to clone; clones share what was added.
#[derive(Clone, Default)]
pub struct Router(Arc<RwLock<BTreeMap<String, Arc<dyn Handler>>>>);

impl Router {
    /// One that answers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a handler answer the calls of this name, instead of one that did.
    ///
    /// ```
    /// # use bucksaw_cluster::Router;
    /// # use bucksaw_doors::Body;
    /// let router = Router::new();
    /// router.add("store/echo", |body: Body| async { Ok(body) });
    /// ```
    pub fn add(&self, name: &str, handler: impl Handler + 'static) {
        let mut handlers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(name.to_owned(), Arc::new(handler));
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Router").field(&handlers.keys()).finish()
    }
}
