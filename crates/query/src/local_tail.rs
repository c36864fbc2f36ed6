//! The tail of one engine as events, polled on blocking threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{BoxFuture, Tasks, run_blocking};

use crate::match_buffer::SealedMatches;
use crate::tail::Tail;
use crate::tail_event::{TailEvent, TailRecords};

/// Interval of polls for new records. A record is shown at most two intervals after it was accepted.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A tail of this node's queue.
pub(crate) struct LocalTail {
    tasks: Arc<dyn Tasks>,
    /// `None` during a poll, and after one that failed.
    tail: Option<Tail>,
    /// The pause before the next poll.
    pause: Option<BoxFuture<()>>,
    poll: Option<BoxFuture<Option<(Tail, SealedMatches, u64)>>>,
    pending_events: VecDeque<TailEvent>,
}

impl LocalTail {
    pub(crate) fn new(tail: Tail, tasks: Arc<dyn Tasks>) -> Self {
        Self { tasks, tail: Some(tail), pause: None, poll: None, pending_events: VecDeque::new() }
    }

    /// Waits for the next event. `None` only after an internal error. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> Option<TailEvent> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return Some(event);
            }
            if self.poll.is_none() {
                // A tail that lags does not pause.
                if !self.tail.as_ref()?.has_more {
                    self.pause.get_or_insert_with(|| self.tasks.sleep(POLL_INTERVAL)).await;
                    self.pause = None;
                }
                if !self.tail.as_ref()?.has_new_appends() {
                    continue;
                }
            }
            let poll = match &mut self.poll {
                Some(poll) => poll,
                none => none.insert(start_poll(&self.tasks, self.tail.take()?)),
            };
            let polled = poll.await;
            self.poll = None;
            let (tail, matches, skipped_bytes) = polled?;
            self.tail = Some(tail);
            if skipped_bytes > 0 {
                self.pending_events.push_back(TailEvent::Skipped { address: None, bytes: skipped_bytes });
            }
            if matches.peek().is_some() {
                self.pending_events.push_back(TailEvent::Records(TailRecords::local(matches)));
            }
        }
    }
}

fn start_poll(tasks: &Arc<dyn Tasks>, mut tail: Tail) -> BoxFuture<Option<(Tail, SealedMatches, u64)>> {
    let tasks = Arc::clone(tasks);
    Box::pin(async move {
        let poll = move || {
            let (matches, skipped_bytes) = tail.poll();
            (tail, matches, skipped_bytes)
        };
        run_blocking(&tasks, poll).await
    })
}
