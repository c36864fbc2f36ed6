//! The tasks of one process, or of no host.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::executor::Executor;
use super::host_state::BLOCKING_DELAY;
use super::process_id::{Owner, ProcessId};
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

    /// The work runs at one moment within its delay, which the time of its syncs extends. So a process can end before the work, or
    /// after it and before the caller gets the result.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        let (before, after) = self.split_blocking_delay();
        let (sender, done) = oneshot::channel();
        let (executor, owner) = (Arc::clone(&self.executor), self.owner);
        let action = move || {
            let after = after.saturating_add(executor.run_blocking_work(owner, work));
            let finish = move || {
                // The caller may have been dropped.
                let _ = sender.send(());
            };
            executor.schedule(after, owner, Box::new(finish));
        };
        self.executor.schedule(before, self.owner, Box::new(action));
        Box::pin(async move {
            if done.await.is_err() {
                // The process has ended, and the caller belongs to another one.
                std::future::pending::<()>().await;
            }
        })
    }
}

impl Tasks {
    /// The delay before the work and after it.
    fn split_blocking_delay(&self) -> (Duration, Duration) {
        let mut state = self.executor.state();
        let delay = match self.owner {
            Some(ProcessId { host, .. }) => state.host(host).blocking_delay,
            None => BLOCKING_DELAY,
        };
        let whole = delay.sample(&state.rng);
        let before = state.rng.duration_up_to(whole);
        (before, whole.saturating_sub(before))
    }
}
