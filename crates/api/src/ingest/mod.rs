//! `POST /api/v1/ingest`: lines or NDJSON in, packed or not, with the promise that the client wants.
//!
//! The body is worked on as it comes, a piece at a time, so its length does not matter. Records go to the queue when
//! [`PIECE_BYTES`](pipeline::PIECE_BYTES) of them are together or the body ends: a body up to that size is taken whole or
//! not at all. All bodies together have a bounded memory, of which each holds a [`Share`](budget::Share). When something goes wrong in a longer one, the answer says how many records were accepted before.

mod body;
mod budget;
mod feed;
mod key_sync;
mod ndjson;
mod pipeline;
mod promise;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_doors::Entropy;
use bucksaw_ingest::guide::{Guide, How, Port};
use bucksaw_ingest::{Batch, Durability};
use bucksaw_record::{Id, Labels, Producer};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
pub(crate) use body::Unpacker;
pub(crate) use budget::Budget;
use feed::feed;
pub(crate) use key_sync::KeySync;
use pipeline::{Kind, Numbers, PIECE_BYTES, Pipeline};
use promise::Promise;

/// From this level on others are named in each answer.
const NAMED_FROM: u8 = 2;

/// A key is an identifier, not a document.
const KEY_BYTES_MAX: usize = 256;

/// The header that names the HTTP addresses of nodes with less to do, a comma between them.
const ELSEWHERE: &str = "bucksaw-elsewhere";

pub(crate) async fn ingest(State(app): State<App>, query: RawQuery, headers: HeaderMap, body: Body) -> Response {
    let (guide, entropy) = (app.queue().guide(), &*app.doors.entropy);
    let mut response = if guide.shuts(Port::Http) {
        guide.count(How::Refused);
        ApiError::overloaded().into_response()
    } else {
        take(app.clone(), query, headers, body).await.into_response()
    };
    if let Some(others) = elsewhere(guide, entropy)
        && let Ok(others) = HeaderValue::try_from(others.join(","))
    {
        response.headers_mut().insert(ELSEWHERE, others);
    }
    response
}

/// The others that an answer names, best first.
fn elsewhere(guide: &Guide, entropy: &dyn Entropy) -> Option<Vec<String>> {
    if guide.advice().level >= NAMED_FROM {
        return Some(guide.named(Port::Http, entropy)).filter(|others| !others.is_empty());
    }
    let (_, others) = guide.turn(Port::Http, None, entropy)?;
    guide.count(How::Suggested);
    Some(others)
}

async fn take(app: App, query: RawQuery, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    let params = Params::parse(query.0.unwrap_or_default().as_bytes());
    params.only(&["durability", "label"])?;
    let durability: Durability = params.text("durability")?.unwrap_or("fast").parse().map_err(ApiError::bad)?;
    let kind = kind_of(&headers)?;
    let labels = labels_of(&params)?;
    app.queue().check_halt()?;
    let numbers = match key_of(&headers)? {
        Some(key) => Numbers::Keyed(Batch::new(key, &about(kind, &labels))),
        None => Numbers::Next(Id::new(app.now(), Producer::drawn(app.doors.entropy.next_u64()), 0)),
    };
    let promise = Promise::default();
    let mut pipeline = Pipeline::new(app.clone(), kind, labels, durability, numbers, promise.clone());
    if axum::body::HttpBody::size_hint(&body).lower() > PIECE_BYTES as u64 {
        pipeline.divide();
    }
    let unpacker = Unpacker::new(encoding_of(&headers)?, pipeline, app.config.unpacked_bytes_max)?;
    let pipeline = feed(&app, body, unpacker).await?;
    if durability == Durability::Bulk {
        app.queue().flush_bulk();
    }
    let (accepted, rejected) = (pipeline.accepted(), pipeline.rejected());
    let kept = async { promise.kept().await.map_err(|refusal| ApiError::from(refusal).after(0)) };
    if durability != Durability::Fast && pipeline.batch().is_some_and(Batch::rests_on_memory) {
        tokio::try_join!(kept, app.key_sync.upto(app.queue()))?;
    } else {
        kept.await?;
    }
    if accepted == 0 && rejected > 0 {
        let first = pipeline.errors().first().map(|(line, error)| format!("line {line}: {error}"));
        return Err(ApiError::bad(format!("no record was accepted: {}", first.unwrap_or_default())));
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

fn kind_of(headers: &HeaderMap) -> Result<Kind, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("text/plain");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json" => Ok(Kind::Ndjson),
        // `curl --data-binary` says that it sends a form.
        "application/x-www-form-urlencoded" | "application/octet-stream" => Ok(Kind::Lines),
        text if text.starts_with("text/") => Ok(Kind::Lines),
        other => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("Content-Type {other} is not known: send lines as text/plain, or records as application/x-ndjson"),
        )),
    }
}

/// What makes the records of a body what they are, beside its text.
fn about(kind: Kind, labels: &Labels) -> Vec<u8> {
    let mut about = vec![match kind {
        Kind::Lines => 0,
        Kind::Ndjson => 1,
    }];
    labels.encode(&mut about);
    about
}

fn encoding_of(headers: &HeaderMap) -> Result<&str, ApiError> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str());
    encoding.transpose().map(Option::unwrap_or_default).map_err(|_| ApiError::bad("Content-Encoding is not text"))
}

fn labels_of(params: &Params) -> Result<Labels, ApiError> {
    let mut pairs = Vec::new();
    for label in params.all("label") {
        let text = str::from_utf8(label).map_err(|_| ApiError::bad("label: not UTF-8"))?;
        let (name, value) = text.split_once('=').ok_or_else(|| ApiError::bad(format!("label: `{text}` is not k=v")))?;
        pairs.push((name, value));
    }
    Labels::new(pairs).map_err(|error| ApiError::bad(format!("label: {error}")))
}

fn key_of(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let key = headers.get("idempotency-key").map(axum::http::HeaderValue::as_bytes).filter(|key| !key.is_empty());
    match key {
        Some(key) if key.len() > KEY_BYTES_MAX => {
            Err(ApiError::bad(format!("Idempotency-Key is longer than {KEY_BYTES_MAX} bytes")))
        }
        key => Ok(key),
    }
}

#[cfg(test)]
mod tests;
