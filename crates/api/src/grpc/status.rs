//! The status of a call.

use axum::http::StatusCode;
use bucksaw_sources::AuditOutcome;

use crate::error::ApiError;

/// A code of gRPC. Senders of OTLP repeat calls with [`Self::UNAVAILABLE`], [`Self::DEADLINE_EXCEEDED`], and, if the status has
/// a delay, [`Self::RESOURCE_EXHAUSTED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrpcCode(pub(crate) i32);

impl GrpcCode {
    pub(crate) const INVALID_ARGUMENT: Self = Self(3);
    pub(crate) const DEADLINE_EXCEEDED: Self = Self(4);
    pub(crate) const PERMISSION_DENIED: Self = Self(7);
    pub(crate) const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(crate) const UNIMPLEMENTED: Self = Self(12);
    pub(crate) const INTERNAL: Self = Self(13);
    pub(crate) const UNAVAILABLE: Self = Self(14);
    pub(crate) const UNAUTHENTICATED: Self = Self(16);

    /// The code for an error of HTTP.
    pub(crate) fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::UNAUTHENTICATED,
            StatusCode::FORBIDDEN => Self::PERMISSION_DENIED,
            StatusCode::TOO_MANY_REQUESTS => Self::RESOURCE_EXHAUSTED,
            StatusCode::SERVICE_UNAVAILABLE => Self::UNAVAILABLE,
            StatusCode::REQUEST_TIMEOUT => Self::DEADLINE_EXCEEDED,
            StatusCode::INTERNAL_SERVER_ERROR => Self::INTERNAL,
            StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::NOT_FOUND => Self::UNIMPLEMENTED,
            _ => Self::INVALID_ARGUMENT,
        }
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcError {
    pub(crate) code: GrpcCode,
    pub(crate) message: String,
    /// Seconds after which the call may be repeated.
    pub(crate) retry_after_s: Option<u32>,
}

impl GrpcError {
    pub(crate) fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_s: None }
    }

    /// What the audit trail says of the call.
    pub(crate) fn audit_outcome(&self) -> AuditOutcome {
        // The second is PERMISSION_DENIED, the third UNAUTHENTICATED.
        let is_refused = [GrpcCode::RESOURCE_EXHAUSTED, GrpcCode(7), GrpcCode(16)].contains(&self.code);
        if is_refused { AuditOutcome::Refused } else { AuditOutcome::Failed }
    }
}

impl From<ApiError> for GrpcError {
    fn from(error: ApiError) -> Self {
        let retry_after_s = error.retry_after_s;
        Self { retry_after_s, ..Self::new(GrpcCode::of(error.status), error.message) }
    }
}
