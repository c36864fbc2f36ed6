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

use axum::routing::{any, post};

pub(crate) use datadog::refusal as datadog_refusal;
pub(crate) use elasticsearch::{info as elasticsearch_info, refusal as elasticsearch_refusal};
pub(crate) use loki::refusal as text_refusal;
pub(crate) use otlp::{refusal as otlp_refusal, unknown_path as unknown_otlp_path};
pub(crate) use otlp_grpc::{EXPORT, call as otlp_call};
pub(crate) use request::{SenderRequest, refuse_if_overloaded};
pub(crate) use splunk::{auth_refusal as splunk_auth_refusal, refusal as splunk_refusal};

use crate::access::RouteAccess::{Any, Ingest};
use crate::access::{ErrorForm, Routes};

/// All routes except two that are shared: `GET /` of Elasticsearch with the page, and JSON with lines.
pub(crate) fn routes() -> Routes {
    use ErrorForm::{Datadog, Elasticsearch, Splunk, Text};
    Routes::default()
        .merge(otlp_routes())
        .route_of(Text, "/loki/api/v1/push", Ingest, post(loki::push))
        .route_of(Splunk, "/services/collector", Ingest, any(splunk::call))
        .route_of(Splunk, "/services/collector/{*path}", Ingest, any(splunk::call))
        .route_of(Text, "/upload", Ingest, post(journald::upload))
        .route_of(Text, "/gelf", Ingest, post(gelf::messages))
        .route_of(Datadog, "/api/v2/logs", Ingest, any(datadog::call))
        .route_of(Datadog, "/api/v1/validate", Ingest, any(datadog::call))
        .route_of(Datadog, "/v1/input", Ingest, any(datadog::call))
        .route_of(Datadog, "/v1/input/{*key}", Ingest, any(datadog::call))
        .route_of(Elasticsearch, "/_bulk", Ingest, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_license", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_xpack", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_cluster/health", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_nodes", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_nodes/{*path}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_template/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_index_template/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_component_template/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_ingest/pipeline", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_ingest/pipeline/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_ilm/status", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_ilm/policy/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_data_stream/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_alias/{name}", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/_aliases", Any, any(elasticsearch::call))
        .route_of(Elasticsearch, "/{index}/_bulk", Ingest, any(elasticsearch::call))
        .route_of(Elasticsearch, "/{index}/{kind}/_bulk", Ingest, any(elasticsearch::call))
        .route_of(Elasticsearch, "/elasticsearch", Ingest, any(elasticsearch::call))
        .route_of(Elasticsearch, "/elasticsearch/", Ingest, any(elasticsearch::call))
        .route_of(Elasticsearch, "/elasticsearch/{*path}", Ingest, any(elasticsearch::call))
}

/// The routes of OTLP over HTTP.
pub(crate) fn otlp_routes() -> Routes {
    Routes::default().route_of(ErrorForm::Otlp, "/v1/logs", Ingest, post(otlp::export)).route_of(
        ErrorForm::Otlp,
        "/otlp/v1/logs",
        Ingest,
        post(otlp::export),
    )
}

#[cfg(test)]
mod tests;
