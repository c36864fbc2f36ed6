//! Handlers for operators: cluster status, forget, history, metrics, health and readiness.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::Authenticator;
use bucksaw_cluster::{Cluster, ClusterVersion, DataSummary, ForgetError, IncompatiblePeer, Member};
use bucksaw_env::{Body, wait_for_stop};
use bucksaw_ingest::HaltReason;
use bucksaw_query::re_replicated_stores;
use bucksaw_steering::LoadShedder;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::{App, ClusterMembership};
use crate::error::ApiError;
use crate::history::SAMPLE_INTERVAL;
use crate::params::Params;
use crate::render::format_time;
use crate::replication;

/// Name of the call between nodes that returns [`node_status`].
const STATUS: &str = "node/status";

/// Time limit of a [`STATUS`] call, after which the node is shown with its gossiped facts.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

impl App {
    /// Adds the cluster to the status, and serves the status of this node to the others. Call it after
    /// [`Self::with_repair`].
    #[must_use]
    pub fn with_cluster(self, cluster: Arc<Cluster>, replication_factor: u32) -> Self {
        let app = self.clone();
        cluster.router().add(STATUS, move |_: Body| serve_status(app.clone()));
        self.changed(|app| app.membership = Some(ClusterMembership { cluster, replication_factor }))
    }
}

pub(crate) async fn cluster(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let own = node_status(app.clone()).await?;
    let Some(membership) = &app.membership else { return Ok(Json(json!({ "nodes": [own] }))) };
    let members = membership.cluster.members();
    let re_replicated = re_replicated_stores(&members, membership.replication_factor as usize);
    let statuses = members.iter().map(|member| async {
        let is_own = member.facts.node == membership.cluster.node_id();
        let reported = match member.is_live() {
            _ if is_own => Some(own.clone()),
            true => membership.cluster.call_json::<_, Value>(member, STATUS, &json!({}), STATUS_TIMEOUT).await.ok(),
            false => None,
        };
        let mut node = member_status(member, reported, is_own);
        if re_replicated.contains(&member.facts.node) {
            node["re_replicated"] = true.into();
        }
        node
    });
    let mut nodes = join_all(statuses).await;
    if members.is_empty() {
        // This node has not joined yet.
        nodes.push(own.clone());
    }
    let is_usable = |member: &&Member| member.facts.roles.store && member.is_live() && member.version_skew.is_none();
    let stores = match members.is_empty() {
        true => usize::from(app.info.roles.iter().any(|role| role == "store")),
        false => members.iter().filter(is_usable).count(),
    };
    let missing = (membership.replication_factor as usize).saturating_sub(stores);
    let peer = |peer: &IncompatiblePeer| json!({ "address": peer.address, "protocol": peer.protocol });
    let incompatible_peers: Vec<Value> = membership.cluster.incompatible_peers().iter().map(peer).collect();
    Ok(Json(json!({
        "replication": replication::cluster_status(&nodes, missing),
        "nodes": nodes,
        "queried_node": membership.cluster.node_id(),
        "replication_factor": membership.replication_factor,
        "stores_alive": stores,
        "stores_missing": missing,
        "protocol": ClusterVersion::OWN.to_string(),
        "incompatible_peers": incompatible_peers,
    })))
}

/// `POST /api/v1/forget`: removes a node that will not return from the member list.
pub(crate) async fn forget(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&["node"])?;
    let node =
        params.id("node")?.ok_or_else(|| ApiError::bad_request("the parameter `node` is missing: the id of a node"))?;
    let membership = app.membership.as_ref().ok_or_else(|| forget_failure(ForgetError::Unknown))?;
    membership.cluster.forget(node).await.map_err(forget_failure)?;
    Ok(Json(json!({ "forgotten": node.to_string() })))
}

fn forget_failure(error: ForgetError) -> ApiError {
    let status = match error {
        ForgetError::Unknown => StatusCode::NOT_FOUND,
        ForgetError::Live => StatusCode::CONFLICT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiError::new(status, error.to_string())
}

/// Serves [`STATUS`].
async fn serve_status(app: App) -> io::Result<Body> {
    let status = node_status(app).await.map_err(|_| io::Error::other("cannot read the status of the node"))?;
    Ok(Body::whole(serde_json::to_vec(&status)?))
}

/// The status that a node `reported`, else its gossiped facts; and its membership as this node sees it.
fn member_status(member: &Member, reported: Option<Value>, is_own: bool) -> Value {
    let facts = &member.facts;
    let is_unresponsive = reported.is_none();
    let mut node = reported.filter(Value::is_object).unwrap_or_else(|| {
        let span =
            |data: &DataSummary| json!({ "oldest": format_time(data.oldest), "newest": format_time(data.newest) });
        let roles = [("ingest", facts.roles.ingest), ("store", facts.roles.store)];
        let roles: Vec<&str> = roles.into_iter().filter(|role| role.1).map(|role| role.0).collect();
        let (mut queue, mut store) = (span(&facts.queue), span(&facts.stored));
        queue["pending_bytes"] = facts.queue.bytes.into();
        store["stored_bytes"] = facts.stored.bytes.into();
        json!({
            "id": facts.node,
            "roles": roles,
            "queue": queue,
            "store": store,
            "load": { "level": facts.load.level, "connections": facts.load.connections },
            "disk_free_bytes": facts.free_bytes,
        })
    });
    if is_unresponsive {
        node["state"] = if member.is_live() { "unresponsive" } else { member.state.name() }.into();
    }
    if !is_own {
        // A node that listens on all interfaces cannot report the address at which others reach it.
        let clients = &facts.clients;
        node["addresses"] = json!({ "cluster": facts.address.to_string() });
        for (name, address) in
            [("http", &clients.http), ("fast", &clients.fast), ("durable", &clients.durable), ("bulk", &clients.bulk)]
        {
            if let Some(address) = address {
                node["addresses"][name] = address.as_str().into();
            }
        }
    }
    node["membership"] = member.state.name().into();
    node["since"] = format_time(Some(member.since)).into();
    node["load"]["bytes_per_second"] = facts.load.bytes_per_second.into();
    node["protocol"] = facts.protocol_version().to_string().into();
    if let Some(skew) = member.version_skew.as_ref().filter(|_| member.is_live()) {
        node["version_skew"] = skew.as_str().into();
    }
    if let Some(address) = member.duplicate_at {
        node["duplicate_address"] = address.to_string().into();
    }
    node
}

/// Summary of the trash: segments that retention removed and that can still be restored.
fn trash(trashed: &[bucksaw_store::TrashedSegment]) -> Value {
    json!({
        "segments": trashed.len(),
        "records": trashed.iter().filter_map(|file| file.records).sum::<u64>(),
        "bytes": trashed.iter().map(|file| file.bytes).sum::<u64>(),
        "oldest": format_time(trashed.iter().map(|file| file.low).min()),
        "newest": format_time(trashed.iter().map(|file| file.high).max()),
    })
}

fn load(shedder: &LoadShedder) -> Value {
    let policy = shedder.policy();
    json!({
        "level": policy.load.level,
        "connections": shedder.connections(),
        "refusing": policy.is_refusing(),
    })
}

/// What is encrypted with which key; `null` for what is not encrypted.
fn encryption(status: &bucksaw_store::EncryptionStatus) -> Value {
    let key = |usage: &bucksaw_store::KeyUsage| {
        json!({
            "key": usage.key.map(|key| key.to_string()),
            "segments": usage.segments,
            "erasures": usage.erasures,
            "bytes": usage.bytes,
            "writing": usage.is_writing,
            "named": usage.is_named,
        })
    };
    let path = |segment: &bucksaw_store::KeylessSegment| format!("store/{}", segment.name);
    json!({
        "keys": status.keys.iter().map(key).collect::<Vec<Value>>(),
        "segments_without_key": status.keyless.iter().map(path).collect::<Vec<String>>(),
    })
}

async fn node_status(app: App) -> Result<Value, ApiError> {
    // It may list a directory, so it must not run on a thread of the runtime.
    tokio::task::spawn_blocking(move || node_status_blocking(&app)).await.map_err(|_| ApiError::internal())
}

fn node_status_blocking(app: &App) -> Value {
    let (queue, store) = (app.queue(), app.engine().store().status());
    let backlog = queue.backlog();
    let halt = queue.halt_reason();
    let state = match (app.is_ready(), &halt) {
        (false, _) => "stopping",
        (true, Some(HaltReason::DiskFull)) => "disk full",
        (true, Some(_)) => "halted",
        (true, None) => "ready",
    };
    let info = &app.info;
    let mut status = json!({
        "id": info.id,
        "host": info.host,
        "version": info.version,
        "addresses": info.addresses,
        "roles": info.roles,
        "state": state,
        "uptime_seconds": app.env.clock.uptime().as_secs(),
        "queue": {
            "segments": queue.uncommitted_segments().len(),
            "pending_segments": backlog.segments,
            "pending_bytes": backlog.text_bytes,
            "oldest_pending_seconds": backlog.oldest_age.as_secs_f64(),
        },
        "store": {
            "segments": store.segments,
            "records": store.records,
            "text_bytes": store.text_bytes,
            "stored_bytes": store.stored_bytes,
            "index_bytes": store.index_bytes,
            "index_memory_high": store.is_index_high,
            "oldest": format_time(store.oldest),
            "newest": format_time(store.newest),
        },
        "trash": trash(&store.trash),
        "load": load(&app.shedder),
        "disk_free_bytes": queue.free_bytes(),
        "memory_limit_bytes": info.memory_limit_bytes,
        "damaged": app.engine().damaged_files(),
        "damaged_re_replicated": app.engine().re_replicated_files(),
        "segments_with_damaged_blocks": app.engine().segments_with_damaged_blocks(),
        "segments_re_replicated": app.engine().segments_with_re_replicated_blocks(),
        "segments_rebuilt": store.rebuilt_segments,
    });
    if !info.insecure_listeners.is_empty() {
        status["insecure_listeners"] = info.insecure_listeners.clone().into();
    }
    if let Some(auth) = app.authenticator.as_ref().map(Authenticator::status) {
        status["authentication"] = json!({
            "credentials": auth.credentials,
            "loaded": format_time(Some(auth.loaded_at)),
        });
    }
    let failed_reloads = app.reloads.failed().into_iter();
    let failed_reloads: Vec<Value> = failed_reloads
        .map(|failed| json!({ "file": failed.name, "path": failed.path.display().to_string(), "failure": failed.failure }))
        .collect();
    if !failed_reloads.is_empty() {
        status["failed_reloads"] = failed_reloads.into();
    }
    let damaged_keys = queue.damaged_keys();
    if damaged_keys > 0 {
        status["damaged_keys"] = damaged_keys.into();
    }
    if let Some(halt) = halt {
        status["halted"] = halt.to_string().into();
    }
    if !store.encryption.keys.is_empty() {
        status["encryption"] = encryption(&store.encryption);
    }
    if let Some(suspension) = store.suspension {
        status["retention_suspended"] = json!({
            "clock_ahead_seconds": suspension.ahead.as_secs(),
            "remaining_seconds": suspension.left.as_secs(),
        });
    }
    if let Some(database) = store.database {
        status["database"] = json!({
            "address": database.address,
            "failure": database.failure,
            "failing_since": format_time(database.failing_since),
        });
    }
    if let Some(sink) = store.sink {
        status["sink"] = json!({
            "address": sink.address,
            "failure": sink.failure,
            "failing_since": format_time(sink.failing_since),
            "waiting_inserts": sink.waiting_inserts,
            "waiting_bytes": sink.waiting_bytes,
            "waiting_seconds": sink.oldest_waiting.map_or(0.0, |since| app.now().saturating_sub(since.0).0 as f64 / 1e3),
        });
    }
    for part in &app.status_parts {
        status[part.key()] = part.value();
    }
    // With a replication factor of 1 no other copy exists.
    if let Some(repair) = app.repair.as_ref().filter(|_| app.engine().store().replication_factor() > 1) {
        status["repair"] = replication::store_status(&repair.status(), store.stored_bytes);
    }
    status
}

/// Samples the metrics until the node stops, for the history and for the parts of the status.
pub(crate) async fn sample_metrics(app: App, mut stop: watch::Receiver<bool>) {
    let mut interval = tokio::time::interval(SAMPLE_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = wait_for_stop(&mut stop) => return,
        }
        if let Ok(text) = metrics_text(&app) {
            app.history.add(app.now(), &text);
            for part in &app.status_parts {
                part.observe(app.env.clock.uptime(), &text);
            }
        }
    }
}

fn metrics_text(app: &App) -> Result<String, ApiError> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &app.registry).map_err(|_| ApiError::internal())?;
    Ok(text)
}

pub(crate) async fn history(State(app): State<App>) -> Json<Value> {
    Json(app.history.describe())
}

pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    app.queue().update_halt_metrics();
    app.queue().update_queued_bytes();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], metrics_text(&app)?).into_response())
}

pub(crate) async fn healthy() -> &'static str {
    "healthy\n"
}

pub(crate) async fn ready(State(app): State<App>) -> Response {
    let reason = match app.queue().halt_reason() {
        _ if !app.is_ready() => "stopping\n".to_owned(),
        Some(HaltReason::DiskFull) => {
            "disk full: nothing is accepted until space is free; queries are answered\n".to_owned()
        }
        Some(halt) => format!("halted: {halt}; nothing is accepted, queries are answered\n"),
        None => return "ready\n".into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

pub(crate) async fn calls() -> &'static str {
    "Bucksaw\n\
     \n\
     POST /api/v1/ingest     send lines:    curl --data-binary @app.log 'http://HOST/api/v1/ingest?label=app=web'\n\
     Other senders           see docs/senders: /v1/logs, /loki/api/v1/push, /_bulk, /services/collector, /gelf, /api/v2/logs, /upload\n\
     GET  /api/v1/query?q=   grep them:     curl 'http://HOST/api/v1/query?q=error&from=15m' -H 'Accept: text/plain'\n\
     GET  /api/v1/tail?q=    follow them:   curl -N 'http://HOST/api/v1/tail?q=error'\n\
     GET  /api/v1/count, /api/v1/histogram, /api/v1/fields, /api/v1/context, /api/v1/labels, /api/v1/streams\n\
     GET  /api/v1/check, /api/v1/cluster, /api/v1/agents, /api/v1/history\n\
     POST /api/v1/forget?node=ID   remove a node that will not return\n\
     POST /api/v1/erase?q=         remove records; GET /api/v1/erasures: how far that is\n\
     POST /api/v1/login, /api/v1/logout   of the page; GET /api/v1/session: who the client is\n\
     GET  /metrics, /-/healthy, /-/ready\n"
}

pub(crate) async fn unknown_path() -> ApiError {
    ApiError::unknown_path()
}

pub(crate) async fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: GET /api/v1 lists the calls and their methods")
}
