//! Completes a request that carries records even if its client has closed the connection.
//!
//! Some senders close the connection once they have sent a request, and read no answer. A server that detects the end
//! of the connection before it has called the handler drops the request. So a request with records runs in its own task
//! as soon as its head is read. Other requests end with their connection, because no client reads their answers.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Request};
use axum::response::{IntoResponse as _, Response};
use bucksaw_env::BoxFuture;
use bucksaw_sources::ConnectionPeer;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::admission::OrdinarySlot;
use crate::error::ApiError;

/// The routes, for one connection.
pub(crate) struct DetachedRoutes {
    routes: TowerToHyperService<Router>,
    /// Held while a request of the connection runs.
    slot: Arc<OrdinarySlot>,
    peer: Arc<ConnectionPeer>,
}

impl DetachedRoutes {
    /// `slot` is dropped when the connection and all of its requests have ended.
    pub(crate) fn new(routes: Router, slot: OrdinarySlot, peer: Arc<ConnectionPeer>) -> Self {
        Self { routes: TowerToHyperService::new(routes), slot: Arc::new(slot), peer }
    }
}

impl Service<Request<Incoming>> for DetachedRoutes {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Arc::clone(&self.peer));
        let has_records = has_records(request.method(), request.uri().path());
        let answer = self.routes.call(request);
        if !has_records {
            return Box::pin(answer);
        }
        let slot = Arc::clone(&self.slot);
        let task = tokio::spawn(async move {
            let _slot = slot;
            answer.await
        });
        Box::pin(async move { task.await.unwrap_or_else(|_| Ok(ApiError::internal().into_response())) })
    }
}

/// Whether a request has records, by its path. Below `/api/v1` only one call has.
fn has_records(method: &Method, path: &str) -> bool {
    matches!(*method, Method::POST | Method::PUT) && (path == "/api/v1/ingest" || !path.starts_with("/api/v1/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_with_records_go_on() {
        let check = |method: Method, path: &str, want: bool| {
            assert_eq!(has_records(&method, path), want, "{path}");
        };
        for path in ["/gelf", "/api/v1/ingest", "/a/_bulk", "/api/v2/logs"] {
            check(Method::POST, path, true);
            check(Method::GET, path, false);
        }
        check(Method::PUT, "/_bulk", true);
        for path in ["/api/v1/query", "/api/v1/count", "/api/v1/forget"] {
            check(Method::POST, path, false);
        }
    }
}
