//! Entries of systemd's journal over HTTP.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_sources::http::{EventRequest, JournalReply};

use super::request::{SenderRequest, answer, refuse_if_overloaded};
use super::text_refusal;
use crate::app::App;
use crate::error::ApiError;
use crate::ingest_params::{BodyFrames, content_encoding, durability_param, idempotency_key, label_params, media_type};
use crate::params::Params;

/// The media type of the export format.
const EXPORT_FORMAT: &str = "application/vnd.fdo.journal";

const TEXT: &str = "text/plain; charset=utf-8";

/// `POST /upload`, as `systemd-journal-remote` answers it.
pub(super) async fn upload(State(app): State<App>, request: Request) -> Response {
    let appended = match SenderRequest::new(request) {
        Ok(request) => append(&app, request).await,
        Err(error) => Err(error),
    };
    match appended {
        Ok(JournalReply { dropped_fields: 0, .. }) => answer(202, TEXT, "OK.\n"),
        Ok(JournalReply { dropped_fields, .. }) => {
            answer(202, TEXT, format!("OK. {dropped_fields} fields are too long and are left out.\n"))
        }
        Err(error) => text_refusal(&error),
    }
}

async fn append(app: &App, request: SenderRequest) -> Result<JournalReply, ApiError> {
    refuse_if_overloaded(app)?;
    if media_type(&request.headers).as_deref() != Some(EXPORT_FORMAT) {
        let message = format!("send the journal export format, with Content-Type {EXPORT_FORMAT}");
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if idempotency_key(&request.headers)?.is_some() {
        let message = "Idempotency-Key: entries are stored while they arrive, so an upload has no key";
        return Err(ApiError::bad_request(message));
    }
    let params = Params::parse(request.query.as_bytes());
    let labels = label_params(&params, None)?;
    let body = EventRequest {
        source: Source::Journald,
        encoding: content_encoding(&request.headers)?,
        durability: durability_param(&params)?,
        key: None,
        context: &[],
        bytes_min: axum::body::HttpBody::size_hint(&request.body).lower(),
    };
    app.queue().check_accepting()?;
    Ok(app.bodies.of_client(&request.client).ingest_journal(body, &labels, BodyFrames(request.body)).await?)
}

#[cfg(test)]
mod tests;
