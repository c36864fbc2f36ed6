#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::time::Duration;

use bucksaw_auth::ClientAccess;
use bucksaw_env::sim;

use super::*;
use crate::fixtures::app;

/// Sends a body with an idempotency key and returns the status.
async fn send(app: &App, durability: &str, body: &'static str) -> StatusCode {
    let query = RawQuery(Some(format!("durability={durability}")));
    let headers = HeaderMap::from_iter([("idempotency-key".parse().unwrap(), HeaderValue::from_static("a key"))]);
    let sent = ingest(State(app.clone()), RequestClient(ClientAccess::default()), query, headers, Body::from(body));
    let syncing = async {
        loop {
            app.queue().commit_group();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        answer = sent => answer.status(),
        () = syncing => StatusCode::GATEWAY_TIMEOUT,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_durable_batch_survives_a_power_cut() {
    let fs = sim::Fs::new();
    let node = app(&fs, 1);
    assert_eq!(send(&node, "durable", "one\n").await, StatusCode::OK);
    assert_eq!(node.queue().keys_written(), node.queue().keys_synced());
    let fs = fs.cut_power(sim::PowerCutLoss::All, 1);
    let node = app(&fs, 2);
    assert_eq!(send(&node, "durable", "another\n").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(send(&node, "fast", "one\n").await, StatusCode::OK, "a retry of the same body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_cannot_be_synced_makes_no_batch_durable() {
    let fs = sim::Fs::new();
    let node = app(&fs, 3);
    assert_eq!(send(&node, "fast", "one\n").await, StatusCode::OK);
    fs.fail_next_syncs(u64::MAX);
    assert_eq!(send(&node, "durable", "one\n").await, StatusCode::SERVICE_UNAVAILABLE);
}
