#![allow(clippy::disallowed_methods, reason = "limits and polls in real time")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use bucksaw_env::sim;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::mpsc;

use super::EXPORT_FORMAT;
use crate::fixtures::{NOW_MS, app_with};
use crate::server::router;
use crate::{App, Config};

const WAIT_MAX: Duration = Duration::from_secs(20);

fn node(seed: u64) -> (App, Arc<sim::Clock>) {
    let (fs, clock) = (sim::Fs::new(), Arc::new(sim::Clock::at_unix_ms(NOW_MS + seed)));
    (app_with(&fs, seed, Arc::clone(&clock), Config::default()), clock)
}

async fn call(app: &App, target: &str, headers: &[(&str, &str)], body: Body) -> (StatusCode, String) {
    let (method, path) = target.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let call = TowerToHyperService::new(router(app.clone())).call(request.body(body).unwrap());
    let response = call.await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// The lines that are stored, sorted.
async fn stored(app: &App) -> Vec<String> {
    let (_, text) = call(app, "GET /api/v1/query?from=0", &[("accept", "text/plain")], Body::empty()).await;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

async fn body_bytes(app: &App) -> u64 {
    let (_, text) = call(app, "GET /metrics", &[], Body::empty()).await;
    text.lines().find_map(|line| line.strip_prefix("api_body_bytes ")).unwrap().parse().unwrap()
}

fn entry(line: &str) -> String {
    format!("__REALTIME_TIMESTAMP=1700000000000000\n_HOSTNAME=web1\nPRIORITY=6\nMESSAGE={line}\n\n")
}

const UPLOAD: &str = "POST /upload";
const JOURNAL: (&str, &str) = ("content-type", EXPORT_FORMAT);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_are_stored_and_errors_are_text() {
    let (app, _) = node(1);
    let check = async |target: &str, headers: &[(&str, &str)], body: String, status: u16, want: &str| {
        let (answered, text) = call(&app, target, headers, Body::from(body)).await;
        assert_eq!((answered.as_u16(), text.contains(want)), (status, true), "{text}");
        assert!(text.ends_with('\n'), "{text}");
    };
    check("POST /upload?label=env=prod", &[JOURNAL], entry("one"), 202, "OK.").await;
    let (_, found) = call(&app, "GET /api/v1/query?from=0&q=one", &[], Body::empty()).await;
    assert!(
        found.contains(r#""labels":{"env":"prod","host.name":"web1"}"#) && found.contains(r#""severity_text":"info""#)
    );
    check(UPLOAD, &[JOURNAL], String::new(), 202, "OK.").await;
    check(UPLOAD, &[], entry("two"), 415, "with Content-Type application/vnd.fdo.journal").await;
    check(UPLOAD, &[JOURNAL, ("idempotency-key", "k")], entry("two"), 400, "an upload has no key").await;
    check(UPLOAD, &[JOURNAL, ("content-encoding", "xz")], entry("two"), 415, "xz is not known").await;
    check("POST /upload?durability=x", &[JOURNAL], entry("two"), 400, "durability").await;
    // The entries before an error are stored.
    check(UPLOAD, &[JOURNAL], entry("three") + "not a field\n", 400, "not the journal export format").await;
    check(UPLOAD, &[JOURNAL], entry("four") + "MESSAGE=fi", 400, "within an entry").await;
    assert_eq!(stored(&app).await, ["four", "one", "three"]);
    let core = format!("COREDUMP={}\n", "x".repeat(2 << 20));
    check(UPLOAD, &[JOURNAL], core + &entry("five"), 202, "1 fields are too long").await;
    assert_eq!(stored(&app).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_an_end_is_stored_while_it_arrives_and_holds_no_memory() {
    let (app, clock) = node(2);
    let (parts, receiver) = mpsc::unbounded_channel::<String>();
    let body = Body::from_stream(futures_util::stream::unfold(receiver, |mut receiver| async {
        let part = receiver.recv().await?;
        Some((Ok::<_, std::io::Error>(Bytes::from(part)), receiver))
    }));
    let upload = tokio::spawn({
        let app = app.clone();
        async move { call(&app, UPLOAD, &[JOURNAL], body).await }
    });
    let wait_for = async |count: usize| {
        let waited = async {
            while stored(&app).await.len() < count {
                clock.advance(Duration::from_secs(1));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            while body_bytes(&app).await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.unwrap_or_else(|_| panic!("waited for {count} entries"));
    };
    parts.send(entry("a 1")).unwrap();
    wait_for(1).await;
    // It may pause for any time.
    clock.advance(Duration::from_secs(24 * 3_600));
    let last = entry("a 2");
    let (first, rest) = last.split_at(70);
    parts
        .send((0..2_000).map(|number| entry(&format!("b {number} {}", "x".repeat(100)))).collect::<String>() + first)
        .unwrap();
    wait_for(2_001).await;
    parts.send(rest.to_owned()).unwrap();
    wait_for(2_002).await;
    drop(parts);
    let (status, text) = tokio::time::timeout(WAIT_MAX, upload).await.unwrap().unwrap();
    assert_eq!((status, &*text), (StatusCode::ACCEPTED, "OK.\n"));
    assert_eq!(stored(&app).await.len(), 2_002);
}
