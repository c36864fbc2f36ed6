//! `Query` and `Count`.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_protocols::bucksaw_v1::SearchRequest;
use bucksaw_query::Order;

use super::record_messages::{RecordMessageSink, push_statistics};
use super::request::{params, read};
use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::grpc::{self, ANSWERED, CallDeadline, GrpcCode, GrpcError, begin_message, end_message, refusal_headers};
use crate::hints::Hints;
use crate::permits::{QueryPermit, acquire_answer_permit};
use crate::query::run_query;
use crate::render;
use crate::stream::{StreamFormat, open_stream};

/// The number of the field with statistics.
const STATISTICS: u32 = 2;

/// Answers `Query`: messages with records, then one with the statistics.
pub(super) async fn query(app: App, request: Request, deadline: CallDeadline) -> Result<Response, GrpcError> {
    let client = RequestClient::of(request.extensions())?;
    let params = params(read(&app, request).await?)?;
    let request = params.request(&client, app.now(), Order::Ascending)?;
    let hints = Hints::of(&request, &params);
    let answer_permit = acquire_answer_permit(&app)?;
    let permit = QueryPermit::acquire(&app).await?;
    let started = app.env.clock.uptime();
    let records = app.answers.search(request).map_err(ApiError::from)?;
    let (sender, response) = open_stream(StreamFormat::Grpc);
    tokio::spawn(async move {
        let _answer_permit = answer_permit;
        let sink = RecordMessageSink::new(sender.clone(), permit);
        let answered = deadline.limit(async {
            let Some((sink, stats)) = records.write_to(sink).await else {
                return Err(GrpcError::new(GrpcCode::UNAVAILABLE, "the answer ended early: query again"));
            };
            let hints = hints.for_answer(&app, stats.matched, sink).await;
            let seconds = app.env.clock.uptime().saturating_sub(started).as_secs_f64();
            let mut message = Vec::new();
            begin_message(&mut message);
            push_statistics(&mut message, STATISTICS, &render::stats(&stats, seconds, &hints));
            Ok(end_message(message))
        });
        // Sending fails only when the client is gone.
        match answered.await.and_then(|answered| answered) {
            Ok(message) => {
                if sender.send_all(sender.record_frames(message)).await.is_ok() {
                    let _ = sender.finish_with(HeaderMap::from_iter([ANSWERED])).await;
                }
            }
            Err(error) => _ = sender.finish_with(refusal_headers(&error)).await,
        }
    });
    Ok(response)
}

/// Answers `Count`.
pub(super) async fn count(app: App, request: Request) -> Result<Response, GrpcError> {
    let client = RequestClient::of(request.extensions())?;
    let asked = read(&app, request).await?;
    // The message has no further fields.
    let asked = SearchRequest { limit: 0, order: 0, after: Vec::new(), ..asked };
    let params = params(asked)?;
    let request = params.request(&client, app.now(), Order::Ascending)?;
    let hints = Hints::of(&request, &params);
    let (count, stats) = run_query(&app, hints, |permit| app.answers.count(request, permit)).await?;
    let mut message = Vec::new();
    bucksaw_protocols::bucksaw_v1::write_count(&mut message, 1, count);
    push_statistics(&mut message, STATISTICS, &stats);
    Ok(grpc::answer(&message))
}
