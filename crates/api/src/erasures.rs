//! Handlers of erasures: what they would erase, the request, and the state on all nodes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bucksaw_auth::ClientAccess;
use bucksaw_query::Request;
use bucksaw_record::{Id, LabelScope, Labels, Millis, Producer};
use bucksaw_store::erasure::{Erasure, ErasureError, ErasureSpread, MemberOutcome, MemberReport, ReportedErasure};
use serde_json::{Value, json};

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::hints::Hints;
use crate::params::Params;
use crate::query::run_query;
use crate::render::format_time;

const ERASE_PARAMS: [&str; 5] = ["q", "from", "to", "tz", "dry_run"];

/// `POST /api/v1/erase`: erases the matching records of the streams that exist for the client, on all nodes. With `dry_run=true`
/// only counts them.
pub(crate) async fn erase(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&ERASE_PARAMS)?;
    let now = app.now();
    let (from, to) = params.past_range(now)?;
    let id = Id::new(now, Producer::random(app.env.entropy.next_u64()), 0);
    let erasure = Erasure::new(id, &params.expr()?, (from, to), client.scope());
    let erasure = erasure.map_err(|error| ApiError::bad_request(error.to_string()))?;
    match params.text("dry_run")?.unwrap_or_default() {
        "true" => return dry_run(&app, &client, &params, &erasure).await,
        "" | "false" => {}
        other => return Err(ApiError::bad_request(format!("dry_run is true or false, not `{other}`"))),
    }
    let spread = spread_of(&app)?.clone();
    // A client that disconnects does not stop it halfway.
    let requested = erasure.clone();
    let outcomes = tokio::spawn(async move { spread.request(requested).await });
    let outcomes = outcomes.await.map_err(|_| ApiError::internal())?.map_err(|error| failure(&error))?;
    let mut document = object(&erasure);
    document["complete"] = outcomes.iter().all(|outcome| outcome.failure.is_none()).into();
    document["nodes"] = outcomes.iter().map(outcome_object).collect();
    document["notes"] = json!(notes(&app));
    Ok(Json(document))
}

/// `GET /api/v1/erasures`: the erasures of the streams that exist for the client, with their state on each node.
pub(crate) async fn erasures(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&["id"])?;
    let spread = spread_of(&app)?;
    let id = params.id("id")?;
    let reports = spread.report(id).await;
    let mut known: Vec<&ReportedErasure> = Vec::new();
    for report in &reports {
        for reported in report.erasures.iter().flatten() {
            if is_visible(&client, &reported.erasure)
                && !known.iter().any(|known| known.erasure.id == reported.erasure.id)
            {
                known.push(reported);
            }
        }
    }
    known.sort_by_key(|reported| reported.erasure.id);
    if let Some(id) = id.filter(|_| known.is_empty()) {
        return Err(ApiError::new(StatusCode::NOT_FOUND, format!("there is no erasure {id}")));
    }
    let erasures: Vec<Value> = known.into_iter().map(|reported| state_object(&reported.erasure, &reports)).collect();
    let damaged = spread.book().map(|book| book.damaged_files()).unwrap_or_default();
    Ok(Json(json!({ "erasures": erasures, "damaged_files": damaged })))
}

/// Counts what an erasure would select.
async fn dry_run(
    app: &App,
    client: &ClientAccess,
    params: &Params,
    erasure: &Erasure,
) -> Result<Json<Value>, ApiError> {
    // Without labels, a scope has all streams but those of Bucksaw itself, which no erasure selects.
    let scope = client.scope().cloned().unwrap_or_default();
    let request = Request::new(params.expr()?, erasure.from, erasure.to).within(Some(without_reserved(scope)?));
    let (count, stats) = run_query(app, Hints::default(), |permit| app.answers.count(request, permit)).await?;
    let mut document = object(erasure);
    document["id"] = Value::Null;
    document["count"] = count.into();
    document["stats"] = stats;
    document["notes"] = json!(notes(app));
    Ok(Json(document))
}

fn without_reserved(scope: LabelScope) -> Result<LabelScope, ApiError> {
    match scope.labels().is_reserved() {
        true => Err(ApiError::bad_request("records that Bucksaw writes itself cannot be erased")),
        false => Ok(scope),
    }
}

fn spread_of(app: &App) -> Result<&ErasureSpread, ApiError> {
    let message = "this node stores its records in a database, which has no erasures: delete the rows there";
    let spread = app.erasures.as_ref().filter(|spread| spread.book().is_some());
    spread.ok_or_else(|| ApiError::new(StatusCode::NOT_IMPLEMENTED, message))
}

fn failure(error: &ErasureError) -> ApiError {
    match error {
        ErasureError::Invalid(_) => ApiError::bad_request(error.to_string()),
        ErasureError::TooMany => ApiError::new(StatusCode::CONFLICT, error.to_string()),
        _ => ApiError::unavailable(error.to_string()),
    }
}

/// Copies that erasures do not reach.
fn notes(app: &App) -> Vec<&'static str> {
    let sink = app.engine().store().status().sink.is_some();
    let sink =
        sink.then_some("records that were sent to ClickHouse besides the segments stay there: delete them there");
    sink.into_iter().collect()
}

/// Whether an erasure is only about streams that exist for the client.
fn is_visible(client: &ClientAccess, erasure: &Erasure) -> bool {
    let labels = Labels::parse(&erasure.scope).unwrap_or_default();
    client.scope().is_none_or(|scope| scope.labels().iter().all(|(name, value)| labels.get(name) == Some(value)))
}

fn object(erasure: &Erasure) -> Value {
    let Erasure { id, expr, from, to, scope } = erasure;
    let mut object = json!({ "id": id, "q": expr, "to": format_time(Some(*to)) });
    if *from > Millis(0) {
        object["from"] = format_time(Some(*from)).into();
    }
    if !scope.is_empty() {
        object["labels"] = scope.as_str().into();
    }
    object
}

fn outcome_object(outcome: &MemberOutcome) -> Value {
    let MemberOutcome { node, failure } = outcome;
    match failure {
        None => json!({ "node": node, "state": "in effect" }),
        Some(failure) => json!({ "node": node, "state": "not reached", "failure": failure }),
    }
}

fn state_object(erasure: &Erasure, reports: &[MemberReport]) -> Value {
    let states: Vec<Value> = reports.iter().map(|report| node_object(erasure, report)).collect();
    let mut object = object(erasure);
    object["done"] = states.iter().all(|state| state["state"] == "done").into();
    object["nodes"] = states.into();
    object
}

fn node_object(erasure: &Erasure, report: &MemberReport) -> Value {
    let node = report.node;
    let reported = match &report.erasures {
        Err(failure) => return json!({ "node": node, "state": "not reached", "failure": failure }),
        Ok(erasures) => erasures.iter().find(|reported| reported.erasure.id == erasure.id),
    };
    let Some(ReportedErasure { status, .. }) = reported else {
        return json!({ "node": node, "state": "unknown", "failure": "the node does not have the erasure yet" });
    };
    let is_waiting = status.segments_left > 0 || status.queue_segments_left > 0;
    let state = match status.is_done {
        true => "done",
        false if is_waiting => "working",
        false => "damaged files",
    };
    json!({
        "node": node,
        "state": state,
        "segments": status.progress.segments,
        "records": status.progress.records,
        "bytes": status.progress.bytes,
        "trash_files": status.progress.trash_files,
        "segments_left": status.segments_left,
        "queue_segments_left": status.queue_segments_left,
        "damaged": status.damaged,
    })
}

#[cfg(test)]
mod tests;
