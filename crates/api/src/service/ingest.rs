//! `Ingest`: batches in, a reply for each out.
//!
//! The batches of a call are taken one after the other. A client that does not read its replies is not read either.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_auth::ClientAccess;
use bucksaw_env::wait_for_stop;
use bucksaw_ingest::{Durability, Source};
use bucksaw_protocols::Decoded;
use bucksaw_protocols::bucksaw_v1::{BatchError, BatchHead, BatchReply, decode_records};
use bucksaw_sources::http::{BatchPlan, BatchRequest, BodyError, Encoding};
use tokio::sync::watch;

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::grpc::{
    ANSWERED, CallDeadline, GrpcCode, GrpcError, MessageStream, StreamedMessage, begin_message, end_message,
    message_encoding, refusal_headers, stated_encoding,
};
use crate::senders::refuse_if_overloaded;
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// Why a batch is not taken as a whole.
struct BatchRefusal {
    error: GrpcError,
    /// Its records that were accepted even so.
    accepted: u64,
}

impl From<BodyError> for BatchRefusal {
    fn from(error: BodyError) -> Self {
        Self { accepted: error.accepted.unwrap_or_default(), error: ApiError::from(error).into() }
    }
}

impl From<GrpcError> for BatchRefusal {
    fn from(error: GrpcError) -> Self {
        Self { error, accepted: 0 }
    }
}

impl From<ApiError> for BatchRefusal {
    fn from(error: ApiError) -> Self {
        GrpcError::from(error).into()
    }
}

impl From<BatchError> for BatchRefusal {
    fn from(error: BatchError) -> Self {
        GrpcError::new(GrpcCode::INVALID_ARGUMENT, error.to_string()).into()
    }
}

/// Answers `Ingest` until the client ends the call, its time limit, or the stop of the node.
pub(super) fn ingest(
    app: App,
    request: Request,
    deadline: CallDeadline,
    mut stop: watch::Receiver<bool>,
) -> Result<Response, GrpcError> {
    let client = RequestClient::of(request.extensions())?;
    let (head, body) = request.into_parts();
    let stated = stated_encoding(&head.headers)?;
    let (sender, response) = open_stream(StreamFormat::Grpc);
    tokio::spawn(async move {
        let mut messages = MessageStream::new(body);
        let ended = loop {
            // Between two batches the call may end; a batch that has begun is completed.
            let message = tokio::select! {
                biased;
                () = sender.closed() => return,
                () = wait_for_stop(&mut stop) => break Err(GrpcError::new(GrpcCode::UNAVAILABLE, "the node stops")),
                message = deadline.limit(messages.next()) => message.and_then(|message| message),
            };
            let result = match message {
                Ok(Some(message)) => take(&app, &client, message, stated, &sender).await,
                Ok(None) => break Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                break Err(error);
            }
        };
        let trailers = match ended {
            Ok(()) => HeaderMap::from_iter([ANSWERED]),
            Err(error) => refusal_headers(&error),
        };
        // Fails if the client is gone.
        let _ = sender.finish_with(trailers).await;
    });
    Ok(response)
}

/// Takes one batch and sends its reply. An error ends the call.
async fn take(
    app: &App,
    client: &ClientAccess,
    mut message: StreamedMessage<'_>,
    stated: Option<Encoding>,
    sender: &StreamSender,
) -> Result<(), GrpcError> {
    let encoding = message_encoding(message.is_compressed, stated)?;
    let length_max = app.bodies.event_text_bytes_max(encoding);
    if usize::try_from(message.length).is_ok_and(|length| length > length_max) {
        let message = format!("a batch has {} bytes; at most {length_max} are taken", message.length);
        return Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message));
    }
    let sequence = Arc::new(AtomicU64::new(0));
    let taken = append(app, client, &mut message, encoding, &sequence).await;
    let sequence = sequence.load(Ordering::Relaxed);
    let reply = match taken {
        Ok(Decoded { accepted, rejected, first_error }) => {
            let first_error = first_error.unwrap_or_default();
            BatchReply { sequence, accepted, rejected, first_error, ..BatchReply::default() }
        }
        // The client has stopped sending, or may no longer send.
        Err(BatchRefusal { error, .. })
            if matches!(error.code, GrpcCode::DEADLINE_EXCEEDED | GrpcCode::UNAUTHENTICATED) =>
        {
            return Err(error);
        }
        Err(BatchRefusal { error, accepted }) => BatchReply {
            sequence,
            accepted,
            code: u32::try_from(error.code.0).unwrap_or_default(),
            message: error.message,
            retry_after_s: error.retry_after_s,
            ..BatchReply::default()
        },
    };
    // What follows of a refused batch.
    message.skip(app.config.body_idle_timeout).await?;
    let mut framed = Vec::new();
    begin_message(&mut framed);
    framed.extend_from_slice(&reply.protobuf());
    let gone = |_| GrpcError::new(GrpcCode::UNAVAILABLE, "the client is gone");
    sender.send_all(sender.record_frames(end_message(framed))).await.map_err(gone)
}

/// Appends the records of a batch and waits for their durability.
async fn append(
    app: &App,
    client: &ClientAccess,
    message: &mut StreamedMessage<'_>,
    encoding: Encoding,
    sequence: &Arc<AtomicU64>,
) -> Result<Decoded, BatchRefusal> {
    if !client.is_valid() {
        return Err(GrpcError::new(GrpcCode::UNAUTHENTICATED, "the credential is no longer valid").into());
    }
    let delay = client.bytes_delay();
    if !delay.is_zero() {
        let retry_after_s = Some(u32::try_from(delay.as_secs()).unwrap_or(u32::MAX).saturating_add(1));
        let message = "the credential has sent more than its bytes per second: send again later";
        return Err(GrpcError { retry_after_s, ..GrpcError::new(GrpcCode::RESOURCE_EXHAUSTED, message) }.into());
    }
    refuse_if_overloaded(app)?;
    app.queue().check_accepting().map_err(ApiError::from)?;
    let request = BatchRequest { source: Source::Grpc, encoding, bytes_min: u64::from(message.length) };
    let sequence = Arc::clone(sequence);
    let plan = move |batch: &[u8]| {
        sequence.store(BatchHead::sequence_of(batch), Ordering::Relaxed);
        let head = BatchHead::read(batch)?;
        let key = (!head.key.is_empty()).then(|| head.key.clone());
        Ok::<_, BatchRefusal>((BatchPlan { durability: durability(head.durability)?, key }, head))
    };
    let bodies = app.bodies.of_client(client);
    let decoded =
        bodies.ingest_batch(request, message, plan, |batch, head, sink| decode_records(batch, &head.labels, sink));
    Ok(decoded.await??)
}

/// The durability with a number.
fn durability(number: u64) -> Result<Durability, GrpcError> {
    match number {
        0 => Ok(Durability::Fast),
        1 => Ok(Durability::Durable),
        2 => Ok(Durability::Bulk),
        other => Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, format!("durability {other} is not known"))),
    }
}
