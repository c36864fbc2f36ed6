use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use bucksaw_auth::{Authenticator, TokenDigest};
use bucksaw_env::{Env, sim};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::*;
use crate::App;
use crate::fixtures::app;
use crate::server::router;

const FILE: &str = "/auth.toml";

/// The surface of a node with these tokens: name, text, scopes, and further keys of the entry.
fn guarded(tokens: &[(&str, &str, &str)]) -> (App, Arc<sim::Fs>, Authenticator) {
    let fs = Arc::new(sim::Fs::new());
    write(&fs, tokens);
    let env = Env { fs: fs.clone(), clock: Arc::new(sim::Clock::at_unix_ms(1)), entropy: Env::real().entropy };
    let metrics = bucksaw_auth::Metrics::new(&mut Registry::default());
    let authenticator = Authenticator::open(Path::new(FILE), env, metrics).unwrap();
    (app(&fs, 1).with_authenticator(Some(authenticator.clone())), fs, authenticator)
}

fn write(fs: &sim::Fs, tokens: &[(&str, &str, &str)]) {
    let entry = |(token, scopes, rest): &(&str, &str, &str)| {
        let scopes: Vec<String> = scopes.split(',').map(|scope| format!("\"{scope}\"")).collect();
        let digest = TokenDigest::of(token);
        format!("[[token]]\nname = \"{token}\"\nsha256 = \"{digest}\"\nscopes = [{}]\n{rest}\n", scopes.join(","))
    };
    let text: String = tokens.iter().map(entry).collect();
    bucksaw_env::replace(fs, Path::new(FILE), &[text.as_bytes()]).unwrap();
}

async fn call(router: Router, target: &str, headers: &[(&str, &str)], body: &str) -> (StatusCode, HeaderMap, String) {
    let (method, path) = target.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = TowerToHyperService::new(router).call(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_without_a_rule_is_refused() {
    let (app, ..) = guarded(&[("t", "admin", "")]);
    let (routes, check) =
        Routes::default().route("/known", RouteAccess::Any, get(|| async { "x" })).with_check(&app, "http");
    let routes = routes.route("/forgotten", get(|| async { "secret" }));
    let routes: Router = routes.layer(from_fn_with_state(check, super::check)).with_state(app);
    let bearer = [("authorization", "Bearer t")];
    assert_eq!(call(routes.clone(), "GET /known", &bearer, "").await.2, "x");
    let (status, _, body) = call(routes, "GET /forgotten", &bearer, "").await;
    assert!(status.is_server_error() && !body.contains("secret"), "{status} {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_the_form_of_their_protocol() {
    let (app, ..) = guarded(&[("reader", "read", "")]);
    let check = async |target: &str, token: Option<&str>, status: u16, in_body: &str, scheme: &str| {
        let header = token.map(|token| format!("Bearer {token}")).unwrap_or_default();
        let headers = [("authorization", header.as_str()), ("content-type", "application/json")];
        let headers = if token.is_some() { &headers[..] } else { &headers[1..] };
        let (got, headers, body) = call(router(app.clone()), target, headers, "").await;
        assert!(got == status && body.contains(in_body), "{target} {token:?}: {got} {body}");
        let asked = headers.get("www-authenticate").map_or("", |value| value.to_str().unwrap());
        assert!(asked.starts_with(scheme) && asked.is_empty() == scheme.is_empty(), "{target}: {asked}");
    };
    check("GET /api/v1/query", None, 401, r#"{"error":"this node needs a credential"#, "Bearer").await;
    check(
        "POST /api/v1/ingest",
        Some("reader"),
        403,
        r#"{"error":"the call needs a credential with the scope ingest"}"#,
        "",
    )
    .await;
    check("POST /_bulk", None, 401, r#""type":"security_exception""#, "Basic").await;
    check("POST /a/_bulk", Some("reader"), 403, r#""type":"security_exception""#, "").await;
    check("POST /services/collector", None, 401, r#"{"text":"Token is required","code":2}"#, "Bearer").await;
    check("POST /services/collector/event", Some("x"), 403, r#"{"text":"Invalid token","code":4}"#, "").await;
    check("POST /api/v2/logs", None, 401, r#""status":"401""#, "Bearer").await;
    check("POST /api/v2/logs", Some("x"), 403, r#""status":"403""#, "").await;
    check("POST /loki/api/v1/push", None, 401, "this node needs a credential", "Basic").await;
    check("POST /v1/logs", Some("x"), 401, r#""code":16"#, "Bearer").await;
    check("POST /gelf", Some("reader"), 403, "the call needs", "").await;
    check("GET /no/such/path", None, 401, "error", "Bearer").await;
    check("GET /no/such/path", Some("reader"), 404, "no such path", "").await;
    check("DELETE /api/v1/query", None, 401, "error", "Bearer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_accepted_in_every_form() {
    let (app, ..) = guarded(&[("t", "read,ingest", "")]);
    // `user:t` and `id:t`.
    for header in [
        ("authorization", "Bearer t"),
        ("authorization", "Basic dXNlcjp0"),
        ("authorization", "ApiKey aWQ6dA=="),
        ("authorization", "Splunk t"),
        ("dd-api-key", "t"),
        ("cookie", "a=b; bucksaw_token=t"),
    ] {
        assert_eq!(call(router(app.clone()), "GET /api/v1/session", &[header], "").await.0, 200, "{header:?}");
    }
    let both = [("authorization", "Bearer x"), ("cookie", "bucksaw_token=t")];
    assert_eq!(call(router(app.clone()), "GET /api/v1/session", &both, "").await.0, 401, "the header decides");
    let two = [("authorization", "Bearer t"), ("authorization", "Bearer t")];
    assert_eq!(call(router(app), "GET /api/v1/session", &two, "").await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_see_only_their_own_records() {
    let (app, ..) = guarded(&[
        ("a", "ingest,read", "labels = { tenant = \"a\" }"),
        ("b", "ingest,read", "labels = { tenant = \"b\" }"),
        ("both", "read", "tenants = [\"a\", \"b\"]"),
        ("all", "read", ""),
    ]);
    let send = async |token: &str, target: &str, extra: (&str, &str), body: &str| {
        let header = format!("Bearer {token}");
        call(router(app.clone()), target, &[("authorization", &header), extra], body).await
    };
    let none = ("x-nothing", "");
    assert_eq!(send("a", "POST /api/v1/ingest?label=tenant=b", none, "of a\n").await.0, 200);
    assert_eq!(send("b", "POST /api/v1/ingest", none, "of b\nof b\n").await.0, 200);
    let count = async |token: &str, extra: (&str, &str)| {
        let (status, _, body) = send(token, "GET /api/v1/count?from=0", extra, "").await;
        let json: Value = serde_json::from_str(&body).unwrap();
        if status == 200 { json["count"].as_u64().unwrap() } else { 1_000 + u64::from(status.as_u16()) }
    };
    assert_eq!((count("a", none).await, count("b", none).await, count("all", none).await), (1, 2, 3));
    let org = |tenant| ("x-scope-orgid", tenant);
    assert_eq!((count("both", org("a")).await, count("both", org("b")).await), (1, 2));
    assert_eq!((count("both", none).await, count("both", org("c")).await), (1_400, 1_403));
    assert_eq!((count("a", org("b")).await, count("a", org("a")).await), (1_403, 1));
    assert_eq!((count("all", org("b")).await, count("all", org("c")).await), (2, 0));
    for call in ["fields?from=0", "streams?from=0", "labels?from=0", "histogram?from=0&by=@stream", "query?from=0"] {
        let (status, _, body) = send("a", &format!("GET /api/v1/{call}"), none, "").await;
        assert!(status == 200 && !body.contains("\"b\"") && !body.contains("of b"), "{call}: {body}");
    }
    let ids = send("b", "GET /api/v1/query?from=0", none, "").await.2;
    let id = serde_json::from_str::<Value>(ids.lines().next().unwrap()).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(send("b", &format!("GET /api/v1/context?id={id}"), none, "").await.0, 200);
    assert_eq!(send("a", &format!("GET /api/v1/context?id={id}"), none, "").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_all_tenants_needs_an_administrator_or_a_reader_without_labels() {
    let (app, ..) = guarded(&[
        ("scoped", "read", "labels = { tenant = \"a\" }"),
        ("reader", "read", ""),
        ("writer", "ingest", ""),
        ("admin", "admin", ""),
    ]);
    let check = async |path: &str, want: [u16; 4]| {
        for (token, want) in ["scoped", "reader", "writer", "admin"].into_iter().zip(want) {
            let header = format!("Bearer {token}");
            let (status, ..) = call(router(app.clone()), path, &[("authorization", &header)], "").await;
            assert_eq!(status, want, "{path} by {token}");
        }
    };
    for path in ["GET /metrics", "GET /api/v1/cluster", "GET /api/v1/agents", "GET /api/v1/history"] {
        check(path, [403, 200, 403, 200]).await;
    }
    check("POST /api/v1/forget", [403, 403, 403, 400]).await;
    check("GET /api/v1/query", [200, 200, 403, 403]).await;
    check("GET /api/v1/session", [200, 200, 200, 200]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_credential_are_answered_with_429() {
    let (app, ..) = guarded(&[("t", "ingest,read", "bytes_per_second = 10\nqueries_max = 1")]);
    let bearer = [("authorization", "Bearer t")];
    let body = "x".repeat(100);
    assert_eq!(call(router(app.clone()), "POST /api/v1/ingest", &bearer, &body).await.0, 200);
    let (status, headers, _) = call(router(app.clone()), "POST /api/v1/ingest", &bearer, "y").await;
    assert_eq!((status.as_u16(), headers["retry-after"].to_str().unwrap()), (429, "10"));
    // A tail is in flight until its reader is gone.
    let request = Request::get("/api/v1/tail").header("authorization", "Bearer t").body(Body::empty()).unwrap();
    let tail = TowerToHyperService::new(router(app.clone())).call(request).await.unwrap();
    assert_eq!(
        (tail.status().as_u16(), call(router(app.clone()), "GET /api/v1/count", &bearer, "").await.0),
        (200, StatusCode::TOO_MANY_REQUESTS)
    );
    drop(tail);
    assert_eq!(call(router(app), "GET /api/v1/count", &bearer, "").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_ends_when_its_token_is_revoked() {
    let (app, fs, authenticator) = guarded(&[("t", "ingest,read", "")]);
    let request = Request::get("/api/v1/tail").header("authorization", "Bearer t").body(Body::empty()).unwrap();
    let tail = TowerToHyperService::new(router(app.clone())).call(request).await.unwrap();
    write(&fs, &[("other", "ingest", "")]);
    authenticator.reload(&bucksaw_env::Reloads::default());
    let mut body = tail.into_body();
    assert!(body.frame().await.unwrap().is_err(), "nothing is sent with a revoked token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_in_sets_a_cookie_that_only_the_own_page_sends() {
    let (app, ..) = guarded(&[("t", "read", "labels = { tenant = \"a\" }")]);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let login = async |body: &str, headers: &[(&str, &str)]| {
        let headers = [&[form, ("host", "127.0.0.1:7650")], headers].concat();
        call(router(app.clone()), "POST /api/v1/login", &headers, body).await
    };
    let (status, headers, body) = login("token=t", &[]).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(headers["set-cookie"], "bucksaw_token=t; Path=/; HttpOnly; SameSite=Strict");
    assert_eq!(headers["cache-control"], "no-store");
    assert!(body.contains(r#""labels":{"tenant":"a"}"#) && body.contains(r#""sees_nodes":false"#), "{body}");
    let (_, headers, _) = login("token=t", &[("x-forwarded-proto", "https")]).await;
    assert!(headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    for (body, want) in [("token=x", 401), ("token=", 401), ("", 401), ("tokens=t", 400)] {
        let (status, headers, _) = login(body, &[]).await;
        assert_eq!((status.as_u16(), headers.get("set-cookie")), (want, None), "{body}");
    }
    // Another origin, another port of the same host, and a URL that would be logged.
    for origin in ["http://evil.example", "http://127.0.0.1:7651"] {
        assert_eq!(login("token=t", &[("origin", origin)]).await.0, 403, "{origin}");
    }
    assert_eq!(call(router(app.clone()), "POST /api/v1/login?token=t", &[form], "").await.0, 400);
    let (status, headers, _) = call(router(app.clone()), "POST /api/v1/logout", &[], "").await;
    assert_eq!(
        (status.as_u16(), &headers["set-cookie"]),
        (204, &axum::http::HeaderValue::from_static("bucksaw_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))
    );
    let cross_site = [("cookie", "bucksaw_token=t"), ("host", "127.0.0.1:7650"), ("sec-fetch-site", "same-site")];
    assert_eq!(call(router(app), "GET /api/v1/query", &cross_site, "").await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_and_health_need_no_credential() {
    let (app, ..) = guarded(&[]);
    for path in ["/", "/nodes", "/favicon.svg", "/-/healthy", "/-/ready"] {
        let (status, ..) = call(router(app.clone()), &format!("GET {path}"), &[("accept", "text/html")], "").await;
        assert_ne!(status, 401, "{path}");
    }
    let probe = [("accept", "application/json")];
    assert_eq!(call(router(app), "GET /", &probe, "").await.0, 401, "a sender to Elasticsearch");
}
