//! The scan pool: one thread per core, separate from the threads that serve the network.
//!
//! Each query has its own job queue. A free thread takes one job from the queue that has waited longest. So each query
//! gets an equal share of the threads, however many jobs other queries have queued.
//!
//! A job may run for seconds without interruption. Each queue with jobs has at least one running job, so long jobs of
//! one query do not block other queries. If all threads run jobs of other queues, an extra thread runs the job, and the
//! operating system shares the cores. Rejected: jobs that yield their thread; they need a scheduler and must hold no
//! lock when they yield.
//!
//! Invariant: an extra thread runs only a job whose queue has no other running job.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use bucksaw_env::lock;
use tracing::{error, warn};

type Job = Box<dyn FnOnce() + Send>;

/// Maximum number of extra threads, which is the number of concurrent queries from clients and other nodes.
const EXTRA_THREADS_MAX: usize = 512;

/// Runs scan jobs.
pub struct ScanPool {
    shared: Arc<PoolState>,
    /// If empty, jobs run in the calling thread.
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for ScanPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanPool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PoolState {
    queues: Mutex<JobQueues>,
    job_added: Condvar,
    queues_created: AtomicU64,
    /// Number of pool threads.
    threads: usize,
    on_thread_start: Option<Arc<dyn Fn(usize) + Send + Sync>>,
}

/// The job queue of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobQueueId(u64);

#[derive(Default)]
struct JobQueues {
    /// Queues with jobs; the first is served next.
    ready: VecDeque<(JobQueueId, VecDeque<Job>)>,
    /// Number of running jobs of each queue, if any.
    running: HashMap<JobQueueId, usize>,
    /// Pool threads that wait for a job, or have not started yet.
    idle: usize,
    /// Extra threads that run, and handles of all that may have ended.
    extra_running: usize,
    extra_threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl JobQueues {
    fn push(&mut self, queue: JobQueueId, job: Job) {
        match self.ready.iter_mut().find(|(other, _)| *other == queue) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.ready.push_back((queue, VecDeque::from([job]))),
        }
    }

    fn pop(&mut self) -> Option<(JobQueueId, Job)> {
        self.take_at(0)
    }

    /// Takes a job of a queue without a running job.
    fn pop_starved(&mut self) -> Option<(JobQueueId, Job)> {
        self.take_at(self.ready.iter().position(|(queue, _)| !self.running.contains_key(queue))?)
    }

    fn take_at(&mut self, at: usize) -> Option<(JobQueueId, Job)> {
        let (queue, mut jobs) = self.ready.remove(at)?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.ready.push_back((queue, jobs));
        }
        *self.running.entry(queue).or_default() += 1;
        Some((queue, job))
    }

    fn job_finished(&mut self, queue: JobQueueId) {
        if let Some(count) = self.running.get_mut(&queue) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&queue);
            }
        }
    }
}

impl ScanPool {
    /// Starts `threads` threads, at least one. Each calls `on_thread_start` with its number first; extra threads pass
    /// `threads`.
    ///
    /// # Errors
    /// If the operating system does not start a thread.
    pub fn start(threads: usize, on_thread_start: impl Fn(usize) + Send + Sync + 'static) -> std::io::Result<Self> {
        let on_thread_start: Arc<dyn Fn(usize) + Send + Sync> = Arc::new(on_thread_start);
        let threads = threads.max(1);
        // A thread that has not started yet counts as idle, so no extra thread is started for it.
        let queues = Mutex::new(JobQueues { idle: threads, ..JobQueues::default() });
        let on_start = Some(Arc::clone(&on_thread_start));
        let shared = Arc::new(PoolState { queues, threads, on_thread_start: on_start, ..PoolState::default() });
        let threads: std::io::Result<Vec<_>> = (0..threads)
            .map(|number| {
                let (shared, on_thread_start) = (Arc::clone(&shared), Arc::clone(&on_thread_start));
                std::thread::Builder::new().name(format!("scan-{number}")).spawn(move || {
                    on_thread_start(number);
                    shared.run_worker();
                })
            })
            .collect();
        Ok(Self { shared, threads: threads? })
    }

    /// A pool without threads, which runs each job in the calling thread, for deterministic simulation.
    pub fn inline() -> Self {
        Self { shared: Arc::default(), threads: Vec::new() }
    }

    /// Number of jobs that run at the same time.
    pub fn threads(&self) -> usize {
        self.threads.len().max(1)
    }

    /// Whether no job is queued or running.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let jobs = lock(&self.shared.queues);
        jobs.ready.is_empty() && jobs.running.is_empty()
    }

    pub(crate) fn new_queue(&self) -> JobQueueId {
        JobQueueId(self.shared.queues_created.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn run(&self, queue: JobQueueId, job: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            return run_job(job);
        }
        let mut jobs = lock(&self.shared.queues);
        jobs.push(queue, Box::new(job));
        self.shared.start_extra_threads(&mut jobs);
        drop(jobs);
        self.shared.job_added.notify_one();
    }
}

impl PoolState {
    fn run_worker(self: &Arc<Self>) {
        let mut jobs = lock(&self.queues);
        jobs.idle -= 1;
        loop {
            let (queue, job) = loop {
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
            jobs = lock(&self.queues);
            jobs.job_finished(queue);
        }
    }

    /// Starts extra threads for queues without a running job while no pool thread is idle.
    fn start_extra_threads(self: &Arc<Self>, jobs: &mut JobQueues) {
        if jobs.idle > 0 {
            return;
        }
        while jobs.extra_running < EXTRA_THREADS_MAX
            && let Some((queue, job)) = jobs.pop_starved()
        {
            let first = Arc::new(Mutex::new(Some(job)));
            let (shared, first_job) = (Arc::clone(self), Arc::clone(&first));
            let thread = std::thread::Builder::new().name("scan-extra".to_owned());
            match thread.spawn(move || shared.run_extra_worker(queue, &first_job)) {
                Ok(thread) => {
                    jobs.extra_running += 1;
                    jobs.extra_threads.retain(|other| !other.is_finished());
                    jobs.extra_threads.push(thread);
                }
                Err(error) => {
                    // The job waits for a pool thread.
                    warn!(%error, "cannot start an extra thread for a query");
                    jobs.job_finished(queue);
                    if let Some(job) = lock(&first).take() {
                        jobs.push(queue, job);
                    }
                    return;
                }
            }
        }
    }

    /// Runs a job, and then jobs of queues without a running one.
    fn run_extra_worker(&self, mut queue: JobQueueId, first: &Mutex<Option<Job>>) {
        if let Some(on_thread_start) = &self.on_thread_start {
            on_thread_start(self.threads);
        }
        let mut job = lock(first).take();
        while let Some(next) = job {
            run_job(next);
            let mut jobs = lock(&self.queues);
            jobs.job_finished(queue);
            let another = if jobs.idle == 0 { jobs.pop_starved() } else { None };
            job = match another {
                Some((next_queue, next_job)) => {
                    queue = next_queue;
                    Some(next_job)
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
    // A panic in one query must not end the thread; the query detects it by the missing result.
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        error!("scan panicked; its query fails");
    }
}

impl Drop for ScanPool {
    fn drop(&mut self) {
        lock(&self.shared.queues).closed = true;
        self.shared.job_added.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
        // Extra threads start no others.
        let extras = std::mem::take(&mut lock(&self.shared.queues).extra_threads);
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
    fn a_panic_of_a_job_ends_no_thread() {
        check(&ScanPool::start(1, |_| ()).unwrap());
        check(&ScanPool::inline());
    }

    fn check(pool: &ScanPool) {
        let (send, receive) = mpsc::channel();
        let lost = send.clone();
        let queue = pool.new_queue();
        pool.run(queue, move || {
            let _sender = lost;
            panic!("a bug");
        });
        pool.run(queue, move || send.send(7).unwrap());
        assert_eq!(receive.recv(), Ok(7));
        assert!(receive.recv().is_err(), "the job that panicked dropped its sender");
    }

    #[test]
    fn long_jobs_do_not_starve_other_queues() {
        let pool = ScanPool::start(2, |_| ()).unwrap();
        let (gate, (started, starts)) = (Arc::new(std::sync::RwLock::new(())), mpsc::channel());
        let closed = gate.write().unwrap();
        for _ in 0..6 {
            let queue = pool.new_queue();
            for _ in 0..2 {
                let (gate, started) = (Arc::clone(&gate), started.clone());
                pool.run(queue, move || {
                    started.send(queue).unwrap();
                    drop(gate.read());
                });
            }
        }
        let timeout = std::time::Duration::from_secs(20);
        let (mut queues, mut jobs) = (std::collections::HashSet::new(), 0);
        while queues.len() < 6 {
            queues.insert(starts.recv_timeout(timeout).expect("each queue has a running job"));
            jobs += 1;
        }
        let (send, receive) = mpsc::channel();
        (0..3).for_each(|number| {
            let send = send.clone();
            pool.run(pool.new_queue(), move || send.send(number).unwrap());
        });
        let mut done: Vec<i32> = (0..3).map(|_| receive.recv_timeout(timeout).expect("a short job ends")).collect();
        done.sort_unstable();
        assert_eq!(done, [0, 1, 2]);
        drop(closed);
        drop((pool, started));
        assert_eq!(jobs + starts.iter().count(), 12, "all jobs have run");
    }

    #[test]
    fn a_thread_that_has_not_started_counts_as_idle() {
        let gate = Arc::new(std::sync::RwLock::new(()));
        let closed = gate.write().unwrap();
        let waits = Arc::clone(&gate);
        let pool = ScanPool::start(1, move |_| drop(waits.read())).unwrap();
        let (send, receive) = mpsc::channel();
        let queue = pool.new_queue();
        for number in 0..3 {
            let send = send.clone();
            pool.run(queue, move || send.send(number).unwrap());
        }
        let extra = pool.shared.queues.lock().unwrap().extra_running;
        drop((closed, send));
        assert_eq!(extra, 0);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn queues_are_served_round_robin_in_order() {
        let (mut jobs, done) = (JobQueues::default(), Arc::new(Mutex::new(Vec::new())));
        for (queue, number) in [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)] {
            let done = Arc::clone(&done);
            jobs.push(JobQueueId(queue), Box::new(move || done.lock().unwrap().push((queue, number))));
        }
        while let Some((_, job)) = jobs.pop() {
            job();
        }
        assert_eq!(*done.lock().unwrap(), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]);
    }
}
