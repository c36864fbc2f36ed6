//! Tasks on a tokio runtime.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::BoxFuture;

/// Runs tasks on a tokio runtime with a timer, until the runtime ends.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    low_priority: Handle,
}

impl Tasks {
    /// Runs everything on `runtime`.
    pub fn new(runtime: Handle) -> Self {
        Self { low_priority: runtime.clone(), runtime }
    }

    /// Runs low-priority blocking work on `low_priority`, whose threads have a lower priority.
    #[must_use]
    pub fn with_low_priority(self, low_priority: Handle) -> Self {
        Self { low_priority, ..self }
    }
}

fn spawn_blocking(runtime: &Handle, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
    let work = runtime.spawn_blocking(work);
    Box::pin(async move {
        // The panicking thread has printed the panic.
        let _ = work.await;
    })
}

impl crate::Tasks for Tasks {
    fn spawn(&self, task: BoxFuture<()>) {
        self.runtime.spawn(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        // A timer needs its runtime when it is created; the caller may be outside of it.
        let _runtime = self.runtime.enter();
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        spawn_blocking(&self.runtime, work)
    }

    fn spawn_blocking_low_priority(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
        spawn_blocking(&self.low_priority, work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;
    use crate::{run_blocking, run_blocking_low_priority, run_task, with_timeout};

    /// A runtime, and its tasks used from outside of it.
    fn runtime_and_tasks() -> (Runtime, Arc<dyn crate::Tasks>) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let tasks = Arc::new(Tasks::new(runtime.handle().clone()));
        (runtime, tasks)
    }

    #[test]
    fn a_spawned_task_runs_without_being_awaited() {
        let (_runtime, tasks) = runtime_and_tasks();
        let (sender, receiver) = oneshot::channel();
        let inner = Arc::clone(&tasks);
        tasks.spawn(Box::pin(async move {
            inner.sleep(Duration::from_millis(1)).await;
            sender.send(7).unwrap();
        }));
        assert_eq!(receiver.blocking_recv(), Ok(7));
    }

    #[test]
    fn started_work_completes_after_its_future_is_dropped() {
        let (_runtime, tasks) = runtime_and_tasks();
        let (sender, receiver) = oneshot::channel();
        drop(tasks.spawn_blocking(Box::new(move || sender.send(7).unwrap())));
        assert_eq!(receiver.blocking_recv(), Ok(7));
    }

    #[test]
    fn blocking_work_returns_its_result_or_none_after_a_panic() {
        let (runtime, tasks) = runtime_and_tasks();
        assert_eq!(runtime.block_on(run_blocking(&tasks, || 7)), Some(7));
        assert_eq!(runtime.block_on(run_blocking(&tasks, || -> u8 { panic!("expected by the test") })), None);
    }

    #[test]
    fn low_priority_work_runs_on_its_own_threads() {
        let (runtime, _) = runtime_and_tasks();
        let low = Builder::new_current_thread().thread_name("low").build().unwrap();
        let tasks: Arc<dyn crate::Tasks> =
            Arc::new(Tasks::new(runtime.handle().clone()).with_low_priority(low.handle().clone()));
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(runtime.block_on(run_blocking_low_priority(&tasks, name)), Some(Some("low".to_owned())));
        assert_ne!(runtime.block_on(run_blocking(&tasks, name)), Some(Some("low".to_owned())));
        assert_eq!(
            runtime.block_on(run_blocking_low_priority(&tasks, || -> u8 { panic!("expected by the test") })),
            None
        );
    }

    #[test]
    fn a_task_of_its_own_returns_its_result() {
        let (runtime, tasks) = runtime_and_tasks();
        let inner = Arc::clone(&tasks);
        let task = run_task(&tasks, async move {
            inner.sleep(Duration::from_millis(1)).await;
            7
        });
        // The caller is on another runtime, which has no timer.
        let caller = Builder::new_current_thread().build().unwrap();
        assert_eq!(caller.block_on(task), Some(7));
        let endless = run_task(&tasks, std::future::pending::<()>());
        runtime.shutdown_background();
        assert_eq!(caller.block_on(endless), None);
    }

    #[test]
    fn a_task_of_its_own_is_dropped_with_its_caller() {
        let (runtime, tasks) = runtime_and_tasks();
        let (sender, dropped) = oneshot::channel::<()>();
        let task = run_task(&tasks, async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        drop(task);
        let dropped = runtime.block_on(with_timeout(&tasks, Duration::from_secs(60), dropped));
        assert!(dropped.is_some_and(|sent| sent.is_err()), "the task goes on");
    }

    #[test]
    fn a_future_is_dropped_at_its_timeout() {
        let (runtime, tasks) = runtime_and_tasks();
        let late = with_timeout(&tasks, Duration::from_millis(1), std::future::pending::<()>());
        assert_eq!(runtime.block_on(late), None);
        let soon = with_timeout(&tasks, Duration::from_secs(600), async { 7 });
        assert_eq!(runtime.block_on(soon), Some(7));
    }
}
