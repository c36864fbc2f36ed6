//! Refusals, in the form that the clients of a path expect.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_auth::{AuthRefusalReason, TenantError};

use crate::error::ApiError;
use crate::senders;

/// Asks for a token. `Basic` would make browsers show a dialog of their own.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"bucksaw\"");

/// For senders that know no other scheme.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"bucksaw\", Bearer realm=\"bucksaw\"");

/// How errors of a path are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `{"error": "…"}`.
    Json,
    /// A line of text.
    Text,
    Elasticsearch,
    Splunk,
    Datadog,
    Otlp,
}

impl ErrorForm {
    /// An error. `request` are the headers of the request.
    pub(super) fn render(self, error: ApiError, request: &HeaderMap) -> Response {
        match self {
            Self::Json => error.into_response(),
            Self::Text => senders::text_refusal(&error),
            Self::Elasticsearch => senders::elasticsearch_refusal(&error),
            Self::Splunk => senders::splunk_refusal(&error),
            Self::Datadog => senders::datadog_refusal(&error),
            Self::Otlp => senders::otlp_refusal(&error, request),
        }
    }

    /// A client that is refused for lack of a credential, or of its rights. `needed` is what the call needs.
    pub(super) fn refuse(self, reason: AuthRefusalReason, needed: &str, request: &HeaderMap) -> Response {
        let mut response = match self {
            Self::Splunk => senders::splunk_auth_refusal(reason),
            // Datadog's clients distinguish a missing key from a wrong one.
            Self::Datadog if reason != AuthRefusalReason::Missing => {
                self.render(ApiError::new(StatusCode::FORBIDDEN, message(reason, needed)), request)
            }
            form => form.render(ApiError::new(status(reason), message(reason, needed)), request),
        };
        if response.status() == StatusCode::UNAUTHORIZED {
            let scheme = if matches!(self, Self::Elasticsearch | Self::Text) { BASIC } else { BEARER };
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// The refusal of a request that names no tenant, or a wrong one.
pub(super) fn tenant_error(error: TenantError) -> ApiError {
    let status = match error {
        TenantError::Forbidden => StatusCode::FORBIDDEN,
        TenantError::Unnamed | TenantError::Invalid => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, format!("X-Scope-OrgID: {error}"))
}

pub(super) fn status(reason: AuthRefusalReason) -> StatusCode {
    if reason.is_unauthenticated() { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN }
}

pub(super) fn message(reason: AuthRefusalReason, needed: &str) -> String {
    match reason {
        AuthRefusalReason::Scope => format!("the call needs {needed}"),
        reason => reason.to_string(),
    }
}
