//! JSON at `/api/v1/ingest`: objects whose members are the time, the message and the labels.

use axum::response::{IntoResponse as _, Response};
use bucksaw_ingest::Source;
use bucksaw_protocols::json::{JsonDecoder, JsonNames};
use serde_json::json;

use super::request::{BodyPlan, SenderRequest, ingest};
use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;

/// The parameters that name members.
pub(crate) const PARAMS: [&str; 3] = ["time_field", "message_field", "label_fields"];

/// Ingests a body of objects.
pub(crate) async fn ingest_objects(app: &App, request: SenderRequest) -> Result<Response, ApiError> {
    let params = Params::parse(request.query.as_bytes());
    let [time, message, labels] = PARAMS.map(|name| params.text(name).map(Option::unwrap_or_default));
    let names = JsonNames::new(time?, message?, labels?);
    let decoded = ingest(app, BodyPlan::of(Source::Json), request, move |labels, body, sink| {
        JsonDecoder::new(names, labels).body(body, sink)
    });
    let decoded = decoded.await?.map_err(|error| ApiError::bad_request(error.to_string()))?;
    if decoded.accepted == 0 && decoded.rejected > 0 {
        let first = decoded.first_error.unwrap_or_default();
        return Err(ApiError::bad_request(format!("no record was accepted: {first}")));
    }
    let mut reply = json!({ "accepted": decoded.accepted, "rejected": decoded.rejected });
    if let Some(error) = decoded.first_error {
        reply["errors"] = json!([{ "error": error }]);
    }
    Ok(axum::Json(reply).into_response())
}
