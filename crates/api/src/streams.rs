//! Handlers of the lists of streams and labels.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use bucksaw_query::{Order, StreamSize, Streams};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::hints::Hints;
use crate::params::Params;
use crate::query::{run_query, send_document};
use crate::render;

/// Streams in an answer by default, and at most.
const STREAMS_DEFAULT: u64 = 50;
const STREAMS_MAX: u64 = 10_000;

/// Values of each label in an answer by default, and at most.
const VALUES_DEFAULT: u64 = 100;
const VALUES_MAX: u64 = 10_000;

/// `GET /api/v1/streams`: the streams with most records.
pub(crate) async fn streams(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let limit = limit(&params, STREAMS_DEFAULT, STREAMS_MAX)?;
    let (Streams { streams, is_approximate, is_cut }, stats) = list(&app, &params).await?;
    let distinct = streams.len();
    let mut end = format!("],\"distinct\":{distinct}");
    for (name, is_set) in [("approximate", is_approximate), ("cut", is_cut)] {
        if is_set {
            end.push_str(&format!(",\"{name}\":true"));
        }
    }
    end.push_str(&format!(",\"stats\":{stats}}}\n"));
    let shown = streams.into_iter().take(limit).map(|stream| stream_object(&stream));
    send_document(&app, render::document("streams", shown, end.into_bytes()))
}

/// `GET /api/v1/labels`: the labels of the streams, with their values.
pub(crate) async fn labels(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let limit = limit(&params, VALUES_DEFAULT, VALUES_MAX)?;
    let (Streams { streams, is_cut, .. }, stats) = list(&app, &params).await?;
    let mut labels = BTreeMap::<String, BTreeMap<String, u64>>::new();
    for stream in streams {
        for (name, value) in stream.labels.iter() {
            *labels.entry(name.to_owned()).or_default().entry(value.to_owned()).or_default() += 1;
        }
    }
    let cut = if is_cut { ",\"cut\":true" } else { "" };
    let end = format!("]{cut},\"stats\":{stats}}}\n").into_bytes();
    let shown = labels.into_iter().map(move |(name, values)| label_object(&name, values, limit));
    send_document(&app, render::document("labels", shown, end))
}

fn limit(params: &Params, default: u64, max: u64) -> Result<usize, ApiError> {
    let limit = params.number("limit")?.unwrap_or(default);
    if limit > max {
        return Err(ApiError::bad_request(format!("limit is at most {max}")));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

async fn list(app: &App, params: &Params) -> Result<(Streams, Value), ApiError> {
    params.reject_unknown(&["q", "from", "to", "tz", "limit"])?;
    let request = params.request(app.now(), Order::Ascending)?;
    run_query(app, Hints::default(), |permit| app.answers.streams(request, permit)).await
}

fn stream_object(stream: &StreamSize) -> Value {
    let labels: serde_json::Map<String, Value> =
        stream.labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let text = stream.labels.to_string();
    json!({ "labels": labels, "text": text, "records": stream.records, "bytes": stream.bytes })
}

/// A label with its values, those of most streams first.
fn label_object(name: &str, values: BTreeMap<String, u64>, limit: usize) -> Value {
    let distinct = values.len();
    let mut values: Vec<(String, u64)> = values.into_iter().collect();
    values.sort_by_key(|(_, streams)| std::cmp::Reverse(*streams));
    let value = |(value, streams)| json!({ "value": value, "streams": streams });
    let values: Vec<Value> = values.into_iter().take(limit).map(value).collect();
    json!({ "name": name, "values": values, "distinct": distinct })
}
