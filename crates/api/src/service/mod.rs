//! Bucksaw's own service for gRPC, `bucksaw.v1`: ingest, query, count and tail for languages without an SDK.
//!
//! The messages are in `proto/bucksaw/v1/bucksaw.proto`; `bucksaw_protocols::bucksaw_v1` reads and writes them. All limits are
//! those of the HTTP surface: memory of bodies, permits of queries, answers and tails. A slow reader stops its own call, by the
//! flow control of HTTP/2.

mod ingest;
mod record_messages;
mod request;
mod search;
mod tail;

use axum::extract::Request;
use axum::response::Response;
use bucksaw_auth::ClientAccess;
use bucksaw_sources::AuditOutcome;
use tokio::sync::watch;

use crate::access::RequestClient;
use crate::app::App;
use crate::audit::{self, RequestFacts};
use crate::grpc::{self, CallDeadline, GrpcCode, GrpcError};

/// The path of all calls.
pub(crate) const PATH: &str = "/bucksaw.v1.Bucksaw/";

/// Answers a call of the service.
pub(crate) async fn call(app: App, request: Request, stop: watch::Receiver<bool>) -> Response {
    answer(app, request, stop).await.unwrap_or_else(|error| grpc::refusal(&error))
}

async fn answer(app: App, mut request: Request, stop: watch::Receiver<bool>) -> Result<Response, GrpcError> {
    let deadline = CallDeadline::of(request.headers())?;
    let method = request.uri().path().strip_prefix(PATH).unwrap_or_default().to_owned();
    let audited = audit::service_action(&method).map(|action| {
        let facts = RequestFacts::begin(request.extensions().get());
        facts.set_who(RequestClient::of(request.extensions()).ok().as_ref().and_then(ClientAccess::name));
        (action, facts, app.clone())
    });
    if let Some((_, facts, _)) = &audited {
        request.extensions_mut().insert(facts.clone());
    }
    let answered = async {
        match method.as_str() {
            "Ingest" => ingest::ingest(app, request, deadline, stop),
            "Query" => deadline.limit(search::query(app, request, deadline)).await?,
            "Count" => deadline.limit(search::count(app, request)).await?,
            "Tail" => tail::tail(app, request, deadline, stop).await,
            _ => Ok(unknown_method()),
        }
    };
    let answered = answered.await;
    if let Some((action, facts, app)) = audited {
        let outcome = match &answered {
            Ok(_) => AuditOutcome::Allowed,
            Err(error) => error.audit_outcome(),
        };
        audit::write(&app, action, outcome, &facts, &[("path", PATH)]);
    }
    answered
}

/// The answer to a call of a method that the service does not have.
pub(crate) fn unknown_method() -> Response {
    let message = "no such method: bucksaw.v1.Bucksaw has Ingest, Query, Count and Tail";
    grpc::refusal(&GrpcError::new(GrpcCode::UNIMPLEMENTED, message))
}

#[cfg(test)]
mod tests;
