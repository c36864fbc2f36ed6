//! Tasks, timers and blocking work.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

/// A boxed future that may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs tasks.
pub trait Tasks: Send + Sync + Debug {
    /// Runs a task until it ends or the node does.
    fn spawn(&self, task: BoxFuture<()>);

    /// Resolves after `time` of uptime.
    fn sleep(&self, time: Duration) -> BoxFuture<()>;

    /// Runs work that computes for long or waits for the disk away from the tasks. Resolves when the work has returned or
    /// panicked; work that has begun continues if the future is dropped. [`run_blocking`] returns the result.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()>;

    /// The same at a lower priority, if the system has priorities, for work that no client waits for.
    fn spawn_blocking_low_priority(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        self.spawn_blocking(work)
    }
}

/// Resolves when `stop` is true or its sender is dropped.
pub async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The result of work run by [`Tasks::spawn_blocking`]; `None` if it panicked.
pub async fn run_blocking<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (work, result) = with_result_channel(work);
    tasks.spawn_blocking(work).await;
    result.await.ok()
}

/// The result of work run by [`Tasks::spawn_blocking_low_priority`]; `None` if it panicked.
pub async fn run_blocking_low_priority<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (work, result) = with_result_channel(work);
    tasks.spawn_blocking_low_priority(work).await;
    result.await.ok()
}

/// The result of a task of its own, which wakes the caller only at its end. `None` if the runtime ends before. The task is dropped
/// with the returned future.
pub fn run_task<T: Send + 'static>(
    tasks: &Arc<dyn Tasks>,
    task: impl Future<Output = T> + Send + 'static,
) -> BoxFuture<Option<T>> {
    let (mut sender, result) = oneshot::channel();
    tasks.spawn(Box::pin(async move {
        let done = tokio::select! {
            biased;
            () = sender.closed() => return,
            done = task => done,
        };
        // The caller may have been dropped just now.
        let _ = sender.send(done);
    }));
    Box::pin(async move { result.await.ok() })
}

fn with_result_channel<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, oneshot::Receiver<T>) {
    let (sender, result) = oneshot::channel();
    // The caller may have been cancelled.
    (Box::new(move || drop(sender.send(work()))), result)
}

/// The result of `future`, or `None` if it takes longer than `time`; then it is dropped.
pub async fn with_timeout<T>(tasks: &Arc<dyn Tasks>, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut timer) = (pin!(future), tasks.sleep(time));
    std::future::poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.as_mut().poll(context).map(|()| None),
    })
    .await
}
