//! GELF over HTTP.

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use bucksaw_ingest::Source;
use bucksaw_protocols::HttpAnswer;
use bucksaw_protocols::gelf::GelfDecoder;
use bucksaw_sources::http::Encoding;

use super::request::{BodyPlan, SenderRequest, answer, ingest};
use super::text_refusal;
use crate::app::App;

/// What `graypy` states of a body in the zlib format.
const GRAYPY_ENCODING: &str = "gzip,deflate";

/// `POST /gelf`.
pub(super) async fn messages(State(app): State<App>, request: Request) -> Response {
    let request = match SenderRequest::new(request) {
        Ok(request) => request,
        Err(error) => return text_refusal(&error),
    };
    let is_graypy = request.header(header::CONTENT_ENCODING.as_str()) == Some(GRAYPY_ENCODING);
    let plan = BodyPlan { encoding: is_graypy.then_some(Encoding::Deflate), ..BodyPlan::of(Source::Gelf) };
    let decoded =
        ingest(&app, plan, request, |labels, body, sink| GelfDecoder::new(labels, usize::MAX).body(body, sink));
    match decoded.await {
        Ok(Ok(_)) => respond(HttpAnswer::new(202, "")),
        Ok(Err(error)) => respond(error.answer()),
        Err(error) => text_refusal(&error),
    }
}

fn respond(HttpAnswer { status, body }: HttpAnswer) -> Response {
    answer(status, "text/plain; charset=utf-8", body.into_owned())
}
