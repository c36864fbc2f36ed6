//! A tail, of one engine or of all nodes, as events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{BoxFuture, Tasks, run_blocking};

use crate::scatter::ScatterTail;
use crate::tail::{Tail, TailBatch};
use crate::tail_event::{TailEvent, TailRecords};

/// Interval of polls for new records: at most twice this passes from accepted to shown.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// New records as they are accepted. Dropping it ends the tail on all nodes.
#[derive(Debug)]
pub struct TailStream(TailSource);

#[derive(Debug)]
enum TailSource {
    Local(Box<LocalTail>),
    Cluster(Box<ScatterTail>),
}

/// Polls the tail of one engine on blocking threads.
struct LocalTail {
    tasks: Arc<dyn Tasks>,
    /// `None` during a poll, and after one that failed.
    tail: Option<Tail>,
    /// The pause before the next poll.
    pause: Option<BoxFuture<()>>,
    poll: Option<BoxFuture<Option<(Tail, TailBatch)>>>,
    pending_events: VecDeque<TailEvent>,
}

impl std::fmt::Debug for LocalTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalTail").field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl TailStream {
    pub(crate) fn local(tail: Tail, tasks: Arc<dyn Tasks>) -> Self {
        let (pause, poll, pending_events) = (None, None, VecDeque::new());
        Self(TailSource::Local(Box::new(LocalTail {
            tasks,
            tail: Some(tail.with_recent_ids()),
            pause,
            poll,
            pending_events,
        })))
    }

    pub(crate) fn cluster(tail: ScatterTail) -> Self {
        Self(TailSource::Cluster(Box::new(tail)))
    }

    /// Waits for the next event. `None` only after an internal error. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<TailEvent> {
        match &mut self.0 {
            TailSource::Local(tail) => tail.next().await,
            TailSource::Cluster(tail) => Some(tail.next().await),
        }
    }
}

impl LocalTail {
    async fn next(&mut self) -> Option<TailEvent> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return Some(event);
            }
            if self.poll.is_none() {
                // A tail that has to catch up does not pause.
                if !self.tail.as_ref()?.has_more() {
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
            let (tail, batch) = polled?;
            self.tail = Some(tail);
            if batch.skipped_bytes > 0 {
                self.pending_events.push_back(TailEvent::Skipped { address: None, bytes: batch.skipped_bytes });
            }
            if !batch.is_empty() {
                self.pending_events.push_back(TailEvent::Records(TailRecords::local(batch)));
            }
        }
    }
}

fn start_poll(tasks: &Arc<dyn Tasks>, mut tail: Tail) -> BoxFuture<Option<(Tail, TailBatch)>> {
    let tasks = Arc::clone(tasks);
    Box::pin(async move {
        let poll = move || {
            let batch = tail.poll();
            (tail, batch)
        };
        run_blocking(&tasks, poll).await
    })
}
