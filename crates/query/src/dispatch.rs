//! Jobs of one query on the scan pool.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::engine::Engine;
use crate::pool::JobQueueId;
use crate::request::Cancel;

/// How often a query that waits for its scans checks whether it was cancelled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How many such intervals a query waits for running scans after its time limit. A scan that has a thread ends within a
/// slice of work, and its matches are part of the answer.
const POLLS_AFTER_TIME_LIMIT: u32 = 50;

/// Submits jobs to the pool and receives their results, a few at a time.
pub(crate) struct Dispatch<R> {
    engine: Arc<Engine>,
    cancel: Cancel,
    job_queue: JobQueueId,
    pub(crate) in_flight_max: usize,
    sender: SyncSender<(usize, Option<R>)>,
    receiver: Receiver<(usize, Option<R>)>,
}

impl<R: Send + 'static> Dispatch<R> {
    /// For up to `jobs_per_thread` jobs in flight for each thread, enough to keep all busy while results are received.
    pub(crate) fn new(engine: &Arc<Engine>, cancel: Cancel, jobs_per_thread: usize) -> Self {
        let in_flight_max = engine.pool.threads() * jobs_per_thread;
        // Has space for all results in flight, so that no thread of the pool waits for a slow reader.
        let (sender, receiver) = sync_channel(in_flight_max + 2);
        let job_queue = engine.pool.new_queue();
        Self { engine: Arc::clone(engine), cancel, job_queue, in_flight_max, sender, receiver }
    }

    /// Queues a job that takes `bytes` of memory while it runs.
    pub(crate) fn submit(&self, number: usize, bytes: u64, job: impl FnOnce() -> R + Send + 'static) {
        let result = JobResult { number, result: None, sender: self.sender.clone() };
        // Includes the time in which the job waits for a thread.
        let foreground = self.engine.store.foreground().enter();
        let memory = Arc::clone(&self.engine.scan_memory);
        self.engine.pool.run(self.job_queue, move || {
            // Moved as a whole, so that it is dropped, which sends it, after the guards below.
            let mut result = result;
            let _foreground = foreground;
            let _memory = memory.reserve(bytes);
            result.result = Some(job());
        });
    }

    /// The next result, if one is ready.
    pub(crate) fn try_receive(&self) -> Option<(usize, Option<R>)> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next result, which is `None` for a job that panicked. Returns `None` after a cancellation, or when no
    /// scan ends within a second after the time limit.
    pub(crate) fn receive(&self) -> Option<(usize, Option<R>)> {
        let mut polls_left = POLLS_AFTER_TIME_LIMIT;
        loop {
            match self.receiver.recv_timeout(CANCEL_POLL_INTERVAL) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => return None,
                Err(RecvTimeoutError::Timeout) if self.cancel.should_stop() => {
                    polls_left = polls_left.checked_sub(1)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Sends the result of a job when it is dropped, also after a panic.
struct JobResult<R> {
    number: usize,
    result: Option<R>,
    sender: SyncSender<(usize, Option<R>)>,
}

impl<R> Drop for JobResult<R> {
    fn drop(&mut self) {
        // The channel has space, or the query is gone.
        let _ = self.sender.try_send((self.number, self.result.take()));
    }
}
