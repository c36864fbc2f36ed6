//! The threads that scan: as many as there are cores, apart from those that answer the network.
//!
//! Queries take turns: each has a line of jobs of its own, and a thread that is free takes one job from the line that has
//! waited longest. So a query has its share of the threads however many jobs the others have in line.
//!
//! A job may run for seconds, and it is not interrupted. So that long jobs of some queries do not keep the threads from all
//! others, each line with jobs has one job at work at least: where all threads are busy with other lines, an extra
//! thread takes it, and the operating system shares the cores between all of them. (Rejected: jobs that give their
//! thread back in between, which must hold no lock there and be scheduled here.)
//!
//! Invariant: besides the extra threads, of which each has the only running job of its line, no more than the pool's
//! threads are at work.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tracing::{error, warn};

type Job = Box<dyn FnOnce() + Send>;

/// Extra threads, at most: as many as queries run at the same time, from clients and from other nodes.
const EXTRA_THREADS_MAX: usize = 512;

/// Runs jobs.
pub struct ScanPool {
    shared: Arc<PoolState>,
    /// Without any, jobs run where they are handed over.
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for ScanPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PoolState {
    queues: Mutex<JobQueues>,
    job_added: Condvar,
    queues_created: AtomicU64,
    /// The pool's threads, without the extra ones.
    threads: usize,
    on_thread_start: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

/// The jobs of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobQueueId(u64);

#[derive(Default)]
struct JobQueues {
    /// The lines that are not empty; the first is next.
    ready: VecDeque<(JobQueueId, VecDeque<Job>)>,
    /// How many jobs of each line are at work; lines without any are left out.
    running: HashMap<JobQueueId, usize>,
    /// The pool's threads that wait for a job, or have not begun.
    idle: usize,
    /// Extra threads at work, and those that may have ended.
    extra_running: usize,
    extra_threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl JobQueues {
    fn push(&mut self, line: JobQueueId, job: Job) {
        match self.ready.iter_mut().find(|(other, _)| *other == line) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.ready.push_back((line, VecDeque::from([job]))),
        }
    }

    /// Puts a job back.
    fn push_first(&mut self, line: JobQueueId, job: Job) {
        match self.ready.iter_mut().find(|(other, _)| *other == line) {
            Some((_, jobs)) => jobs.push_front(job),
            None => self.ready.push_back((line, VecDeque::from([job]))),
        }
    }

    fn pop(&mut self) -> Option<(JobQueueId, Job)> {
        self.take_at(0)
    }

    /// A job of a line that has none at work.
    fn pop_starved(&mut self) -> Option<(JobQueueId, Job)> {
        self.take_at(self.starved_position()?)
    }

    fn starved_position(&self) -> Option<usize> {
        self.ready.iter().position(|(line, _)| !self.running.contains_key(line))
    }

    fn take_at(&mut self, at: usize) -> Option<(JobQueueId, Job)> {
        let (line, mut jobs) = self.ready.remove(at)?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.ready.push_back((line, jobs));
        }
        *self.running.entry(line).or_default() += 1;
        Some((line, job))
    }

    fn job_finished(&mut self, line: JobQueueId) {
        if let Some(count) = self.running.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&line);
            }
        }
    }
}

impl ScanPool {
    /// Starts `threads` threads, at least one. Each says its number to `begun` first of all; extra threads, which come
    /// and go, say a number from `threads` on.
    ///
    /// # Errors
    /// What the operating system says when it gives no thread.
    pub fn start(threads: usize, on_thread_start: impl Fn(usize) + Send + Sync + 'static) -> std::io::Result<Self> {
        let begun: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_thread_start);
        let threads = threads.max(1);
        // A thread that has not begun will be free: no extra thread is started in its place.
        let jobs = Mutex::new(JobQueues { idle: threads, ..JobQueues::default() });
        let shared = Arc::new(PoolState {
            queues: jobs,
            threads,
            on_thread_start: Some(Arc::clone(&begun)),
            ..PoolState::default()
        });
        let threads: std::io::Result<Vec<_>> = (0..threads)
            .map(|number| {
                let (shared, begun) = (Arc::clone(&shared), Arc::clone(&begun));
                std::thread::Builder::new().name(format!("scan-{number}")).spawn(move || {
                    begun(number);
                    shared.run_worker();
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

    /// Whether no job waits or is at work.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let jobs = self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.ready.is_empty() && jobs.running.is_empty()
    }

    /// A new line.
    pub(crate) fn new_queue(&self) -> JobQueueId {
        JobQueueId(self.shared.queues_created.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn run(&self, line: JobQueueId, job: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            return run_job(job);
        }
        let mut jobs = self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.push(line, Box::new(job));
        self.shared.start_extra_threads(&mut jobs);
        drop(jobs);
        self.shared.job_added.notify_one();
    }
}

impl PoolState {
    fn run_worker(self: &Arc<Self>) {
        let mut jobs = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.idle -= 1;
        loop {
            let (line, job) = loop {
                if let Some(job) = jobs.pop() {
                    break job;
                }
                if jobs.closed {
                    return;
                }
                jobs.idle += 1;
                jobs = self.job_added.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                jobs.idle -= 1;
            };
            self.start_extra_threads(&mut jobs);
            drop(jobs);
            run_job(job);
            jobs = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.job_finished(line);
        }
    }

    /// Starts extra threads for lines without a job at work, when none of the pool's threads is free for them.
    fn start_extra_threads(self: &Arc<Self>, jobs: &mut JobQueues) {
        if jobs.idle > 0 {
            return;
        }
        while jobs.extra_running < EXTRA_THREADS_MAX
            && let Some((line, job)) = jobs.pop_starved()
        {
            let first = Arc::new(Mutex::new(Some(job)));
            let (shared, taken) = (Arc::clone(self), Arc::clone(&first));
            let thread = std::thread::Builder::new().name("scan-extra".to_owned());
            match thread.spawn(move || shared.run_extra_worker(line, &taken)) {
                Ok(thread) => {
                    jobs.extra_running += 1;
                    jobs.extra_threads.retain(|other| !other.is_finished());
                    jobs.extra_threads.push(thread);
                }
                Err(error) => {
                    // It waits for one of the pool's threads.
                    warn!(%error, "no extra thread for a query");
                    jobs.job_finished(line);
                    if let Some(job) = first.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        jobs.push_first(line, job);
                    }
                    return;
                }
            }
        }
    }

    /// Works off a job, and then those of lines without any at work.
    fn run_extra_worker(&self, mut line: JobQueueId, first: &Mutex<Option<Job>>) {
        if let Some(begun) = &self.on_thread_start {
            begun(self.threads);
        }
        let mut job = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        while let Some(next) = job {
            run_job(next);
            let mut jobs = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.job_finished(line);
            let another = if jobs.idle == 0 { jobs.pop_starved() } else { None };
            job = match another {
                Some((next_line, next)) => {
                    line = next_line;
                    Some(next)
                }
                None => {
                    jobs.extra_running -= 1;
                    None
                }
            };
        }
    }
}

fn run_job(job: impl FnOnce()) {
    // A bug in one query must not take the thread from all others; the query hears of it by its missing answer.
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        error!("scan panicked; its query fails");
    }
}

impl Drop for ScanPool {
    fn drop(&mut self) {
        self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.job_added.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to give back.
            let _ = thread.join();
        }
        // None of these starts another.
        let extras =
            std::mem::take(&mut self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).extra_threads);
        for thread in extras {
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
        check(&ScanPool::start(1, |_| ()).unwrap());
        check(&ScanPool::inline());
    }

    fn check(pool: &ScanPool) {
        let (send, receive) = mpsc::channel();
        let lost = send.clone();
        let line = pool.new_queue();
        pool.run(line, move || {
            let _held = lost;
            panic!("a bug");
        });
        pool.run(line, move || send.send(7).unwrap());
        assert_eq!(receive.recv(), Ok(7));
        assert!(receive.recv().is_err(), "the job that failed let go of its sender");
    }

    #[test]
    fn long_jobs_do_not_starve_other_queues() {
        let pool = ScanPool::start(2, |_| ()).unwrap();
        let (gate, (started, starts)) = (Arc::new(std::sync::RwLock::new(())), mpsc::channel());
        let closed = gate.write().unwrap();
        for _ in 0..6 {
            let line = pool.new_queue();
            for _ in 0..2 {
                let (gate, started) = (Arc::clone(&gate), started.clone());
                pool.run(line, move || {
                    started.send(line).unwrap();
                    drop(gate.read());
                });
            }
        }
        let long = std::time::Duration::from_secs(20);
        let (mut lines, mut jobs) = (std::collections::HashSet::new(), 0);
        while lines.len() < 6 {
            lines.insert(starts.recv_timeout(long).expect("each line has a job at work"));
            jobs += 1;
        }
        let (send, receive) = mpsc::channel();
        (0..3).for_each(|number| {
            let send = send.clone();
            pool.run(pool.new_queue(), move || send.send(number).unwrap());
        });
        let mut done: Vec<i32> = (0..3).map(|_| receive.recv_timeout(long).expect("a short job is done")).collect();
        done.sort_unstable();
        assert_eq!(done, [0, 1, 2]);
        drop(closed);
        drop((pool, started));
        assert_eq!(jobs + starts.iter().count(), 12, "all jobs are worked off");
    }

    #[test]
    fn a_thread_that_has_not_begun_gets_no_extra_thread_beside_it() {
        let gate = Arc::new(std::sync::RwLock::new(()));
        let closed = gate.write().unwrap();
        let waits = Arc::clone(&gate);
        let pool = ScanPool::start(1, move |_| drop(waits.read())).unwrap();
        let (send, receive) = mpsc::channel();
        let line = pool.new_queue();
        for number in 0..3 {
            let send = send.clone();
            pool.run(line, move || send.send(number).unwrap());
        }
        let extra = pool.shared.queues.lock().unwrap().extra_running;
        drop((closed, send));
        assert_eq!(extra, 0);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn queues_are_served_round_robin_in_order() {
        let (mut jobs, done) = (JobQueues::default(), Arc::new(Mutex::new(Vec::new())));
        for (line, number) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)] {
            let done = Arc::clone(&done);
            jobs.push(JobQueueId(line), Box::new(move || done.lock().unwrap().push((line, number))));
        }
        while let Some((_, job)) = jobs.pop() {
            job();
        }
        assert_eq!(*done.lock().unwrap(), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]);
    }
}
