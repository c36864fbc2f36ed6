//! Handlers of the lists of streams and labels.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use bucksaw_auth::ClientAccess;
use bucksaw_query::{Order, StreamSize, Streams};
use serde_json::{Value, json};

use crate::access::RequestClient;
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
pub(crate) async fn streams(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Response, ApiError> {
    let limit = limit(&params, STREAMS_DEFAULT, STREAMS_MAX)?;
    let (streams, stats) = list(&app, &client, &params).await?;
    let end = streams_end(&streams, &stats);
    let shown = streams.streams.into_iter().take(limit).map(|stream| stream_object(&stream));
    send_document(&app, render::document("streams", shown, end.into_bytes()))
}

/// The end of an answer, after its streams.
fn streams_end(found: &Streams, stats: &Value) -> String {
    let mut end = format!("],\"distinct\":{}", found.streams.len());
    for (name, is_set) in [("approximate", found.is_approximate), ("cut", found.is_cut)] {
        if is_set {
            end.push_str(&format!(",\"{name}\":true"));
        }
    }
    end + &format!(",\"stats\":{stats}}}\n")
}

/// `GET /api/v1/labels`: the labels of the streams, with their values.
pub(crate) async fn labels(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Response, ApiError> {
    let limit = limit(&params, VALUES_DEFAULT, VALUES_MAX)?;
    let (Streams { streams, is_cut, .. }, stats) = list(&app, &client, &params).await?;
    let labels = labels_of(streams);
    let end = labels_end(is_cut, &stats);
    let shown = labels.into_iter().map(move |(name, values)| label_object(&name, values, limit));
    send_document(&app, render::document("labels", shown, end.into_bytes()))
}

/// The end of an answer, after its labels.
fn labels_end(is_cut: bool, stats: &Value) -> String {
    let cut = if is_cut { ",\"cut\":true" } else { "" };
    format!("]{cut},\"stats\":{stats}}}\n")
}

/// The labels of streams: the number of streams by name and value.
fn labels_of(streams: Vec<StreamSize>) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut labels = BTreeMap::<String, BTreeMap<String, u64>>::new();
    for stream in streams {
        for (name, value) in stream.labels.iter() {
            *labels.entry(name.to_owned()).or_default().entry(value.to_owned()).or_default() += 1;
        }
    }
    labels
}

fn limit(params: &Params, default: u64, max: u64) -> Result<usize, ApiError> {
    let limit = params.number("limit")?.unwrap_or(default);
    if limit > max {
        return Err(ApiError::bad_request(format!("limit is at most {max}")));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

async fn list(app: &App, client: &ClientAccess, params: &Params) -> Result<(Streams, Value), ApiError> {
    params.reject_unknown(&["q", "from", "to", "tz", "limit"])?;
    let request = params.request(client, app.now(), Order::Ascending)?;
    run_query(app, Hints::default(), |permit| app.answers.streams(request, permit)).await
}

fn stream_object(stream: &StreamSize) -> Value {
    let labels: serde_json::Map<String, Value> =
        stream.labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let text = stream.labels.to_string();
    json!({ "labels": labels, "text": text, "records": stream.records, "bytes": stream.bytes })
}

/// A label with its values, most streams first.
fn label_object(name: &str, values: BTreeMap<String, u64>, limit: usize) -> Value {
    let distinct = values.len();
    let mut values: Vec<(String, u64)> = values.into_iter().collect();
    values.sort_by_key(|(_, streams)| std::cmp::Reverse(*streams));
    let value = |(value, streams)| json!({ "value": value, "streams": streams });
    let values: Vec<Value> = values.into_iter().take(limit).map(value).collect();
    json!({ "name": name, "values": values, "distinct": distinct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_and_missing_streams_are_flagged() {
        let check = |is_approximate, is_cut, want: &str| {
            let found = Streams { streams: Vec::new(), is_approximate, is_cut };
            assert_eq!(streams_end(&found, &json!({})), format!("],\"distinct\":0{want},\"stats\":{{}}}}\n"));
        };
        check(false, false, "");
        check(true, false, ",\"approximate\":true");
        check(false, true, ",\"cut\":true");
        check(true, true, ",\"approximate\":true,\"cut\":true");
        assert_eq!(labels_end(false, &json!({})), "],\"stats\":{}}\n");
        assert_eq!(labels_end(true, &json!({})), "],\"cut\":true,\"stats\":{}}\n");
    }
}
