//! The one message of a call that searches.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::io::Read as _;

use axum::extract::Request;
use bucksaw_protocols::bucksaw_v1::SearchRequest;
use bucksaw_sources::http::{BodyChunks as _, Encoding};
use flate2::read::GzDecoder;

use crate::app::App;
use crate::audit::RequestFacts;
use crate::grpc::{GrpcCode, GrpcError, MessageBody, message_encoding, stated_encoding};
use crate::params::Params;

/// The longest request, in bytes before and after decompression.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Reads the message of a call.
pub(super) async fn read(app: &App, request: Request) -> Result<SearchRequest, GrpcError> {
    let invalid = |message: String| GrpcError::new(GrpcCode::INVALID_ARGUMENT, message);
    let (head, body) = request.into_parts();
    let idle_max = app.config.body_idle_timeout;
    let mut message = MessageBody::open(body, idle_max).await?;
    if usize::try_from(message.length).is_ok_and(|length| length > REQUEST_BYTES_MAX) {
        return Err(invalid(format!(
            "the request has {} bytes; at most {REQUEST_BYTES_MAX} are taken",
            message.length
        )));
    }
    let encoding = message_encoding(message.is_compressed, stated_encoding(&head.headers)?)?;
    let mut bytes = Vec::new();
    let read = async {
        while let Some(chunk) = message.next_chunk().await {
            bytes.extend_from_slice(&chunk.map_err(invalid)?);
        }
        Ok::<(), GrpcError>(())
    };
    let timed_out = |_| GrpcError::new(GrpcCode::DEADLINE_EXCEEDED, "timed out while waiting for the request");
    tokio::time::timeout(idle_max, read).await.map_err(timed_out)??;
    let bytes = match encoding {
        Encoding::Identity => bytes,
        Encoding::Gzip => inflate(&bytes).map_err(invalid)?,
        _ => {
            let message = "requests of this method are compressed with gzip, or not at all";
            return Err(GrpcError::new(GrpcCode::UNIMPLEMENTED, message));
        }
    };
    let request = SearchRequest::read(&bytes).map_err(|error| invalid(error.to_string()))?;
    if let Some(facts) = RequestFacts::of(&head.extensions) {
        let details = [("q", &request.expression), ("from", &request.from), ("to", &request.to)];
        facts.add_details(details.into_iter().map(|(name, value)| (name, value.as_slice())));
    }
    Ok(request)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let decoder = GzDecoder::new(bytes).take(REQUEST_BYTES_MAX as u64 + 1);
    { decoder }.read_to_end(&mut text).map_err(|error| format!("the request is no gzip: {error}"))?;
    match text.len() {
        0..=REQUEST_BYTES_MAX => Ok(text),
        _ => Err(format!("the decompressed request has more than {REQUEST_BYTES_MAX} bytes")),
    }
}

/// The request as the parameters of the HTTP API.
pub(super) fn params(request: SearchRequest) -> Result<Params, GrpcError> {
    let order = match request.order {
        0 => "asc",
        1 => "desc",
        other => {
            let message = format!("order {other} is neither ORDER_ASCENDING nor ORDER_DESCENDING");
            return Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message));
        }
    };
    let limit = if request.limit == 0 { String::new() } else { request.limit.to_string() };
    Ok(Params::of([
        ("q", request.expression),
        ("from", request.from),
        ("to", request.to),
        ("tz", request.time_zone),
        ("limit", limit.into_bytes()),
        ("order", order.as_bytes().to_vec()),
        ("after", request.after),
    ]))
}
