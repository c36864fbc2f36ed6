//! `POST /api/v1/ingest`: lines or NDJSON in, packed or not, with the promise that the client wants.
//!
//! The body is worked on as it comes, a piece at a time, so its length does not matter. Records go to the queue when
//! [`PIECE_BYTES`](pipeline::PIECE_BYTES) of them are together or the body ends: a body up to that size is taken whole or
//! not at all. All bodies together have a bounded memory, of which each holds a [`Share`](budget::Share). When something fails in a longer one, the answer says how many records were accepted before.

mod body;
mod body_memory;
mod durability;
mod key_sync;
mod ndjson;
mod pipeline;
mod reader;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_env::Entropy;
use bucksaw_ingest::load_shedder::{ListenerKind, LoadShedder, RedirectKind};
use bucksaw_ingest::{Durability, IdempotentBatch};
use bucksaw_record::{Id, Labels, Producer};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
pub(crate) use body::Decompressor;
pub(crate) use body_memory::BodyMemory;
use durability::DurabilityWait;
pub(crate) use key_sync::KeySync;
use pipeline::{BUFFER_BYTES, BodyFormat, IdAssignment, Pipeline};
use reader::read_body;

/// From this level on others are named in each answer.
const REDIRECT_LEVEL_MIN: u8 = 2;

/// A key is an identifier, not a document.
const KEY_BYTES_MAX: usize = 256;

/// The header that names the HTTP addresses of nodes with less to do, a comma between them.
const REDIRECT_HEADER: &str = "bucksaw-redirect";

pub(crate) async fn ingest(State(app): State<App>, query: RawQuery, headers: HeaderMap, body: Body) -> Response {
    let (guide, entropy) = (app.queue().load_shedder(), &*app.env.entropy);
    let mut response = if guide.refuses_unredirectable(ListenerKind::Http) {
        guide.count_redirect(RedirectKind::Refused);
        ApiError::overloaded().into_response()
    } else {
        ingest_body(app.clone(), query, headers, body).await.into_response()
    };
    if let Some(others) = redirect_targets(guide, entropy)
        && let Ok(others) = HeaderValue::try_from(others.join(","))
    {
        response.headers_mut().insert(REDIRECT_HEADER, others);
    }
    response
}

/// The others that an answer names, best first.
fn redirect_targets(guide: &LoadShedder, entropy: &dyn Entropy) -> Option<Vec<String>> {
    if guide.policy().level >= REDIRECT_LEVEL_MIN {
        return Some(guide.redirect_targets(ListenerKind::Http, entropy)).filter(|others| !others.is_empty());
    }
    let (_, others) = guide.try_redirect(ListenerKind::Http, None, entropy)?;
    guide.count_redirect(RedirectKind::Suggested);
    Some(others)
}

async fn ingest_body(app: App, query: RawQuery, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    let params = Params::parse(query.0.unwrap_or_default().as_bytes());
    params.reject_unknown(&["durability", "label"])?;
    let durability: Durability = params.text("durability")?.unwrap_or("fast").parse().map_err(ApiError::bad_request)?;
    let kind = body_format(&headers)?;
    let labels = label_params(&params)?;
    app.queue().check_accepting()?;
    let numbers = match idempotency_key(&headers)? {
        Some(key) => IdAssignment::Keyed(IdempotentBatch::new(key, &batch_context(kind, &labels))),
        None => IdAssignment::Sequential(Id::new(app.now(), Producer::random(app.env.entropy.next_u64()), 0)),
    };
    let durability_wait = DurabilityWait::default();
    let mut pipeline = Pipeline::new(app.clone(), kind, labels, durability, numbers, durability_wait.clone());
    if axum::body::HttpBody::size_hint(&body).lower() > BUFFER_BYTES as u64 {
        pipeline.set_streamed();
    }
    let unpacker = Decompressor::new(content_encoding(&headers)?, pipeline, app.config.unpacked_bytes_max)?;
    let pipeline = read_body(&app, body, unpacker).await?;
    if durability == Durability::Bulk {
        app.queue().flush_bulk();
    }
    let (accepted, rejected) = (pipeline.accepted(), pipeline.rejected());
    let durable = async { durability_wait.wait().await.map_err(|refusal| ApiError::from(refusal).with_accepted(0)) };
    if durability != Durability::Fast && pipeline.batch().is_some_and(IdempotentBatch::depends_on_remembered_key) {
        tokio::try_join!(durable, app.key_sync.wait_synced(app.queue()))?;
    } else {
        durable.await?;
    }
    if accepted == 0 && rejected > 0 {
        let first = pipeline.errors().first().map(|(line, error)| format!("line {line}: {error}"));
        return Err(ApiError::bad_request(format!("no record was accepted: {}", first.unwrap_or_default())));
    }
    let mut answer = json!({ "accepted": accepted, "rejected": rejected });
    if rejected > 0
        && let Some(fields) = answer.as_object_mut()
    {
        let errors = pipeline.errors().iter().map(|(line, error)| json!({ "line": line, "error": error }));
        fields.insert("errors".to_owned(), errors.collect());
    }
    Ok(Json(answer))
}

fn body_format(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("text/plain");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json" => {
            Ok(BodyFormat::Ndjson)
        }
        // `curl --data-binary` says that it sends a form.
        "application/x-www-form-urlencoded" | "application/octet-stream" => Ok(BodyFormat::Lines),
        text if text.starts_with("text/") => Ok(BodyFormat::Lines),
        other => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("Content-Type {other} is not known: send lines as text/plain, or records as application/x-ndjson"),
        )),
    }
}

/// What makes the records of a body what they are, beside its text.
fn batch_context(kind: BodyFormat, labels: &Labels) -> Vec<u8> {
    let mut about = vec![match kind {
        BodyFormat::Lines => 0,
        BodyFormat::Ndjson => 1,
    }];
    labels.encode(&mut about);
    about
}

fn content_encoding(headers: &HeaderMap) -> Result<&str, ApiError> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str());
    encoding
        .transpose()
        .map(Option::unwrap_or_default)
        .map_err(|_| ApiError::bad_request("Content-Encoding is not text"))
}

fn label_params(params: &Params) -> Result<Labels, ApiError> {
    let mut pairs = Vec::new();
    for label in params.all("label") {
        let text = str::from_utf8(label).map_err(|_| ApiError::bad_request("label: not UTF-8"))?;
        let (name, value) =
            text.split_once('=').ok_or_else(|| ApiError::bad_request(format!("label: `{text}` is not k=v")))?;
        pairs.push((name, value));
    }
    Labels::new(pairs).map_err(|error| ApiError::bad_request(format!("label: {error}")))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let key = headers.get("idempotency-key").map(axum::http::HeaderValue::as_bytes).filter(|key| !key.is_empty());
    match key {
        Some(key) if key.len() > KEY_BYTES_MAX => {
            Err(ApiError::bad_request(format!("Idempotency-Key is longer than {KEY_BYTES_MAX} bytes")))
        }
        key => Ok(key),
    }
}

#[cfg(test)]
mod tests;
