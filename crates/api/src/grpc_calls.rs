//! The calls of a listener for gRPC.

use axum::extract::Request;
use axum::http::{Method, StatusCode, Version};
use axum::response::Response;
use tokio::sync::watch;

use crate::access::{RouteAccess, check_call};
use crate::app::App;
use crate::ingest_params::media_type;
use crate::{grpc, senders, service};

/// The methods, and who may call each.
const METHODS: [(&str, RouteAccess); 5] = [
    (senders::EXPORT, RouteAccess::Ingest),
    ("/bucksaw.v1.Bucksaw/Ingest", RouteAccess::Ingest),
    ("/bucksaw.v1.Bucksaw/Query", RouteAccess::Read),
    ("/bucksaw.v1.Bucksaw/Count", RouteAccess::Read),
    ("/bucksaw.v1.Bucksaw/Tail", RouteAccess::Read),
];

/// The methods of the port for gRPC, and who may call each.
pub fn grpc_methods() -> Vec<(&'static str, RouteAccess)> {
    METHODS.to_vec()
}

/// Who may call a method; `None` if there is no such method.
fn access(path: &str) -> Option<RouteAccess> {
    METHODS.iter().find(|(method, _)| *method == path).map(|(_, access)| *access)
}

/// Answers a request on a listener that takes OTLP only.
pub(crate) async fn otlp_call(app: App, request: Request) -> Response {
    if let Some(refusal) = refuse_other_protocols(&request) {
        return refusal;
    }
    // Every other method is answered as unknown.
    let access = access(request.uri().path()).unwrap_or(RouteAccess::Any);
    check_call(&app, access, request, |request| senders::otlp_call(&app, request)).await
}

/// Answers a request on a listener that takes OTLP and the service `bucksaw.v1`. Calls that have no end of their own end at the
/// stop.
pub(crate) async fn call(app: App, request: Request, stop: watch::Receiver<bool>) -> Response {
    if !request.uri().path().starts_with(service::PATH) {
        return otlp_call(app, request).await;
    }
    if let Some(refusal) = refuse_other_protocols(&request) {
        return refusal;
    }
    match access(request.uri().path()) {
        Some(access) => check_call(&app, access, request, |request| service::call(app.clone(), request, stop)).await,
        None => check_call(&app, RouteAccess::Any, request, |_| async { service::unknown_method() }).await,
    }
}

fn refuse_other_protocols(request: &Request) -> Option<Response> {
    if request.version() != Version::HTTP_2 {
        let message =
            "this port speaks OTLP over gRPC, which needs HTTP/2: send OTLP over HTTP to /v1/logs on the HTTP port";
        return Some(grpc::not_grpc(StatusCode::BAD_REQUEST, message));
    }
    if request.method() != Method::POST {
        let message = "this port speaks gRPC: calls are POST requests";
        return Some(grpc::not_grpc(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    if !matches!(media_type(request.headers()).as_deref(), Some("application/grpc" | "application/grpc+proto")) {
        let message = "this port speaks OTLP over gRPC: send Content-Type application/grpc";
        return Some(grpc::not_grpc(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    None
}
