//! The body of an answer, which ends when the credential of its client does.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use bucksaw_auth::{ClientAccess, QuerySlot};
use hyper::body::{Frame, SizeHint};

/// The credential was revoked or changed, or has expired.
#[derive(Debug, thiserror::Error)]
#[error("the credential is no longer valid")]
struct CredentialEnded;

/// An answer to a query. While it exists, the query is in flight.
struct HeldBody {
    body: Body,
    client: ClientAccess,
    _slot: Option<QuerySlot>,
}

/// Makes the body of a response end with the credential of its client, and hold its slot until then.
pub(super) fn hold(response: Response, client: ClientAccess, slot: Option<QuerySlot>) -> Response {
    response.map(|body| Body::new(HeldBody { body, client, _slot: slot }))
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // A tail sends something every few seconds. An error breaks the connection, so the answer does not look complete.
        if !self.client.is_valid() {
            return Poll::Ready(Some(Err(axum::Error::new(CredentialEnded))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
