#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, real, sim};
use bucksaw_ingest::{Metrics as QueueMetrics, Queue};
use bucksaw_query::{Answers, Engine, ScanPool};
use prometheus_client::registry::Registry;

use super::*;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::{App, NodeInfo};

fn env(fs: &sim::Fs, seed: u64) -> Env {
    let clock = Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000 + seed));
    Env { fs: Arc::new(fs.clone()), clock, entropy: Arc::new(sim::Entropy::seeded(seed)) }
}

fn queue(env: &Env) -> Arc<Queue> {
    let metrics = QueueMetrics::new(&mut Registry::default());
    Arc::new(Queue::open(env.clone(), Path::new("/queue"), bucksaw_ingest::Config::default(), metrics).unwrap().0)
}

#[expect(clippy::disallowed_types, reason = "a real store")]
fn app(fs: &sim::Fs, seed: u64) -> App {
    let (env, mut registry) = (env(fs, seed), Registry::default());
    let store = bucksaw_store::Metrics::new(&mut registry);
    let store =
        bucksaw_store::SegmentStore::open(env.clone(), Path::new("/store"), bucksaw_store::Config::default(), store)
            .unwrap();
    let (config, metrics) = (bucksaw_query::Config::default(), bucksaw_query::Metrics::new(&mut registry));
    let engine = Engine::new(queue(&env), Arc::new(store), ScanPool::inline(), env.clone(), config, metrics);
    let metrics = Metrics::new(&mut registry);
    let tasks = real::Tasks::new(tokio::runtime::Handle::current());
    let answers = Answers::new(Arc::new(engine), Arc::new(tasks));
    App::new(answers, env, Config::default(), metrics, NodeInfo::default(), registry)
}

/// Sends a body with a key; gives the status.
async fn send(app: &App, durability: &str, body: &'static str) -> StatusCode {
    let query = RawQuery(Some(format!("durability={durability}")));
    let headers = HeaderMap::from_iter([("idempotency-key".parse().unwrap(), HeaderValue::from_static("a key"))]);
    let sent = ingest(State(app.clone()), query, headers, Body::from(body));
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
async fn the_key_of_a_batch_that_was_told_to_be_durable_survives_a_power_cut() {
    let fs = sim::Fs::new();
    let node = app(&fs, 1);
    assert_eq!(send(&node, "durable", "one\n").await, StatusCode::OK);
    assert_eq!(node.queue().keys_written(), node.queue().keys_synced());
    let fs = fs.cut_power(sim::PowerCutLoss::All, 1);
    let node = app(&fs, 2);
    assert_eq!(send(&node, "durable", "another\n").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(send(&node, "fast", "one\n").await, StatusCode::OK, "the same body may come again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_cannot_be_synced_makes_no_batch_durable() {
    let fs = sim::Fs::new();
    let node = app(&fs, 3);
    assert_eq!(send(&node, "fast", "one\n").await, StatusCode::OK);
    fs.fail_next_syncs(u64::MAX);
    assert_eq!(send(&node, "durable", "one\n").await, StatusCode::SERVICE_UNAVAILABLE);
}
