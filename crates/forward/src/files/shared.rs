//! The collector, shared between the reading thread and those who ask for its state.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real threads, in real time")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bucksaw_env::lock;

use super::collector::Collector;

/// How long the reading thread leaves the lock to a thread that waits for it.
const YIELD_TIME: Duration = Duration::from_millis(1);

/// A collector that one thread drives and others read.
pub(crate) struct SharedCollector {
    collector: Mutex<Collector>,
    /// Those who wait for the lock.
    waiting: AtomicUsize,
}

impl SharedCollector {
    pub(crate) fn new(collector: Collector) -> Self {
        Self { collector: Mutex::new(collector), waiting: AtomicUsize::new(0) }
    }

    /// Locks it for a step.
    pub(crate) fn drive(&self) -> MutexGuard<'_, Collector> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            // Otherwise a thread that steps without pause would take the lock again before the other wakes.
            thread::sleep(YIELD_TIME);
        }
        lock(&self.collector)
    }

    /// Locks it between two steps. May wait for the current one, so not on a thread that must not block.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut Collector) -> T) -> T {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut collector = lock(&self.collector);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        read(&mut collector)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bucksaw_env::{Env, sim};
    use bucksaw_tailer::TailerConfig;

    use super::*;
    use crate::Config;
    use crate::files::config::FilesConfig;
    use crate::send_window::SendWindow;

    #[test]
    fn a_request_delays_the_reading_thread_only_while_it_waits() {
        let (clock, entropy) = (Arc::new(sim::Clock::at_unix_ms(1)), Arc::new(sim::Entropy::seeded(1)));
        let env = Env { fs: Arc::new(sim::Fs::new()), clock, entropy };
        let files = FilesConfig::new(TailerConfig::default(), "/state".into());
        let collector = Collector::open(&Config::default(), &files, &env, Arc::new(SendWindow::new(1))).unwrap();
        let shared = SharedCollector::new(collector);
        assert_eq!(shared.read(|collector| collector.backlog().batches), 0);
        assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
    }
}
