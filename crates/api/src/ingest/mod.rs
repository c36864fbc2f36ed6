//! Ingest over HTTP: parameters, headers and replies.
//!
//! [`bucksaw_sources::http`] reads, decompresses and appends the body.

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::ClientAccess;
use bucksaw_record::Millis;
use bucksaw_record::time::{self, TimeZone};
use bucksaw_sources::http::{BodyFormat, IngestReply, IngestRequest};
use bucksaw_steering::ListenerKind;
use serde_json::{Value, json};

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::ingest_params::{BodyFrames, content_encoding, durability_param, idempotency_key, label_params, media_type};
use crate::params::Params;
use crate::senders::{SenderRequest, json};

/// The header with the HTTP addresses of less loaded nodes, separated by commas.
const REDIRECT_HEADER: &str = "bucksaw-redirect";

pub(crate) async fn ingest(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut response = if app.shedder.refuses_unredirectable(ListenerKind::Http) {
        app.shedder.count_refused();
        ApiError::overloaded().into_response()
    } else {
        ingest_body(app.clone(), client, query, headers, body).await.into_response()
    };
    let targets = app.shedder.http_reply_targets(&*app.env.entropy);
    if !targets.is_empty()
        && let Ok(targets) = HeaderValue::try_from(targets.join(","))
    {
        response.headers_mut().insert(REDIRECT_HEADER, targets);
    }
    response
}

async fn ingest_body(
    app: App,
    client: ClientAccess,
    query: RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let query = query.0.unwrap_or_default();
    let params = Params::parse(query.as_bytes());
    params.reject_unknown(&[
        "durability",
        "label",
        "time_field",
        "message_field",
        "label_fields",
        "time_from",
        "time_zone",
        "batch_time",
    ])?;
    let names_members = json::PARAMS.iter().any(|name| params.bytes(name).is_some());
    if names_members || media_type(&headers).is_some_and(|media_type| media_type == "application/json") {
        let request = SenderRequest { method: Method::POST, path: String::new(), query, headers, body, client };
        return json::ingest_objects(&app, request).await;
    }
    let durability = durability_param(&params)?;
    let format = body_format(&headers)?;
    let labels = label_params(&params, None)?;
    let line_zone = line_zone(&params)?;
    let key = idempotency_key(&headers)?;
    let batch_time = batch_time(&params, key.is_some(), Millis(app.env.clock.unix_ms()))?;
    app.queue().check_accepting()?;
    let request = IngestRequest {
        format,
        line_zone,
        labels,
        durability,
        key,
        batch_time,
        encoding: content_encoding(&headers)?,
        bytes_min: axum::body::HttpBody::size_hint(&body).lower(),
    };
    let reply = app.bodies.of_client(&client).ingest(request, BodyFrames(body)).await?;
    Ok(Json(reply_json(&reply)?).into_response())
}

/// The reply to a body of which all or some records were accepted.
fn reply_json(reply: &IngestReply) -> Result<Value, ApiError> {
    let IngestReply { accepted, rejected, line_errors } = reply;
    if *accepted == 0 && *rejected > 0 {
        let first = line_errors.first().map(|(line, error)| format!("line {line}: {error}"));
        return Err(ApiError::bad_request(format!("no record was accepted: {}", first.unwrap_or_default())));
    }
    let mut json = json!({ "accepted": accepted, "rejected": rejected });
    if *rejected > 0 {
        let errors = line_errors.iter().map(|(line, error)| json!({ "line": line, "error": error }));
        json["errors"] = errors.collect();
    }
    Ok(json)
}

fn body_format(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    let media_type = media_type(headers).unwrap_or_else(|| "text/plain".to_owned());
    match media_type.as_str() {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(BodyFormat::Ndjson),
        // `curl --data-binary` sends the media type of a form.
        "application/x-www-form-urlencoded" | "application/octet-stream" => Ok(BodyFormat::Lines),
        text if text.starts_with("text/") => Ok(BodyFormat::Lines),
        other => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("Content-Type {other} is not known: send lines as text/plain, or records as application/x-ndjson"),
        )),
    }
}

/// The zone of the times in lines, with `time_from=line`.
fn line_zone(params: &Params) -> Result<Option<TimeZone>, ApiError> {
    let zone = params.text("time_zone")?;
    match params.text("time_from")?.unwrap_or("arrival") {
        "line" => {
            let zone = time::parse_zone(zone.unwrap_or("UTC"));
            zone.map(Some).map_err(|error| ApiError::bad_request(format!("time_zone: {error}")))
        }
        "arrival" if zone.is_some() => Err(ApiError::bad_request("time_zone: needs time_from=line")),
        "arrival" => Ok(None),
        other => Err(ApiError::bad_request(format!("time_from: `{other}` is neither line nor arrival"))),
    }
}

/// The time of a batch with a key.
fn batch_time(params: &Params, has_key: bool, now: Millis) -> Result<Option<Millis>, ApiError> {
    let Some(text) = params.text("batch_time")? else { return Ok(None) };
    if !has_key {
        return Err(ApiError::bad_request("batch_time: needs an Idempotency-Key"));
    }
    let stated = time::event_time_text(text.as_bytes()).or_else(|| time::event_time_number(text));
    match stated {
        Some((at, _)) if !at.clamp_future(now).1 => Ok(Some(at)),
        Some(_) => Err(ApiError::bad_request("batch_time: more than an hour ahead of the clock of the node")),
        None => Err(ApiError::bad_request(format!("batch_time: `{text}` is neither RFC 3339 nor a number since 1970"))),
    }
}

#[cfg(test)]
mod tests;
