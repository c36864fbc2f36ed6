//! The requests that a sender makes before it sends, and the answers: the version, the licence, the health of the cluster,
//! templates, policies and pipelines.
//!
//! Senders set up templates, policies and pipelines before they send documents, and stop if they cannot. Such requests are
//! acknowledged and have no effect; a `GET` of such a thing finds none. All other requests except `_bulk` are refused.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::ElasticError;
use crate::HttpAnswer;

/// The version of Elasticsearch whose `_bulk` API is offered. Senders refuse to send to unknown versions, so the answer
/// states this number as its version; all other parts of the answer name this program.
pub const API_VERSION: &str = "8.17.0";

/// A header of all answers. The official clients send to servers with this header only.
pub const PRODUCT_HEADER: (&str, &str) = ("X-Elastic-Product", "Elasticsearch");

/// The longest part of a path that an error repeats.
const PATH_CHARS_MAX: usize = 100;

/// Identifies this program where clients expect a unique id.
const UUID: &str = "bucksaw";

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticRequest<'a> {
    /// Its body is for [`BulkDecoder`](super::BulkDecoder).
    Bulk {
        /// The index of the path; empty if there is none.
        index: Cow<'a, str>,
    },
    /// Its body is ignored.
    Answer(HttpAnswer),
}

/// Classifies a request by its method, in capitals, and its path without the query.
pub fn route<'a>(method: &str, path: &'a str) -> ElasticRequest<'a> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').take(6).collect();
    if matches!(method, "POST" | "PUT")
        && let Some(index) = bulk_index(&parts)
    {
        return ElasticRequest::Bulk { index: percent_decode_str(index).decode_utf8_lossy() };
    }
    let is_head = method == "HEAD";
    let mut answer = answer(if is_head { "GET" } else { method }, &parts, path);
    if is_head {
        answer.body = Cow::Borrowed("");
    }
    ElasticRequest::Answer(answer)
}

/// The index of a path that ends with `_bulk`, also in the form of version 6 with a type.
fn bulk_index<'a>(parts: &[&'a str]) -> Option<&'a str> {
    match parts {
        ["_bulk"] => Some(""),
        [index, "_bulk"] | [index, _, "_bulk"] if !index.starts_with('_') => Some(index),
        _ => None,
    }
}

fn answer(method: &str, parts: &[&str], path: &str) -> HttpAnswer {
    if bulk_index(parts).is_some() {
        return method_refused(method, path, "POST, PUT");
    }
    match (method, parts) {
        ("GET", [""]) => HttpAnswer::new(200, info()),
        ("GET", ["_license"]) => HttpAnswer::new(200, format!(r#"{{"license":{}}}"#, license())),
        ("GET", ["_xpack"]) => HttpAnswer::new(
            200,
            format!(
                r#"{{"build":{{"hash":"{UUID}","date":"1970-01-01T00:00:00.000Z"}},"license":{},"features":{{}},"tagline":"You know, for X"}}"#,
                license()
            ),
        ),
        ("GET", ["_cluster", "health"]) => HttpAnswer::new(
            200,
            r#"{"cluster_name":"bucksaw","status":"green","timed_out":false,"number_of_nodes":1,"number_of_data_nodes":1,"active_primary_shards":0,"active_shards":0,"relocating_shards":0,"initializing_shards":0,"unassigned_shards":0}"#,
        ),
        // Senders that look for further nodes find none, and keep to the address that they have.
        ("GET", ["_nodes", ..]) => HttpAnswer::new(
            200,
            r#"{"_nodes":{"total":0,"successful":0,"failed":0},"cluster_name":"bucksaw","nodes":{}}"#,
        ),
        ("GET", ["_ilm", "status"]) => HttpAnswer::new(200, r#"{"operation_mode":"STOPPED"}"#),
        ("GET", ["_ingest", "pipeline"]) => HttpAnswer::new(200, "{}"),
        (_, ["" | "_license" | "_xpack"] | ["_cluster", "health"] | ["_nodes", ..]) => {
            method_refused(method, path, "GET, HEAD")
        }
        (_, parts) => match set_up(parts) {
            Some(_) if matches!(method, "PUT" | "POST") => HttpAnswer::new(200, r#"{"acknowledged":true}"#),
            Some(kind) if method == "GET" => not_found(kind, parts.last().copied().unwrap_or_default()),
            Some(_) => method_refused(method, path, "GET, HEAD, POST, PUT"),
            None => unsupported(method, path),
        },
    }
}

/// What kind of thing a path names that senders set up.
fn set_up(parts: &[&str]) -> Option<&'static str> {
    match parts {
        ["_template" | "_index_template", _] => Some("index template"),
        ["_component_template", _] => Some("component template"),
        ["_ingest", "pipeline", _] => Some("pipeline"),
        ["_ilm", "policy", _] => Some("lifecycle policy"),
        ["_data_stream", _] => Some("data stream"),
        ["_alias", _] | [_, "_alias" | "_aliases", _] => Some("alias"),
        ["_aliases"] => Some("alias"),
        [index] if !index.starts_with('_') => Some("index"),
        _ => None,
    }
}

fn info() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        r#"{{"name":"bucksaw","cluster_name":"bucksaw","cluster_uuid":"{UUID}","version":{{"number":"{API_VERSION}","build_flavor":"default","build_type":"bucksaw","build_hash":"bucksaw-{version}","build_date":"1970-01-01T00:00:00.000Z","build_snapshot":false,"lucene_version":"9.12.0","minimum_wire_compatibility_version":"7.17.0","minimum_index_compatibility_version":"7.0.0"}},"tagline":"You Know, for Search"}}"#
    )
}

/// Senders require an active licence.
fn license() -> String {
    format!(
        r#"{{"status":"active","uid":"{UUID}","type":"basic","mode":"basic","issued_to":"bucksaw","issuer":"bucksaw"}}"#
    )
}

fn not_found(kind: &str, name: &str) -> HttpAnswer {
    ElasticError {
        status: 404,
        kind: "resource_not_found_exception",
        reason: format!("{kind} [{}] does not exist", short(name)),
    }
    .answer()
}

fn method_refused(method: &str, path: &str, allowed: &str) -> HttpAnswer {
    let reason =
        format!("Incorrect HTTP method for uri [{}] and method [{}], allowed: [{allowed}]", short(path), short(method));
    ElasticError { status: 405, kind: "method_not_allowed_exception", reason }.answer()
}

fn unsupported(method: &str, path: &str) -> HttpAnswer {
    let reason = format!(
        "no handler found for uri [{}] and method [{}]: of Elasticsearch, only [_bulk] is supported here",
        short(path),
        short(method)
    );
    ElasticError { status: 400, kind: "illegal_argument_exception", reason }.answer()
}

fn short(text: &str) -> String {
    text.chars().take(PATH_CHARS_MAX).collect()
}
