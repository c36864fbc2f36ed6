//! Two tenants over HTTP, with tokens: what one of them is answered equals what a node answers that never had the records of the other.

use std::path::Path;
use std::sync::Arc;

use bucksaw_auth::{Authenticator, TokenDigest};
use bucksaw_env::sim;
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::config::Config;
use crate::fixtures::{NOW_MS, app_with};

const AUTH_FILE: &str = "/auth.toml";

/// A record of a test: whether it is of tenant `a`, and its stream and line. Records of another tenant are in streams of the same
/// names, and of a client that no tenant limits.
type DrawnRecord = (bool, &'static str, String);

fn drawn_records() -> impl Strategy<Value = Vec<DrawnRecord>> {
    let line = prop_oneof![
        2 => "[ab =x]{1,12}",
        1 => prop::sample::select(vec!["level=info a=x", "ERROR d=2ms", "secret level=error", "colour=red b"]).prop_map(str::to_owned),
    ];
    let labels = prop::sample::select(vec!["app=s0", "app=s1", "app=s0,tenant=b", "_bucksaw=audit", "tenant=a"]);
    prop::collection::vec((any::<bool>(), labels, line), 1..25)
}

/// A node with an auth file and an audit trail.
fn tenant_app() -> App {
    let fs = sim::Fs::new();
    let entry = |name: &str, scopes: &str, rest: &str| {
        let digest = TokenDigest::of(&format!("token-{name}"));
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{digest}\"\nscopes = [{scopes}]\n{rest}\n")
    };
    let both = r#""ingest", "read""#;
    let file = [
        entry("a", both, "labels = { tenant = \"a\" }"),
        entry("b", both, "labels = { tenant = \"b\" }"),
        entry("c", both, "tenants = [\"a\", \"c\"]"),
        entry("all", r#""ingest", "read", "admin""#, ""),
    ];
    bucksaw_env::replace(&fs, Path::new(AUTH_FILE), &[file.concat().as_bytes()]).unwrap();
    let app = app_with(&fs, 1, Arc::new(sim::Clock::at_unix_ms(NOW_MS)), Config::default());
    let metrics = bucksaw_auth::Metrics::new(&mut Registry::default());
    let authenticator = Authenticator::open(Path::new(AUTH_FILE), app.env.clone(), metrics).unwrap();
    crate::fixtures::audited(app.with_authenticator(Some(authenticator)))
}

fn request(method: &str, token: &str, target: &str) -> axum::http::request::Builder {
    let request = axum::http::Request::builder().method(method).uri(format!("/api/v1/{target}"));
    request.header("host", "localhost").header("authorization", format!("Bearer token-{token}"))
}

async fn send(app: &App, request: axum::http::Request<axum::body::Body>) -> (u16, String) {
    use http_body_util::BodyExt as _;
    use hyper::service::Service as _;
    let routes = crate::server::router(app.clone());
    let response = hyper_util::service::TowerToHyperService::new(routes).call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// What a call answers, without the time that it took.
async fn answer(app: &App, token: &str, target: &str) -> String {
    let (status, body) = send(app, request("GET", token, target).body(axum::body::Body::empty()).unwrap()).await;
    let mut lines: Vec<String> = Vec::new();
    for line in body.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        if let Some(stats) = value.get_mut("stats").and_then(Value::as_object_mut) {
            stats.remove("seconds");
        }
        lines.push(value.to_string());
    }
    format!("{status} {}", lines.join("\n"))
}

/// The key gives the records of one client the same ids at every node.
async fn ingest(app: &App, token: &str, number: usize, (labels, line): (&str, &str)) {
    let labels = labels.replace('=', "%3D");
    let labels: Vec<String> = labels.split(',').map(|label| format!("label={label}")).collect();
    let key = bucksaw_record::Id::new(Millis(NOW_MS), bucksaw_record::Producer::new(number as u64), 0).to_string();
    let request = request("POST", token, &format!("ingest?{}", labels.join("&"))).header("idempotency-key", key);
    let (status, body) = send(app, request.body(axum::body::Body::from(format!("{line}\n"))).unwrap()).await;
    assert_eq!(status, 200, "{body}");
}

const TARGETS: [&str; 17] = [
    "query?q=",
    "query?q=a&order=desc&limit=3",
    "query?q=secret",
    "query?q=tenant%3Db",
    "query?q=_bucksaw%3D%2A",
    "query?q=colour%3Dred",
    "count?q=",
    "count?q=-secret",
    "histogram?q=&buckets=5",
    "histogram?q=&buckets=5&by=@level",
    "histogram?q=&buckets=5&by=tenant",
    "histogram?q=a&buckets=5&by=@stream",
    "fields?q=",
    "labels",
    "labels?name=app",
    "streams",
    "streams?q=tenant%3Db",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_tenant_gets_the_answers_of_a_node_without_the_others(records in drawn_records()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (both, alone) = (tenant_app(), tenant_app());
            for (number, (is_own, labels, line)) in records.iter().enumerate() {
                if *is_own {
                    ingest(&both, "a", number, (labels, line)).await;
                    ingest(&alone, "a", number, (labels, line)).await;
                } else {
                    let token = ["b", "all"][number % 2];
                    // A client without a limit may write any tenant but what is compared here.
                    let labels = if token == "all" { labels.replace("tenant=a", "tenant=ab") } else { (*labels).to_owned() };
                    ingest(&both, token, number, (&labels, line)).await;
                }
            }
            for target in TARGETS {
                assert_eq!(answer(&both, "a", target).await, answer(&alone, "a", target).await, "{target}");
            }
            // The contexts of all records, whosever they are.
            let (_, all) = send(&both, request("GET", "all", "query?q=").body(axum::body::Body::empty()).unwrap()).await;
            for record in all.lines() {
                let record: Value = serde_json::from_str(record).unwrap();
                if let Some(id) = record["id"].as_str() {
                    let target = format!("context?id={id}&before=2&after=2");
                    assert_eq!(answer(&both, "a", &target).await, answer(&alone, "a", &target).await, "{target}");
                    let is_own = record["labels"]["tenant"] == "a";
                    assert_eq!(answer(&both, "a", &target).await.starts_with("200"), is_own, "{record}");
                }
            }
        });
    }
}
