//! The HTTP routes of other systems' protocols.
//!
//! A module for each protocol answers in the protocol's own terms. What they share is here: the parameters `durability` and
//! `label`, the header `Idempotency-Key`, compression, back-pressure, and the way of a body into the queue.
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
mod splunk;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use bucksaw_ingest::{Durability, Source};
use bucksaw_protocols::EventSink;
use bucksaw_record::Labels;
use bucksaw_sources::http::{BodyChunks, Encoding, EventRequest};
use bucksaw_steering::ListenerKind;

pub(crate) use elasticsearch::info as elasticsearch_info;
pub(crate) use otlp::unknown_path as unknown_otlp_path;
pub(crate) use otlp_grpc::call as otlp_call;

use crate::app::App;
use crate::error::ApiError;
use crate::ingest::{BodyFrames, content_encoding, durability_param, idempotency_key, label_params, media_type};
use crate::params::Params;

/// All routes, except `GET /` of Elasticsearch, which is the page's too, and JSON, which has that of lines.
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

/// A request of a sender, before its body is read.
pub(crate) struct SenderRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl From<Request> for SenderRequest {
    fn from(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default().to_owned();
        Self { method: head.method, path: head.uri.path().to_owned(), query, headers: head.headers, body }
    }
}

impl SenderRequest {
    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the body is JSON by its media type.
    pub(super) fn is_json(&self) -> bool {
        media_type(&self.headers).is_some_and(|media_type| media_type == "application/json")
    }
}

/// How the body of a request becomes records.
pub(super) struct BodyPlan<'a> {
    pub(super) source: Source,
    /// The encoding, if not that of the header `Content-Encoding`.
    pub(super) encoding: Option<Encoding>,
    /// A label besides those of the parameter `label`.
    pub(super) label: Option<(&'a str, &'a str)>,
}

impl BodyPlan<'_> {
    pub(super) fn of(source: Source) -> Self {
        Self { source, encoding: None, label: None }
    }
}

/// Decodes the body of a request and waits until its records have their durability. Returns what `decode` returned, whose
/// first argument is the labels that all events have.
pub(super) async fn ingest<T: Send + 'static>(
    app: &App,
    plan: BodyPlan<'_>,
    request: SenderRequest,
    decode: impl FnOnce(&Labels, &[u8], &mut dyn EventSink) -> T + Send + 'static,
) -> Result<T, ApiError> {
    refuse_if_overloaded(app)?;
    let params = Params::parse(request.query.as_bytes());
    let plan = EventPlan {
        source: plan.source,
        durability: durability_param(&params)?,
        labels: label_params(&params, plan.label)?,
        encoding: match plan.encoding {
            Some(encoding) => encoding,
            None => content_encoding(&request.headers)?,
        },
        key: idempotency_key(&request.headers)?,
        context: request.query.as_bytes(),
        bytes_min: axum::body::HttpBody::size_hint(&request.body).lower(),
    };
    ingest_chunks(app, plan, BodyFrames(request.body), decode).await
}

/// Refuses a request if the node is overloaded and a less loaded one is known.
fn refuse_if_overloaded(app: &App) -> Result<(), ApiError> {
    if app.shedder.refuses_unredirectable(ListenerKind::Http) {
        app.shedder.count_refused();
        return Err(ApiError::too_many_requests("the node is overloaded: send again later, or to another node"));
    }
    Ok(())
}

/// All that is known of a body of events before it is read.
struct EventPlan<'a> {
    source: Source,
    encoding: Encoding,
    durability: Durability,
    /// The labels that all its events have.
    labels: Labels,
    key: Option<&'a [u8]>,
    /// What determines the records besides the body and the labels.
    context: &'a [u8],
    /// The minimum length of the body, in bytes.
    bytes_min: u64,
}

/// Decodes a body as it arrives; see [`ingest`].
async fn ingest_chunks<T: Send + 'static>(
    app: &App,
    plan: EventPlan<'_>,
    body: impl BodyChunks,
    decode: impl FnOnce(&Labels, &[u8], &mut dyn EventSink) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let EventPlan { source, encoding, durability, labels, key, context: other, bytes_min } = plan;
    app.queue().check_accepting()?;
    let mut context = Vec::new();
    labels.encode(&mut context);
    context.extend_from_slice(other);
    let request = EventRequest { source, encoding, durability, key, context: &context, bytes_min };
    let decode = move |body: &[u8], sink: &mut dyn EventSink| decode(&labels, body, sink);
    Ok(app.bodies.ingest_events(request, body, decode).await?)
}

/// An answer with a JSON text.
fn json_answer(status: u16, body: impl Into<Body>) -> Response {
    answer(status, "application/json", body)
}

fn answer(status: u16, media_type: &'static str, body: impl Into<Body>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}

#[cfg(test)]
mod tests;
