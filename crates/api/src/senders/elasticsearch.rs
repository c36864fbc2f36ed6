//! Elasticsearch's bulk API, and the calls that its senders make before.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HeaderName;
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_protocols::HttpAnswer;
use bucksaw_protocols::elasticsearch::{BulkDecoder, ElasticError, ElasticRequest, PRODUCT_HEADER, route};

use super::request::{BodyPlan, SenderRequest, answer, ingest, json_answer};
use crate::app::App;
use crate::error::ApiError;

/// The path below which all of the API is.
const PREFIX: &str = "/elasticsearch";

/// Any request of the API.
pub(super) async fn call(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return refusal(&error),
    };
    let path = request.path.strip_prefix(PREFIX).unwrap_or(&request.path).to_owned();
    match route(request.method.as_str(), &path) {
        ElasticRequest::Answer(answer) => respond(answer),
        ElasticRequest::Bulk { index } => bulk(&app, request, index.into_owned()).await,
    }
}

/// `GET /` or `HEAD /`: the version.
pub(crate) fn info(method: &str) -> Response {
    match route(method, "/") {
        ElasticRequest::Answer(answer) => respond(answer),
        ElasticRequest::Bulk { .. } => respond(elastic_error(&ApiError::internal()).answer()),
    }
}

async fn bulk(app: &App, request: SenderRequest, index: String) -> Response {
    let started = app.env.clock.uptime();
    let decoded = ingest(app, BodyPlan::of(Source::Elasticsearch), request, move |labels, body, sink| {
        BulkDecoder::new(labels).decode(body, &index, sink)
    });
    match decoded.await {
        Ok(Ok(reply)) => {
            let took_ms = app.env.clock.uptime().saturating_sub(started).as_millis();
            with_product(answer(200, "application/json", reply.body(u64::try_from(took_ms).unwrap_or(u64::MAX))))
        }
        Ok(Err(error)) => respond(error.answer()),
        Err(error) => refusal(&error),
    }
}

/// An error in Elasticsearch's terms.
pub(crate) fn refusal(error: &ApiError) -> Response {
    error.with_retry_after(respond(elastic_error(error).answer()))
}

/// The error of the protocol. An overloaded node answers like one with a full write queue: senders retry after
/// a pause.
fn elastic_error(error: &ApiError) -> ElasticError {
    let (status, kind) = match error.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => (429, "es_rejected_execution_exception"),
        StatusCode::INTERNAL_SERVER_ERROR => (500, "exception"),
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => (status.as_u16(), "security_exception"),
        other => (other.as_u16(), "illegal_argument_exception"),
    };
    ElasticError { status, kind, reason: error.message.clone() }
}

fn respond(answer: HttpAnswer) -> Response {
    with_product(json_answer(answer))
}

fn with_product(mut response: Response) -> Response {
    let (name, value) = PRODUCT_HEADER;
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.parse()) {
        response.headers_mut().insert(name, value);
    }
    response
}
