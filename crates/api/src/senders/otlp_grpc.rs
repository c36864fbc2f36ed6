//! OTLP logs over gRPC.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bucksaw_ingest::{Durability, Source};
use bucksaw_protocols::otlp::{ExportAnswer, OtlpDecoder};
use bucksaw_record::Labels;
use bucksaw_sources::http::Encoding;

use super::request::{EventPlan, ingest_chunks, refuse_if_overloaded};
use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::grpc::{self, GrpcCode, GrpcError, MessageBody};
use crate::ingest_params::{idempotency_key, labels};

/// The method that is served.
pub(crate) const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// Services of OTLP for other signals than logs.
const OTHER_SIGNALS: &str = "/opentelemetry.proto.collector.";

/// Answers a call.
pub(crate) async fn call(app: &App, request: Request) -> Response {
    match export(app, request).await {
        Ok(message) => grpc::answer(&message),
        Err(error) => grpc::refusal(&error),
    }
}

async fn export(app: &App, request: Request) -> Result<Vec<u8>, GrpcError> {
    match request.uri().path() {
        EXPORT => {}
        other if other.starts_with(OTHER_SIGNALS) => {
            let message = "Bucksaw stores logs only: turn off the export of traces, metrics and profiles to it";
            return Err(GrpcError::new(GrpcCode::UNIMPLEMENTED, message));
        }
        _ => return Err(GrpcError::new(GrpcCode::UNIMPLEMENTED, format!("no such method: the only one is {EXPORT}"))),
    }
    refuse_if_overloaded(app)?;
    let client = RequestClient::of(request.extensions())?;
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let stated = grpc::stated_encoding(headers)?;
    let mut plan = EventPlan {
        source: Source::Otlp,
        encoding: Encoding::Identity,
        durability: durability(headers)?,
        labels: metadata_labels(headers)?,
        key: idempotency_key(headers)?,
        context: &[],
        bytes_min: 0,
    };
    app.queue().check_accepting().map_err(ApiError::from)?;
    let message = MessageBody::open(body, app.config.body_idle_timeout).await?;
    plan.bytes_min = u64::from(message.length);
    plan.encoding = grpc::message_encoding(message.is_compressed, stated)?;
    let length_max = app.bodies.event_text_bytes_max(plan.encoding);
    if usize::try_from(message.length).is_ok_and(|length| length > length_max) {
        let message =
            format!("the message has {} bytes; at most {length_max} are taken: send it in several", message.length);
        return Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message));
    }
    let decoded =
        ingest_chunks(app, &client, plan, message, |labels, body, sink| OtlpDecoder::new(labels).protobuf(body, sink));
    let decoded = decoded.await?.map_err(|error| GrpcError::new(GrpcCode::INVALID_ARGUMENT, error.to_string()))?;
    Ok(ExportAnswer(&decoded).protobuf())
}

fn durability(headers: &HeaderMap) -> Result<Durability, ApiError> {
    let Some(stated) = headers.get("bucksaw-durability") else { return Ok(Durability::Fast) };
    let parsed = stated.to_str().map_err(|_| "not text".to_owned()).and_then(str::parse);
    parsed.map_err(|error: String| ApiError::bad_request(format!("bucksaw-durability: {error}")))
}

fn metadata_labels(headers: &HeaderMap) -> Result<Labels, ApiError> {
    labels("bucksaw-label", headers.get_all("bucksaw-label").iter().map(HeaderValue::as_bytes), None)
}

#[cfg(test)]
mod tests;
