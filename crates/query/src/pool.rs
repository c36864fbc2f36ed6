//! The threads that scan: as many as there are cores, apart from those that answer the network.
//!
//! A query hands over a few units at a time and waits for them before it hands over more, so the queue here is short, and
//! queries in flight share the threads fairly without further ado.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tracing::error;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs.
pub struct Pool {
    shared: Arc<Shared>,
    /// Without any, jobs run where they are handed over.
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    bell: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// What the operating system says when it gives no thread.
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let threads: std::io::Result<Vec<_>> = (0..threads.max(1))
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new().name(format!("scan-{number}")).spawn(move || shared.work())
            })
            .collect();
        Ok(Self { shared, threads: threads? })
    }

    /// One without threads, which runs each job where it is handed over, before it goes on: for simulations, in which
    /// everything must come in the same order each time.
    #[must_use]
    pub fn inline() -> Self {
        Self { shared: Arc::default(), threads: Vec::new() }
    }

    /// How many jobs run at the same time.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len().max(1)
    }

    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            return work_off(job);
        }
        let mut jobs = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.waiting.push_back(Box::new(job));
        drop(jobs);
        self.shared.bell.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                if let Some(job) = jobs.waiting.pop_front() {
                    break job;
                }
                if jobs.closed {
                    return;
                }
                jobs = self.bell.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            };
            drop(jobs);
            work_off(job);
        }
    }
}

fn work_off(job: impl FnOnce()) {
    // A bug in one query must not take the thread from all others; the query hears of it by its missing answer.
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        error!("a scan failed by a bug; its query ends with an error");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.bell.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to give back.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_and_a_panic_takes_no_thread() {
        check(&Pool::start(1).unwrap());
        check(&Pool::inline());
    }

    fn check(pool: &Pool) {
        let (send, receive) = mpsc::channel();
        let lost = send.clone();
        pool.run(move || {
            let _held = lost;
            panic!("a bug");
        });
        pool.run(move || send.send(7).unwrap());
        assert_eq!(receive.recv(), Ok(7));
        assert!(receive.recv().is_err(), "the job that failed let go of its sender");
    }
}
