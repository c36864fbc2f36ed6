use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bucksaw_env::sim;
use bucksaw_query::Answers;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;

use super::*;
use crate::fixtures::{app, audited};
use crate::server::router;

async fn call(router: Router, target: &str) -> (StatusCode, Value) {
    let (method, path) = target.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path).header("host", "localhost").body(Body::empty()).unwrap();
    let response = TowerToHyperService::new(router).call(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_reason() {
    let app = app(&sim::Fs::new(), 1);
    let check = async |target: &str, status: u16, want: &str| {
        let (got, body) = call(router(app.clone()), target).await;
        let error = body["error"].as_str().unwrap_or_default();
        assert!(got == status && error.contains(want), "{target}: {got} {body}");
    };
    check("POST /api/v1/erase", 400, "an empty one selects every record").await;
    check("POST /api/v1/erase?q=a&x=1", 400, "unknown parameter").await;
    check("POST /api/v1/erase?q=(a", 400, "q:").await;
    check("POST /api/v1/erase?q=a&from=2023-01-02&to=2023-01-01", 400, "from is later than to").await;
    check("POST /api/v1/erase?q=a&to=2099-01-01", 400, "to is in the future").await;
    check("POST /api/v1/erase?q=a&dry_run=maybe", 400, "dry_run is true or false").await;
    check(&format!("POST /api/v1/erase?q={}", "a".repeat(5_000)), 400, "at most 4096 bytes").await;
    check("GET /api/v1/erase?q=a", 405, "").await;
    // This surface has no spread, like that of a node over a database.
    check("POST /api/v1/erase?q=a", 501, "a database").await;
    check("GET /api/v1/erasures", 501, "a database").await;
}

#[tokio::test]
async fn a_dry_run_counts_without_the_streams_of_bucksaw() {
    let app = audited(app(&sim::Fs::new(), 1));
    let (status, body) = call(router(app.clone()), "POST /api/v1/erase?q=erase&dry_run=true").await;
    assert_eq!((status.as_u16(), &body["count"]), (200, &json!(0)), "{body}");
    app.audit.as_ref().unwrap().flush();
    let Answers { .. } = &app.answers;
    let all = bucksaw_query::Request::new(bucksaw_record::Expr::literal("erase"), Millis(0), Millis::MAX);
    assert_eq!(app.answers.count(all, ()).await.unwrap().0, 1, "the audit trail has it");
    let (_, body) = call(router(app), "POST /api/v1/erase?q=erase&dry_run=true").await;
    assert_eq!(body["count"], 0, "{body}");
}

#[test]
fn a_tenant_sees_its_own_erasures() {
    let erasure = |scope: &str| Erasure {
        id: Id::MIN,
        expr: "a".to_owned(),
        from: Millis(0),
        to: Millis(1),
        scope: scope.to_owned(),
    };
    let object = object(&erasure("tenant=a"));
    assert_eq!((object["labels"].as_str(), object["from"].as_str()), (Some("tenant=a"), None));
    assert!(is_visible(&ClientAccess::default(), &erasure("tenant=a")));
}
