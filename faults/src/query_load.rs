//! Somebody who asks while things go wrong.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::compare::{ComparedAnswer, query_and_compare};
use crate::ledger::Ledger;
use crate::monitor::ClusterMonitor;
use crate::random::Random;

/// Between an answer and the next question.
const QUERY_PAUSE: Duration = Duration::from_millis(300);

/// A thread that asks one node after the other, until this is dropped.
pub(crate) struct QueryLoad {
    observations: Arc<Mutex<Vec<QueryObservation>>>,
    stop: Arc<AtomicBool>,
}

/// What an answer showed.
pub(crate) struct QueryObservation {
    /// When it was asked for, from the start of the run.
    pub(crate) at: Duration,
    /// The place of the node among all.
    pub(crate) node_index: usize,
    /// Whose lines were asked for.
    pub(crate) writer: String,
    /// None when there was no whole answer.
    pub(crate) compared: Option<ComparedAnswer>,
}

impl QueryLoad {
    pub(crate) fn start(
        nodes: Vec<SocketAddr>,
        ledgers: Vec<Arc<Ledger>>,
        watch: Arc<ClusterMonitor>,
        seed: u64,
    ) -> Self {
        let (told, stop) = (Arc::<Mutex<Vec<QueryObservation>>>::default(), Arc::<AtomicBool>::default());
        let (tell, stopped) = (Arc::clone(&told), Arc::clone(&stop));
        thread::spawn(move || {
            let mut random = Random::new(seed);
            while !stopped.load(Ordering::Relaxed) {
                let (place, ledger) = (random.below(nodes.len()), &ledgers[random.below(ledgers.len())]);
                let at = watch.now();
                // What was acknowledged before it is asked has to be in a complete answer.
                let seen = query_and_compare(nodes[place], ledger, &ledger.recent());
                let told = QueryObservation { at, node_index: place, writer: ledger.name().to_owned(), compared: seen };
                tell.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                thread::sleep(QUERY_PAUSE);
            }
        });
        Self { observations: told, stop }
    }

    /// What was told since this was asked last.
    pub(crate) fn take_observations(&self) -> Vec<QueryObservation> {
        std::mem::take(&mut *self.observations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks nothing more. The thread ends by itself when its question is answered.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for QueryLoad {
    fn drop(&mut self) {
        self.stop();
    }
}
