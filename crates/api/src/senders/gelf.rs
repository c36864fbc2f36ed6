//! GELF over HTTP.

use axum::extract::{Request, State};
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_protocols::gelf::{GelfAnswer, GelfDecoder};

use super::{BodyPlan, SenderRequest, answer, ingest};
use crate::app::App;

/// `POST /gelf`.
pub(super) async fn messages(State(app): State<App>, request: Request) -> Response {
    let decoded = ingest(&app, BodyPlan::of(Source::Gelf), SenderRequest::from(request), |labels, body, sink| {
        GelfDecoder::new(labels).body(body, sink)
    });
    match decoded.await {
        Ok(Ok(_)) => respond(GelfAnswer::accepted()),
        Ok(Err(error)) => respond(GelfAnswer::refused(&error)),
        Err(error) => {
            let refused = GelfAnswer { status: error.status().as_u16(), body: format!("{}\n", error.message()) };
            error.with_retry_after(respond(refused))
        }
    }
}

fn respond(GelfAnswer { status, body }: GelfAnswer) -> Response {
    answer(status, "text/plain; charset=utf-8", body)
}
