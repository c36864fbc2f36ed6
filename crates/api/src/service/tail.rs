//! `Tail`.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_env::wait_for_stop;
use bucksaw_protocols::bucksaw_v1::write_notice;
use bucksaw_query::{SinkClosed, TailEvent, TailRecords, TailStream};
use tokio::sync::watch;

use super::record_messages::RecordMessage;
use super::request::{params, read};
use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::grpc::{ANSWERED, CallDeadline, GrpcCode, GrpcError, begin_message, end_message, refusal_headers};
use crate::permits::try_permit;
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// Answers `Tail` until the client cancels the call, its time limit, or the stop of the node.
pub(super) async fn tail(
    app: App,
    request: Request,
    deadline: CallDeadline,
    mut stop: watch::Receiver<bool>,
) -> Result<Response, GrpcError> {
    let client = RequestClient::of(request.extensions())?;
    let params = params(deadline.limit(read(&app, request)).await??)?;
    let expr = params.expr()?;
    let permit = try_permit(&app.tail_permits, "too many tails are open")?;
    let tail = app.answers.tail(&expr, client.scope().cloned()).map_err(ApiError::from)?;
    let (sender, response) = open_stream(StreamFormat::Grpc);
    tokio::spawn(async move {
        let _permit = permit;
        let ended = deadline.limit(async {
            tokio::select! {
                () = write_tail(tail, &sender) => Ok(()),
                () = wait_for_stop(&mut stop) => Err(GrpcError::new(GrpcCode::UNAVAILABLE, "the node stops")),
            }
        });
        let trailers = match ended.await.and_then(|ended| ended) {
            Ok(()) => HeaderMap::from_iter([ANSWERED]),
            Err(error) => refusal_headers(&error),
        };
        // Fails if the client is gone. One that reads nothing does not keep the tail.
        tokio::select! {
            _ = sender.finish_with(trailers) => {}
            () = sender.closed() => {}
        }
    });
    Ok(response)
}

/// Sends events until the client is gone or there is nothing more to follow.
async fn write_tail(mut tail: TailStream, sender: &StreamSender) {
    loop {
        let event = tokio::select! {
            biased;
            () = sender.closed() => return,
            event = tail.next() => event,
        };
        let Some(event) = event else { return };
        let notice = match event {
            TailEvent::Records(records) => match send_records(records, sender).await {
                Ok(()) => continue,
                Err(SinkClosed) => return,
            },
            TailEvent::Skipped { address, bytes } => {
                let of = address.map(|address| format!(" of node {address}")).unwrap_or_default();
                format!("{bytes} bytes{of} arrived faster than they were read and were skipped")
            }
            TailEvent::Lost { address, reason } => {
                format!("node {address} {reason}: it is not followed until it returns")
            }
            TailEvent::Joined { address } => format!("node {address} is followed from now on"),
            _ => continue,
        };
        let mut message = Vec::new();
        begin_message(&mut message);
        write_notice(&mut message, 2, &notice);
        if sender.send_all(sender.record_frames(end_message(message))).await.is_err() {
            return;
        }
    }
}

async fn send_records(mut records: TailRecords, sender: &StreamSender) -> Result<(), SinkClosed> {
    let mut message = RecordMessage::default();
    while let Some(is_full) = records.visit_next(|record| message.push(record)) {
        if is_full && let Some(message) = message.take() {
            sender.send_all(sender.record_frames(message)).await?;
        }
    }
    match message.take() {
        Some(message) => sender.send_all(sender.record_frames(message)).await,
        None => Ok(()),
    }
}
