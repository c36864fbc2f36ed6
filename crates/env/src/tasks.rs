//! Work that waits: tasks beside each other, time that passes, and work that must not be waited for in place.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

/// Something that is waited for, and whoever polls it may be another thread each time.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs tasks.
pub trait Tasks: Send + Sync + Debug {
    /// Runs a task to its end, or to that of the node; nobody waits for it.
    fn spawn(&self, task: BoxFuture<()>);

    /// Resolves when so much time has passed, by the clock that never goes back.
    fn sleep(&self, time: Duration) -> BoxFuture<()>;

    /// Does work that computes for long or waits for the disk, away from the tasks; resolves when it is done, or has failed
    /// by a bug. Work that was begun goes on to its end when nobody waits any more. [`run`] gives its result, too.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()>;

    /// The same for work that nobody waits for: at a lower priority, where that can be had. [`run_modestly`] gives its result.
    fn spawn_blocking_low_priority(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        self.spawn_blocking(work)
    }
}

/// Does work as [`Tasks::block`] does and gives its result; `None` when it failed by a bug.
pub async fn run_blocking<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (work, result) = with_result_channel(work);
    tasks.spawn_blocking(work).await;
    result.await.ok()
}

/// Does work as [`Tasks::block_modestly`] does and gives its result; `None` when it failed by a bug.
pub async fn run_blocking_low_priority<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (work, result) = with_result_channel(work);
    tasks.spawn_blocking_low_priority(work).await;
    result.await.ok()
}

/// Work that tells its result.
fn with_result_channel<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, oneshot::Receiver<T>) {
    let (sender, told) = oneshot::channel();
    let work = move || {
        // Whoever asked may have gone.
        let _ = sender.send(work());
    };
    (Box::new(work), told)
}

/// What comes of `waiting`, if it does so in time; else it is dropped.
pub async fn with_timeout<T>(tasks: &Arc<dyn Tasks>, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut waiting = pin!(future);
    let mut over = tasks.sleep(time);
    std::future::poll_fn(move |context| match waiting.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => over.as_mut().poll(context).map(|()| None),
    })
    .await
}
