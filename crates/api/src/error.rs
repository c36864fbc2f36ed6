//! Errors as HTTP answers.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_ingest::IngestError;
use bucksaw_query::RequestError;
use bucksaw_record::expr::SyntaxError;
use bucksaw_sources::http::{BodyError, BodyErrorReason};
use serde_json::json;

/// `Retry-After` of an overloaded node, in seconds.
const OVERLOADED_RETRY_S: u32 = 5;

/// Limit of a message in characters; it may quote a parameter of any length.
const MESSAGE_CHARS_MAX: usize = 500;

/// An answer with the status of an error and `{"error": "…"}`.
#[derive(Debug)]
pub(crate) struct ApiError {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The message: the problem and the remedy.
    pub(crate) message: String,
    /// Seconds after which the request may be sent again, if that helps.
    pub(crate) retry_after_s: Option<u32>,
    /// Records of the same body that were accepted before the error.
    accepted: Option<u64>,
    /// The position of an error in an expression.
    column: Option<usize>,
}

impl ApiError {
    /// Control characters in the message, and all after a limit of its length, are replaced.
    pub(crate) fn new(status: StatusCode, message: impl AsRef<str>) -> Self {
        let mut chars = message.as_ref().chars().map(|char| if char.is_control() { '\u{fffd}' } else { char });
        let mut message: String = chars.by_ref().take(MESSAGE_CHARS_MAX - 1).collect();
        if chars.next().is_some() {
            message.push('…');
        }
        Self { status, message, retry_after_s: None, accepted: None, column: None }
    }

    pub(crate) fn bad_request(message: impl AsRef<str>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The answer of a check, with the column as a field.
    pub(crate) fn invalid_expression(error: &SyntaxError) -> Self {
        Self { column: Some(error.column), ..Self::bad_request(&error.message) }
    }

    pub(crate) fn too_many_requests(message: impl AsRef<str>) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub(crate) fn unavailable(message: impl AsRef<str>) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    pub(crate) fn overloaded() -> Self {
        let message = "the node is overloaded: header Bucksaw-Redirect lists less loaded nodes";
        Self { retry_after_s: Some(OVERLOADED_RETRY_S), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    /// The same with another delay, in seconds.
    pub(crate) fn after(self, retry_after_s: u32) -> Self {
        Self { retry_after_s: Some(retry_after_s), ..self }
    }

    /// Adds `Retry-After` to an answer in another format.
    pub(crate) fn with_retry_after(&self, mut response: Response) -> Response {
        if let Some(wait) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
        }
        response
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such path: GET /api/v1 lists the calls")
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: see the log of the node")
    }
}

impl From<IngestError> for ApiError {
    fn from(refusal: IngestError) -> Self {
        let wait = match refusal {
            IngestError::DiskFull | IngestError::QueueFull => 5,
            // A retry would fail again.
            IngestError::KeyReused => return Self::new(StatusCode::UNPROCESSABLE_ENTITY, refusal.to_string()),
            _ => 1,
        };
        Self { retry_after_s: Some(wait), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, refusal.to_string()) }
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let BodyError { reason, accepted } = error;
        let error = match reason {
            BodyErrorReason::Refused(refusal) => Self::from(refusal),
            BodyErrorReason::Invalid(message) => Self::bad_request(message),
            BodyErrorReason::TooLarge(message) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, message),
            BodyErrorReason::IdleTimeout => Self::new(StatusCode::REQUEST_TIMEOUT, reason.to_string()),
            BodyErrorReason::MemoryShort(message) => Self::unavailable(message),
            _ => Self::internal(),
        };
        Self { accepted, ..error }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let status = match error {
            RequestError::RecordNotFound(_) => StatusCode::NOT_FOUND,
            RequestError::Internal => return Self::internal(),
            RequestError::Cancelled | RequestError::RecordMaybeMissing(..) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": self.message });
        if let Some(accepted) = self.accepted {
            body["accepted"] = accepted.into();
        }
        if let Some(column) = self.column {
            body["column"] = column.into();
        }
        self.with_retry_after((self.status, axum::Json(body)).into_response())
    }
}
