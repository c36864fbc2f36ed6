//! The calls of a listener for gRPC.

use axum::extract::Request;
use axum::http::{Method, StatusCode, Version};
use axum::response::Response;
use tokio::sync::watch;

use crate::app::App;
use crate::ingest_params::media_type;
use crate::{grpc, senders, service};

/// Answers a request on a listener that takes OTLP only.
pub(crate) async fn otlp_call(app: App, request: Request) -> Response {
    match refuse_other_protocols(&request) {
        Some(refusal) => refusal,
        None => senders::otlp_call(&app, request).await,
    }
}

/// Answers a request on a listener that takes OTLP and the service `bucksaw.v1`. Calls that have no end of their own end at the
/// stop.
pub(crate) async fn call(app: App, request: Request, stop: watch::Receiver<bool>) -> Response {
    match refuse_other_protocols(&request) {
        Some(refusal) => refusal,
        None if request.uri().path().starts_with(service::PATH) => service::call(app, request, stop).await,
        None => senders::otlp_call(&app, request).await,
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
