//! Every path of HTTP × no credential, a wrong one, an expired one, one without the scope, one of another tenant.

use std::collections::BTreeSet;

use bucksaw_api::RouteAccess::{self, Admin, Any, Ingest, Nodes, Page, Public, Read};

use super::auth_node::AuthNode;

/// How a protocol answers unknown clients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RefusalForm {
    /// 401 unless the client is recognised.
    Usual,
    /// 401 without a token, and 403 with a wrong one.
    Token403,
}
use RefusalForm::{Token403, Usual};

/// Each path as it is registered, a request for it, who may make it, and how it is refused.
const PATHS: [(&str, &str, RouteAccess, RefusalForm); 61] = [
    ("/", "GET /", Page, Usual),
    ("/nodes", "GET /nodes", Public, Usual),
    ("/favicon.svg", "GET /favicon.svg", Public, Usual),
    ("/assets/{*path}", "GET /assets/x", Public, Usual),
    ("/-/healthy", "GET /-/healthy", Public, Usual),
    ("/-/ready", "GET /-/ready", Public, Usual),
    ("/api/v1/login", "POST /api/v1/login", Public, Usual),
    ("/auth/login", "GET /auth/login", Public, Usual),
    ("/auth/callback", "GET /auth/callback", Public, Usual),
    ("/api/v1/logout", "POST /api/v1/logout", Public, Usual),
    ("/api/v1/session", "GET /api/v1/session", Any, Usual),
    ("/api/v1", "GET /api/v1", Any, Usual),
    ("/api/v1/ingest", "POST /api/v1/ingest", Ingest, Usual),
    ("/api/v1/query", "GET /api/v1/query", Read, Usual),
    ("/api/v1/tail", "GET /api/v1/tail", Read, Usual),
    ("/api/v1/check", "GET /api/v1/check", Read, Usual),
    ("/api/v1/count", "GET /api/v1/count", Read, Usual),
    ("/api/v1/histogram", "GET /api/v1/histogram", Read, Usual),
    ("/api/v1/fields", "GET /api/v1/fields", Read, Usual),
    ("/api/v1/context", "GET /api/v1/context?id=1", Read, Usual),
    ("/api/v1/labels", "GET /api/v1/labels", Read, Usual),
    ("/api/v1/streams", "GET /api/v1/streams", Read, Usual),
    ("/api/v1/cluster", "GET /api/v1/cluster", Nodes, Usual),
    ("/api/v1/agents", "GET /api/v1/agents", Nodes, Usual),
    ("/api/v1/history", "GET /api/v1/history", Nodes, Usual),
    ("/metrics", "GET /metrics", Nodes, Usual),
    ("/api/v1/forget", "POST /api/v1/forget", Admin, Usual),
    ("/api/v1/erase", "POST /api/v1/erase", Admin, Usual),
    ("/api/v1/erasures", "GET /api/v1/erasures", Admin, Usual),
    ("/v1/logs", "POST /v1/logs", Ingest, Usual),
    ("/otlp/v1/logs", "POST /otlp/v1/logs", Ingest, Usual),
    ("/loki/api/v1/push", "POST /loki/api/v1/push", Ingest, Usual),
    ("/services/collector", "POST /services/collector", Ingest, Token403),
    ("/services/collector/{*path}", "POST /services/collector/event", Ingest, Token403),
    ("/upload", "POST /upload", Ingest, Usual),
    ("/gelf", "POST /gelf", Ingest, Usual),
    ("/api/v2/logs", "POST /api/v2/logs", Ingest, Token403),
    ("/api/v1/validate", "GET /api/v1/validate", Ingest, Token403),
    ("/v1/input", "POST /v1/input", Ingest, Token403),
    ("/v1/input/{*key}", "POST /v1/input/x", Ingest, Token403),
    ("/_bulk", "POST /_bulk", Ingest, Usual),
    ("/_license", "GET /_license", Any, Usual),
    ("/_xpack", "GET /_xpack", Any, Usual),
    ("/_cluster/health", "GET /_cluster/health", Any, Usual),
    ("/_nodes", "GET /_nodes", Any, Usual),
    ("/_nodes/{*path}", "GET /_nodes/x", Any, Usual),
    ("/_template/{name}", "GET /_template/x", Any, Usual),
    ("/_index_template/{name}", "GET /_index_template/x", Any, Usual),
    ("/_component_template/{name}", "GET /_component_template/x", Any, Usual),
    ("/_ingest/pipeline", "GET /_ingest/pipeline", Any, Usual),
    ("/_ingest/pipeline/{name}", "GET /_ingest/pipeline/x", Any, Usual),
    ("/_ilm/status", "GET /_ilm/status", Any, Usual),
    ("/_ilm/policy/{name}", "GET /_ilm/policy/x", Any, Usual),
    ("/_data_stream/{name}", "GET /_data_stream/x", Any, Usual),
    ("/_alias/{name}", "GET /_alias/x", Any, Usual),
    ("/_aliases", "POST /_aliases", Any, Usual),
    ("/{index}/_bulk", "POST /x/_bulk", Ingest, Usual),
    ("/{index}/{kind}/_bulk", "POST /x/y/_bulk", Ingest, Usual),
    ("/elasticsearch", "GET /elasticsearch", Ingest, Usual),
    ("/elasticsearch/", "GET /elasticsearch/", Ingest, Usual),
    ("/elasticsearch/{*path}", "POST /elasticsearch/_bulk", Ingest, Usual),
];

/// A token that has every scope but those of this access, or none is refused for its scope.
fn lacking(access: RouteAccess) -> Option<&'static str> {
    match access {
        Ingest | Admin => Some("reader"),
        Read => Some("writer"),
        Nodes => Some("scoped"),
        _ => None,
    }
}

/// A token of one tenant that may make the call.
fn allowed(access: RouteAccess) -> &'static str {
    match access {
        Ingest => "writer",
        Read | Any => "scoped",
        _ => "admin",
    }
}

const TOKENS: [(&str, &[&str]); 5] = [
    ("reader", &["--scope", "read"]),
    ("writer", &["--scope", "ingest", "--label", "tenant=a"]),
    ("scoped", &["--scope", "read", "--label", "tenant=a"]),
    ("admin", &["--scope", "admin,read,ingest", "--label", "tenant=a"]),
    ("expired", &["--scope", "admin,read,ingest", "--expires", "2020-01-01T00:00:00Z"]),
];

#[test]
fn each_path_is_in_the_table() {
    let listed: BTreeSet<String> = PATHS.iter().map(|(path, _, access, _)| format!("{path} {access:?}")).collect();
    let served: BTreeSet<String> =
        bucksaw_api::routes().into_iter().map(|(path, access)| format!("{path} {access:?}")).collect();
    assert_eq!(listed, served, "a new path needs a row in the table of this test");
}

#[test]
fn each_path_refuses_clients_without_the_right_credential() {
    let node = AuthNode::start(&["--listen-otlp-http", "127.0.0.1:0"], &TOKENS);
    let mut refused = 0;
    for (_, request, access, form) in PATHS {
        let (method, path) = request.split_once(' ').unwrap();
        let probe: &[&str] = if access == Page { &["Accept: application/json"] } else { &[] };
        let mut check = |what: &str, token: Option<&str>, headers: &[&str], want: u16| {
            let status = node.status_of(method, path, token, &[probe, headers].concat());
            assert_eq!(status, want, "{request} with {what}");
            refused += 1;
        };
        if access == Public {
            let status = node.status_of(method, path, None, probe);
            assert!(status != 403 && (status != 401 || path.ends_with("/login")), "{request}: {status}");
            continue;
        }
        let wrong = if form == Token403 { 403 } else { 401 };
        check("no credential", None, &[], 401);
        check("a wrong token", Some("bks_wrong"), &[], wrong);
        check("an expired token", Some(&node.token("expired")), &[], wrong);
        check("no credential, of another form", None, &["Authorization: Digest a=b"], wrong);
        if let Some(token) = lacking(access) {
            check("a token without the scope", Some(&node.token(token)), &[], 403);
        }
        check("another tenant", Some(&node.token(allowed(access))), &["X-Scope-OrgID: b"], 403);
        // The right credential is not refused, whatever else is wrong with the request. A tail has no end.
        if !path.contains("/tail") {
            let status = node.status_of(method, path, Some(&node.token(allowed(access))), probe);
            assert!(status != 401 && status != 403, "{request} with the right credential: {status}");
        }
    }
    assert!(refused > 250, "{refused}");
}

#[test]
fn unknown_paths_and_methods_disclose_nothing() {
    let node = AuthNode::start(&["--listen-otlp-http", "127.0.0.1:0"], &TOKENS);
    for (method, path) in
        [("GET", "/no/such/path"), ("DELETE", "/api/v1/query"), ("GET", "/api/v1/ingest"), ("PUT", "/")]
    {
        // A method that `/` does not have is that of a page.
        let want = if path == "/" { 405 } else { 401 };
        assert_eq!(node.status_of(method, path, None, &[]), want, "{method} {path}");
        let status = node.status_of(method, path, Some(&node.token("reader")), &[]);
        assert!([404, 405, 403].contains(&status), "{method} {path}: {status}");
    }
    let otlp = bucksaw_api::otlp_routes();
    assert_eq!(otlp.len(), 4, "a new path of the port for OTLP needs a check here: {otlp:?}");
    for path in ["/v1/logs", "/otlp/v1/logs", "/no/such/path"] {
        let (status, _) = node.call("otlp-http", "POST", path, None, &[], "");
        assert_eq!(status, 401, "{path}");
        let (status, _) = node.call("otlp-http", "POST", path, Some(&node.token("reader")), &[], "");
        assert_eq!(status, if path.starts_with("/no") { 404 } else { 403 }, "{path}");
    }
    for path in ["/-/healthy", "/-/ready"] {
        assert_eq!(node.call("otlp-http", "GET", path, None, &[], "").0, 200, "{path}");
    }
}
