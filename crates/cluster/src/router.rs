//! Dispatches calls of other nodes to handlers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use bucksaw_env::{Body, BoxFuture, GaugeGuard, IncomingCall, Net, Tasks};
use tokio::sync::Semaphore;

use crate::{ClusterVersion, Metrics};

/// Answers calls of one name.
type Handler = dyn Fn(Body) -> BoxFuture<io::Result<Body>> + Send + Sync;

type Handlers = RwLock<BTreeMap<String, Arc<Handler>>>;

/// The handlers of a node by call name. Clones share them.
#[derive(Clone, Default)]
pub struct Router(Arc<Handlers>);

/// A weak reference to a router. Handlers hold the node, so only the task that answers calls holds them; both are dropped when
/// it ends.
#[derive(Debug)]
pub(crate) struct WeakRouter(Weak<Handlers>);

impl WeakRouter {
    /// The router; an empty one after the task has ended.
    pub(crate) fn router(&self) -> Router {
        self.0.upgrade().map(Router).unwrap_or_default()
    }
}

impl Router {
    /// Adds a handler for a call name, or replaces it. The caller receives the text of its error; `Unsupported` means an unknown
    /// call.
    ///
    /// ```
    /// # use bucksaw_cluster::Router;
    /// # use bucksaw_env::Body;
    /// let router = Router::default();
    /// router.add("store/echo", |body: Body| async { Ok(body) });
    /// ```
    pub fn add<W: Future<Output = io::Result<Body>> + Send + 'static>(
        &self,
        name: &str,
        handler: impl Fn(Body) -> W + Send + Sync + 'static,
    ) {
        let mut handlers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(name.to_owned(), Arc::new(move |body| Box::pin(handler(body))));
    }

    pub(crate) fn weak(&self) -> WeakRouter {
        WeakRouter(Arc::downgrade(&self.0))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Handler>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Accepts calls and answers each in its own task, at most `calls_max` at a time. A call counts until its reply begins, without
/// the streaming of the reply.
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
            let words = format!("unknown call {name} (protocol version {})", ClusterVersion::OWN);
            reply.send(Err(io::Error::new(io::ErrorKind::Unsupported, words)));
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            metrics.calls_refused.inc();
            let words = format!("call limit reached: {calls_max} calls in flight");
            reply.send(Err(io::Error::other(words)));
            continue;
        };
        let in_flight = GaugeGuard::new(&metrics.calls_in_flight);
        tasks.spawn(Box::pin(async move {
            let answer = handler(body).await;
            drop((in_flight, permit));
            reply.send(answer);
        }));
    }
}
