//! The door to the tasks of one node, or of nobody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::executor::Shared;
use super::host::{Life, Owner};
use crate::Waiting;

#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) shared: Arc<Shared>,
    pub(super) owner: Owner,
}

impl crate::Tasks for Tasks {
    fn spawn(&self, task: Waiting<()>) {
        self.shared.spawn(self.owner, task);
    }

    fn sleep(&self, time: Duration) -> Waiting<()> {
        Box::pin(self.shared.sleep(time))
    }

    /// The work is done all at once, somewhere within the time that it takes; so a node can die before it is done, and also
    /// when it is done and nobody knows.
    fn block(&self, work: Box<dyn FnOnce() + Send>) -> Waiting<()> {
        let (before, after) = self.work_time();
        let (tell, told) = oneshot::channel();
        let (shared, owner) = (Arc::clone(&self.shared), self.owner);
        let deed = move || {
            work();
            let done = move || {
                // Nobody may wait any more.
                let _ = tell.send(());
            };
            shared.after(after, owner, Box::new(done));
        };
        self.shared.after(before, self.owner, Box::new(deed));
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
    fn work_time(&self) -> (Duration, Duration) {
        let mut state = self.shared.state();
        let delay = match self.owner {
            Some(Life { host, .. }) => state.host(host).work,
            None => super::host::WORK,
        };
        let whole = delay.draw(&state.dice);
        let before = state.dice.up_to(whole);
        (before, whole.saturating_sub(before))
    }
}
