//! Commits offsets on a thread of its own.
//!
//! Only a commit that is waited for has a result, and it may take as long as a session while the coordinator of the group is
//! away. Reading goes on meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rdkafka::consumer::{CommitMode, Consumer as _};

use crate::consumed_records::CommitOffset;
use crate::group_events::{GroupConsumer, topic_list};

/// The thread that commits for one consumer.
#[derive(Debug)]
pub(crate) struct Committer {
    requests: SyncSender<Vec<CommitOffset>>,
    thread: JoinHandle<()>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(consumer: Arc<GroupConsumer>) -> io::Result<Self> {
        // Without a place for a request that waits: it could be overtaken by a rebalance.
        let (requests, received) = sync_channel::<Vec<CommitOffset>>(0);
        let thread = std::thread::Builder::new().name("kafka-commit".to_owned()).spawn(move || {
            for offsets in received {
                let committed = consumer.commit(&topic_list(&offsets), CommitMode::Sync);
                consumer.context().end_commit(&offsets, committed);
            }
        })?;
        Ok(Self { requests, thread })
    }

    /// Begins a commit. Without effect while an earlier one is not finished; the caller tries again later.
    pub(crate) fn commit(&self, offsets: Vec<CommitOffset>) {
        if !offsets.is_empty() {
            let _ = self.requests.try_send(offsets);
        }
    }

    /// Ends the thread when its commit is finished. `wait` is called while that is not so; false if it gives up.
    pub(crate) fn stop(self, mut wait: impl FnMut() -> bool) {
        let Self { requests, thread } = self;
        drop(requests);
        while !thread.is_finished() && wait() {}
    }
}
