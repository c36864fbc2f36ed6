//! For tests: the surface of a node in a simulated environment.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{Env, real, sim};
use bucksaw_ingest::{Metrics as QueueMetrics, Queue};
use bucksaw_query::{Answers, Engine, ScanPool};
use bucksaw_sources::{AuditTrail, Intake};
use bucksaw_steering::LoadShedder;
use prometheus_client::registry::Registry;

use crate::config::Config;
use crate::metrics::Metrics;
use crate::{App, NodeInfo};

/// The time of [`app`] with seed 0, in Unix milliseconds.
pub(crate) const NOW_MS: u64 = 1_700_000_000_000;

/// The surface of a node with queue and store in a file system. Other seeds give other ids and a later time.
pub(crate) fn app(fs: &sim::Fs, seed: u64) -> App {
    app_with(fs, seed, Arc::new(sim::Clock::at_unix_ms(NOW_MS + seed)), Config::default())
}

/// The same with this clock and these settings.
#[expect(clippy::disallowed_types, reason = "a real store")]
pub(crate) fn app_with(fs: &sim::Fs, seed: u64, clock: Arc<sim::Clock>, api_config: Config) -> App {
    let env = Env { fs: Arc::new(fs.clone()), clock, entropy: Arc::new(sim::Entropy::seeded(seed)) };
    let mut registry = Registry::default();
    let (config, metrics) = (bucksaw_ingest::Config::default(), QueueMetrics::new(&mut Registry::default()));
    let queue = Arc::new(Queue::open(env.clone(), Path::new("/queue"), config, metrics).unwrap().0);
    let store = bucksaw_store::Metrics::new(&mut registry);
    let store_config = bucksaw_store::Config::default();
    let store = bucksaw_store::SegmentStore::open(env.clone(), Path::new("/store"), store_config, store).unwrap();
    let (config, metrics) = (bucksaw_query::Config::default(), bucksaw_query::Metrics::new(&mut registry));
    let engine = Engine::new(queue, Arc::new(store), ScanPool::inline(), env.clone(), config, metrics);
    let shedder = Arc::new(LoadShedder::new(bucksaw_steering::Metrics::new(&mut registry)));
    let metrics = Metrics::new(&mut registry);
    let tasks = real::Tasks::new(tokio::runtime::Handle::current());
    let answers = Answers::new(Arc::new(engine), Arc::new(tasks));
    App::new(answers, shedder, env, api_config, metrics, NodeInfo::default(), registry)
}

/// The same with an audit trail.
pub(crate) fn audited(app: App) -> App {
    let intake = Intake::new(Arc::clone(app.queue()), app.env.clone());
    let trail = AuditTrail::new(intake, app.info.id.clone(), Arc::clone(app.answers.tasks()));
    app.with_audit(Some(trail))
}
