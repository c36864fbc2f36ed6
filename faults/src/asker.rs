//! Somebody who asks while things go wrong.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::check::{Seen, ask};
use crate::ledger::Ledger;
use crate::random::Random;
use crate::watch::Watch;

/// Between an answer and the next question.
const REST: Duration = Duration::from_millis(300);

/// A thread that asks one node after the other, until this is dropped.
pub(crate) struct Asker {
    told: Arc<Mutex<Vec<Told>>>,
    stop: Arc<AtomicBool>,
}

/// What an answer showed.
pub(crate) struct Told {
    /// When it was asked for, from the start of the run.
    pub(crate) at: Duration,
    /// The place of the node among all.
    pub(crate) place: usize,
    /// Whose lines were asked for.
    pub(crate) writer: String,
    /// None when there was no whole answer.
    pub(crate) seen: Option<Seen>,
}

impl Asker {
    pub(crate) fn start(nodes: Vec<SocketAddr>, ledgers: Vec<Arc<Ledger>>, watch: Arc<Watch>, seed: u64) -> Self {
        let (told, stop) = (Arc::<Mutex<Vec<Told>>>::default(), Arc::<AtomicBool>::default());
        let (tell, stopped) = (Arc::clone(&told), Arc::clone(&stop));
        thread::spawn(move || {
            let mut random = Random::new(seed);
            while !stopped.load(Ordering::Relaxed) {
                let (place, ledger) = (random.below(nodes.len()), &ledgers[random.below(ledgers.len())]);
                let at = watch.now();
                // What was acknowledged before it is asked has to be in a complete answer.
                let seen = ask(nodes[place], ledger, &ledger.recent());
                let told = Told { at, place, writer: ledger.name().to_owned(), seen };
                tell.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                thread::sleep(REST);
            }
        });
        Self { told, stop }
    }

    /// What was told since this was asked last.
    pub(crate) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks nothing more. The thread ends by itself when its question is answered.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop();
    }
}
