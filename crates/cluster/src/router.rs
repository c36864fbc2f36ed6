//! Who answers which call.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bucksaw_env::{Body, BoxFuture, IncomingCall, Net, Tasks};
use tokio::sync::Semaphore;

use crate::{Metrics, Version};

/// Answers the calls of one name.
pub trait Handler: Send + Sync {
    /// Answers one call. An error is told to the caller in words; `Unsupported` means that there is no such call.
    fn answer(&self, body: Body) -> BoxFuture<io::Result<Body>>;
}

impl<F: Fn(Body) -> W + Send + Sync, W: Future<Output = io::Result<Body>> + Send + 'static> Handler for F {
    fn answer(&self, body: Body) -> BoxFuture<io::Result<Body>> {
        Box::pin(self(body))
    }
}

type Handlers = RwLock<BTreeMap<String, Arc<dyn Handler>>>;

/// The calls that a node answers. Cheap to clone; clones share what was added.
#[derive(Clone, Default)]
pub struct Router(Arc<Handlers>);

/// The same, as the node knows it. Handlers hold the node, so who holds them is the task alone that answers calls: with that
/// both are let go of.
pub(crate) struct WeakRouter(Weak<Handlers>);

impl WeakRouter {
    /// One that answers nothing when the task has ended.
    pub(crate) fn router(&self) -> Router {
        self.0.upgrade().map(Router).unwrap_or_default()
    }
}

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
    /// # use bucksaw_env::Body;
    /// let router = Router::new();
    /// router.add("store/echo", |body: Body| async { Ok(body) });
    /// ```
    pub fn add(&self, name: &str, handler: impl Handler + 'static) {
        let mut handlers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(name.to_owned(), Arc::new(handler));
    }

    pub(crate) fn weak(&self) -> WeakRouter {
        WeakRouter(Arc::downgrade(&self.0))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Handler>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Accepts calls and has them answered, each in a task of its own, `calls_max` at the same time. A call counts until the first of
/// its answer is there; what is streamed after that is between the two nodes.
pub(crate) async fn serve(
    tasks: Arc<dyn Tasks>,
    net: Arc<dyn Net>,
    router: Router,
    metrics: Metrics,
    calls_max: usize,
) {
    let permits = Arc::new(Semaphore::new(calls_max));
    loop {
        let IncomingCall { name, body, reply } = net.accept().await;
        let Some(handler) = router.find(&name) else {
            let name = name.escape_default();
            let words = format!("unknown call {name} (protocol version {})", Version::OWN);
            reply.send(Err(io::Error::new(io::ErrorKind::Unsupported, words)));
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            metrics.calls_refused.inc();
            let words = format!("call limit reached: {calls_max} calls in flight");
            reply.send(Err(io::Error::other(words)));
            continue;
        };
        let in_flight = InFlightCall::new(&metrics);
        tasks.spawn(Box::pin(async move {
            let answer = handler.answer(body).await;
            drop((in_flight, permit));
            reply.send(answer);
        }));
    }
}

/// A call that is being answered; counted until dropped, also when answering it ends by a bug.
struct InFlightCall(Metrics);

impl InFlightCall {
    fn new(metrics: &Metrics) -> Self {
        metrics.calls_in_flight.inc();
        Self(metrics.clone())
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.0.calls_in_flight.dec();
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Router").field(&handlers.keys()).finish()
    }
}
