//! The HTTP routes of other systems' protocols.
//!
//! Each protocol has a module, which answers in the terms of the protocol. Their common part is in `request`: the
//! parameters `durability` and `label`, the header `Idempotency-Key`, compression, back-pressure, and the intake of the
//! body.
//!
//! ```text
//!   route ─► SenderRequest ─► ingest ─► BodyIntake ─► decoder of `bucksaw_protocols` ─► queue
//!            answer of the protocol ◄── what the decoder returned, or an ApiError
//! ```

mod datadog;
mod elasticsearch;
mod gelf;
mod journald;
pub(crate) mod json;
mod loki;
mod otlp;
mod otlp_grpc;
mod request;
mod splunk;

use axum::Router;
use axum::routing::{any, post};

pub(crate) use elasticsearch::info as elasticsearch_info;
pub(crate) use otlp::unknown_path as unknown_otlp_path;
pub(crate) use otlp_grpc::call as otlp_call;
pub(crate) use request::{SenderRequest, refuse_if_overloaded};

use crate::app::App;

/// All routes except two that are shared: `GET /` of Elasticsearch with the page, and JSON with lines.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(otlp_routes())
        .route("/loki/api/v1/push", post(loki::push))
        .route("/services/collector", any(splunk::call))
        .route("/services/collector/{*path}", any(splunk::call))
        .route("/upload", post(journald::upload))
        .route("/gelf", post(gelf::messages))
        .route("/api/v2/logs", any(datadog::call))
        .route("/api/v1/validate", any(datadog::call))
        .route("/v1/input", any(datadog::call))
        .route("/v1/input/{*key}", any(datadog::call))
        .route("/_bulk", any(elasticsearch::call))
        .route("/_license", any(elasticsearch::call))
        .route("/_xpack", any(elasticsearch::call))
        .route("/_cluster/health", any(elasticsearch::call))
        .route("/_nodes", any(elasticsearch::call))
        .route("/_nodes/{*path}", any(elasticsearch::call))
        .route("/_template/{name}", any(elasticsearch::call))
        .route("/_index_template/{name}", any(elasticsearch::call))
        .route("/_component_template/{name}", any(elasticsearch::call))
        .route("/_ingest/pipeline", any(elasticsearch::call))
        .route("/_ingest/pipeline/{name}", any(elasticsearch::call))
        .route("/_ilm/status", any(elasticsearch::call))
        .route("/_ilm/policy/{name}", any(elasticsearch::call))
        .route("/_data_stream/{name}", any(elasticsearch::call))
        .route("/_alias/{name}", any(elasticsearch::call))
        .route("/_aliases", any(elasticsearch::call))
        .route("/{index}/_bulk", any(elasticsearch::call))
        .route("/{index}/{kind}/_bulk", any(elasticsearch::call))
        .route("/elasticsearch", any(elasticsearch::call))
        .route("/elasticsearch/", any(elasticsearch::call))
        .route("/elasticsearch/{*path}", any(elasticsearch::call))
}

/// The routes of OTLP over HTTP.
pub(crate) fn otlp_routes() -> Router<App> {
    Router::new().route("/v1/logs", post(otlp::export)).route("/otlp/v1/logs", post(otlp::export))
}

#[cfg(test)]
mod tests;
