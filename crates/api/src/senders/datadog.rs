//! Datadog's logs API.

use axum::extract::{Request, State};
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_protocols::datadog::{DatadogDecoder, DatadogDefaults, DatadogRequest, accepted, refused, route};

use super::request::{BodyPlan, SenderRequest, ingest, json_answer};
use crate::app::App;
use crate::error::ApiError;

/// Any request of the API.
pub(super) async fn call(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return refusal(&error),
    };
    match route(request.method.as_str(), &request.path) {
        DatadogRequest::Answer(answer) => json_answer(answer),
        DatadogRequest::Logs => logs(&app, request).await,
    }
}

async fn logs(app: &App, request: SenderRequest) -> Response {
    let defaults = DatadogDefaults::from_query(&request.query);
    let decoded = ingest(app, BodyPlan::of(Source::Datadog), request, move |labels, body, sink| {
        DatadogDecoder::new(labels, defaults).logs(body, sink)
    });
    match decoded.await {
        Ok(Ok(_)) => json_answer(accepted()),
        Ok(Err(error)) => json_answer(error.answer()),
        Err(error) => refusal(&error),
    }
}

/// An error in Datadog's terms.
pub(crate) fn refusal(error: &ApiError) -> Response {
    let title = error.status.canonical_reason().unwrap_or_default();
    error.with_retry_after(json_answer(refused(error.status.as_u16(), title, &error.message)))
}
