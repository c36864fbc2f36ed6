//! The door to the tasks of one node, or of nobody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::executor::Executor;
use super::host_state::{Owner, ProcessId};
use crate::BoxFuture;

#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) executor: Arc<Executor>,
    pub(super) owner: Owner,
}

impl crate::Tasks for Tasks {
    fn spawn(&self, task: BoxFuture<()>) {
        self.executor.spawn(self.owner, task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        Box::pin(self.executor.sleep(time))
    }

    /// The work is done all at once, somewhere within the time that it takes; so a node can die before it is done, and also
    /// when it is done and nobody knows.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        let (before, after) = self.split_blocking_delay();
        let (tell, told) = oneshot::channel();
        let (shared, owner) = (Arc::clone(&self.executor), self.owner);
        let deed = move || {
            work();
            let done = move || {
                // Nobody may wait any more.
                let _ = tell.send(());
            };
            shared.schedule(after, owner, Box::new(done));
        };
        self.executor.schedule(before, self.owner, Box::new(deed));
        Box::pin(async move {
            if told.await.is_err() {
                // The node is dead, and whoever waits here is not of it.
                std::future::pending::<()>().await;
            }
        })
    }
}

impl Tasks {
    /// How long work takes until it happens, and then until it is told of.
    fn split_blocking_delay(&self) -> (Duration, Duration) {
        let mut state = self.executor.state();
        let delay = match self.owner {
            Some(ProcessId { host, .. }) => state.host(host).blocking_delay,
            None => super::host_state::BLOCKING_DELAY,
        };
        let whole = delay.sample(&state.rng);
        let before = state.rng.duration_up_to(whole);
        (before, whole.saturating_sub(before))
    }
}
