//! The client of a request, for handlers.

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use bucksaw_auth::ClientAccess;

use crate::error::ApiError;

/// The client of a request, which the check has recognised.
#[derive(Clone, Debug)]
pub(crate) struct RequestClient(pub(crate) ClientAccess);

impl RequestClient {
    /// The client of a request.
    ///
    /// # Errors
    /// No check has run, which is a bug: the request is refused.
    pub(crate) fn of(extensions: &Extensions) -> Result<ClientAccess, ApiError> {
        extensions.get::<Self>().map(|client| client.0.clone()).ok_or_else(ApiError::internal)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestClient {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.extensions).map(Self)
    }
}
