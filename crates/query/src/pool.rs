//! The threads that scan: as many as there are cores, apart from those that answer the network.
//!
//! Queries take turns: each has a line of jobs of its own, and a thread that is free takes one job from the line that has
//! waited longest. So a query has its share of the threads however many jobs the others have in line.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
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
    lines: AtomicU64,
}

/// The jobs of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line(u64);

#[derive(Default)]
struct Jobs {
    /// The lines that are not empty; the first is next.
    waiting: VecDeque<(Line, VecDeque<Job>)>,
    closed: bool,
}

impl Jobs {
    fn push(&mut self, line: Line, job: Job) {
        match self.waiting.iter_mut().find(|(other, _)| *other == line) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.waiting.push_back((line, VecDeque::from([job]))),
        }
    }

    fn pop(&mut self) -> Option<Job> {
        let (line, mut jobs) = self.waiting.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.waiting.push_back((line, jobs));
        }
        job
    }
}

impl Pool {
    /// Starts `threads` threads, at least one. Each says its number to `begun` first of all.
    ///
    /// # Errors
    /// What the operating system says when it gives no thread.
    pub fn start(threads: usize, begun: impl Fn(usize) + Send + Sync + 'static) -> std::io::Result<Self> {
        let (shared, begun) = (Arc::new(Shared::default()), Arc::new(begun));
        let threads: std::io::Result<Vec<_>> = (0..threads.max(1))
            .map(|number| {
                let (shared, begun) = (Arc::clone(&shared), Arc::clone(&begun));
                std::thread::Builder::new().name(format!("scan-{number}")).spawn(move || {
                    begun(number);
                    shared.work();
                })
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

    /// A new line.
    pub(crate) fn line(&self) -> Line {
        Line(self.shared.lines.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn run(&self, line: Line, job: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            return work_off(job);
        }
        let mut jobs = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.push(line, Box::new(job));
        drop(jobs);
        self.shared.bell.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                if let Some(job) = jobs.pop() {
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
        check(&Pool::start(1, |_| ()).unwrap());
        check(&Pool::inline());
    }

    fn check(pool: &Pool) {
        let (send, receive) = mpsc::channel();
        let lost = send.clone();
        let line = pool.line();
        pool.run(line, move || {
            let _held = lost;
            panic!("a bug");
        });
        pool.run(line, move || send.send(7).unwrap());
        assert_eq!(receive.recv(), Ok(7));
        assert!(receive.recv().is_err(), "the job that failed let go of its sender");
    }

    #[test]
    fn lines_take_turns_and_keep_their_order() {
        let pool = Pool::start(1, |_| ()).unwrap();
        let (lines, (send, receive)) = ([pool.line(), pool.line(), pool.line()], mpsc::channel());
        let (go, wait) = mpsc::channel();
        pool.run(pool.line(), move || wait.recv().unwrap());
        for (line, number) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)] {
            let send = send.clone();
            pool.run(lines[line], move || send.send((line, number)).unwrap());
        }
        go.send(()).unwrap();
        drop(send);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]);
    }
}
