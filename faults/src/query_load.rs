//! Queries during a fault run.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::compare::{ComparedAnswer, query_and_compare};
use crate::ledger::Ledger;
use crate::monitor::ClusterMonitor;
use bucksaw_fixtures::Random;

/// The pause between queries.
const QUERY_PAUSE: Duration = Duration::from_millis(300);

/// A thread that queries the nodes in turn until it is dropped.
pub(crate) struct QueryLoad {
    observations: Arc<Mutex<Vec<QueryObservation>>>,
    stop: Arc<AtomicBool>,
}

/// A query and its answer.
pub(crate) struct QueryObservation {
    /// The time of the query since the start of the run.
    pub(crate) at: Duration,
    /// The index of the node.
    pub(crate) node_index: usize,
    /// The index of the writer whose lines were queried.
    pub(crate) writer: String,
    /// `None` without a whole answer.
    pub(crate) compared: Option<ComparedAnswer>,
}

impl QueryLoad {
    pub(crate) fn start(
        nodes: Vec<SocketAddr>,
        ledgers: Vec<Arc<Ledger>>,
        monitor: Arc<ClusterMonitor>,
        seed: u64,
    ) -> Self {
        let (observations, stop) = (Arc::<Mutex<Vec<QueryObservation>>>::default(), Arc::<AtomicBool>::default());
        let (sink, stopped) = (Arc::clone(&observations), Arc::clone(&stop));
        thread::spawn(move || {
            let mut random = Random::new(seed);
            while !stopped.load(Ordering::Relaxed) {
                let (place, ledger) = (random.below(nodes.len()), &ledgers[random.below(ledgers.len())]);
                let at = monitor.now();
                // Lines acknowledged before the query must be in a complete answer.
                let seen = query_and_compare(nodes[place], ledger, &ledger.recent());
                let observation =
                    QueryObservation { at, node_index: place, writer: ledger.name().to_owned(), compared: seen };
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(observation);
                thread::sleep(QUERY_PAUSE);
            }
        });
        Self { observations, stop }
    }

    /// The answers since the last call.
    pub(crate) fn take_observations(&self) -> Vec<QueryObservation> {
        std::mem::take(&mut *self.observations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops querying. The thread ends after its current query.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for QueryLoad {
    fn drop(&mut self) {
        self.stop();
    }
}
