//! The units that a query has in flight.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::engine::Engine;
use crate::pool::JobQueueId;
use crate::request::Cancel;

/// How often a query that waits for its scans looks whether it is still wanted.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How many looks a query waits for the scans that are under way when its time limit is reached: what these found by
/// then is a part of the answer. A scan that has a thread ends within a slice of work.
const POLLS_AFTER_TIME_LIMIT: u32 = 50;

/// Hands jobs to the pool and takes their results, a few at a time.
pub(crate) struct Dispatch<R> {
    engine: Arc<Engine>,
    cancel: Cancel,
    job_queue: JobQueueId,
    in_flight_max: usize,
    sender: SyncSender<(usize, Option<R>)>,
    receiver: Receiver<(usize, Option<R>)>,
}

impl<R: Send + 'static> Dispatch<R> {
    /// With at most so many jobs in flight for each thread: enough that none is idle while results are taken.
    pub(crate) fn new(engine: &Arc<Engine>, cancel: Cancel, jobs_per_thread: usize) -> Self {
        let window = engine.pool.threads() * jobs_per_thread;
        // As many places as can be in flight, so that no thread of the pool ever waits for a slow reader.
        let (sender, receiver) = sync_channel(window + 2);
        Self {
            engine: Arc::clone(engine),
            cancel,
            job_queue: engine.pool.new_queue(),
            in_flight_max: window,
            sender,
            receiver,
        }
    }

    /// How many jobs to have in flight.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    /// Has a job done that takes `bytes` of memory while it is at work.
    pub(crate) fn submit(&self, number: usize, bytes: u64, job: impl FnOnce() -> R + Send + 'static) {
        let answer = JobResult { number, result: None, sender: self.sender.clone() };
        // From now on: a job that waits for a thread is waited for, too.
        let busy = self.engine.store.foreground().enter();
        let room = Arc::clone(&self.engine.scan_memory);
        self.engine.pool.run(self.job_queue, move || {
            // Whole, so that it is dropped here and not where it was made.
            let mut answer = answer;
            // Over before the answer is sent, which is dropped after it: who has the answer no longer waits.
            let _busy = busy;
            let _taken = room.reserve(bytes);
            answer.result = Some(job());
        });
    }

    /// The next result, if there is one already.
    pub(crate) fn try_receive(&self) -> Option<(usize, Option<R>)> {
        self.receiver.try_recv().ok()
    }

    /// The next result; its content is `None` when the job failed by a bug. `None` when the query was cancelled, or when
    /// its time limit was reached and no scan has ended in a while.
    pub(crate) fn receive(&self) -> Option<(usize, Option<R>)> {
        let mut looks_left = POLLS_AFTER_TIME_LIMIT;
        loop {
            match self.receiver.recv_timeout(CANCEL_POLL_INTERVAL) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => return None,
                Err(RecvTimeoutError::Timeout) if self.cancel.should_stop() => {
                    looks_left = looks_left.checked_sub(1)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Sends the result when the job is done or has panicked.
struct JobResult<R> {
    number: usize,
    result: Option<R>,
    sender: SyncSender<(usize, Option<R>)>,
}

impl<R> Drop for JobResult<R> {
    fn drop(&mut self) {
        // There is a place for it, or the query is gone.
        let _ = self.sender.try_send((self.number, self.result.take()));
    }
}
