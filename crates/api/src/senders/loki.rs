//! Loki's push API.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::TENANT_LABEL;
use bucksaw_ingest::Source;
use bucksaw_protocols::loki::LokiDecoder;
use bucksaw_sources::http::Encoding;

use super::request::{BodyPlan, SenderRequest, answer, ingest};
use crate::access::TENANT_HEADER;
use crate::app::App;
use crate::error::ApiError;

/// `POST /loki/api/v1/push`. Errors are plain text, as Loki's.
pub(super) async fn push(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return refusal(&error),
    };
    let is_json = request.is_json();
    let encoding = match (is_json, request.header(header::CONTENT_ENCODING.as_str())) {
        (true, _) => None,
        // A protobuf body is a snappy block, with or without the header.
        (false, None | Some("" | "identity" | "snappy")) => Some(Encoding::Snappy),
        (false, Some(_)) => {
            return refusal(&ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a protobuf body is a snappy block: leave Content-Encoding out, or send `snappy`",
            ));
        }
    };
    let tenant = request.header(TENANT_HEADER).filter(|tenant| !tenant.is_empty()).map(str::to_owned);
    let label = tenant.as_deref().map(|tenant| (TENANT_LABEL, tenant));
    let plan = BodyPlan { source: Source::Loki, encoding, label };
    let decoded = ingest(&app, plan, request, move |labels, body, sink| {
        let mut decoder = LokiDecoder::new(labels);
        if is_json { decoder.json(body, sink) } else { decoder.protobuf(body, sink) }
    });
    match decoded.await {
        Ok(Ok(decoded)) if decoded.rejected == 0 => StatusCode::NO_CONTENT.into_response(),
        Ok(Ok(decoded)) => {
            let (refused, all) = (decoded.rejected, decoded.rejected + decoded.accepted);
            let error = decoded.first_error.unwrap_or_default();
            refusal(&ApiError::bad_request(format!(
                "{refused} of {all} entries are refused, the first because: {error}"
            )))
        }
        Ok(Err(error)) => refusal(&ApiError::bad_request(error.to_string())),
        Err(error) => refusal(&error),
    }
}

/// An error as a line of text.
pub(crate) fn refusal(error: &ApiError) -> Response {
    error.with_retry_after(answer(error.status.as_u16(), "text/plain; charset=utf-8", format!("{}\n", error.message)))
}
