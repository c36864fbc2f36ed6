//! Tasks on a runtime that somebody else started.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::BoxFuture;

/// The tasks of a tokio runtime, which has a timer. They end with it.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    low_priority: Handle,
}

impl Tasks {
    /// Tasks that run on this runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { low_priority: runtime.clone(), runtime }
    }

    /// Work that nobody waits for is done on blocking threads of this one, which have a lower priority.
    #[must_use]
    pub fn with_low_priority(self, low_priority: Handle) -> Self {
        Self { low_priority, ..self }
    }
}

fn spawn_blocking(runtime: &Handle, work: Box<dyn FnOnce() + Send>) -> BoxFuture<()> {
    let work = runtime.spawn_blocking(work);
    Box::pin(async move {
        // A panic was printed by the thread that it happened in.
        let _ = work.await;
    })
}

impl crate::Tasks for Tasks {
    fn spawn(&self, task: BoxFuture<()>) {
        self.runtime.spawn(task);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<()> {
        // A timer looks for its runtime when it is made, and whoever calls may stand outside of it.
        let _inside = self.runtime.enter();
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
    use crate::{run_blocking, run_blocking_low_priority, with_timeout};

    /// A runtime, and its tasks as somebody has them who stands outside of it.
    fn runtime_and_tasks() -> (Runtime, Arc<dyn crate::Tasks>) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let tasks = Arc::new(Tasks::new(runtime.handle().clone()));
        (runtime, tasks)
    }

    #[test]
    fn a_spawned_task_runs_without_being_awaited() {
        let (_runtime, tasks) = runtime_and_tasks();
        let (tell, told) = oneshot::channel();
        let inner = Arc::clone(&tasks);
        tasks.spawn(Box::pin(async move {
            inner.sleep(Duration::from_millis(1)).await;
            tell.send(7).unwrap();
        }));
        assert_eq!(told.blocking_recv(), Ok(7));
    }

    #[test]
    fn started_work_completes_after_its_future_is_dropped() {
        let (_runtime, tasks) = runtime_and_tasks();
        let (tell, told) = oneshot::channel();
        drop(tasks.spawn_blocking(Box::new(move || tell.send(7).unwrap())));
        assert_eq!(told.blocking_recv(), Ok(7));
    }

    #[test]
    fn work_gives_its_result_or_none_after_a_panic() {
        let (runtime, tasks) = runtime_and_tasks();
        assert_eq!(runtime.block_on(run_blocking(&tasks, || 7)), Some(7));
        assert_eq!(runtime.block_on(run_blocking(&tasks, || -> u8 { panic!("as the test wants it") })), None);
    }

    #[test]
    fn low_priority_work_runs_on_its_own_threads() {
        let (runtime, _) = runtime_and_tasks();
        let modest = Builder::new_current_thread().thread_name("modest").build().unwrap();
        let tasks: Arc<dyn crate::Tasks> =
            Arc::new(Tasks::new(runtime.handle().clone()).with_low_priority(modest.handle().clone()));
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(runtime.block_on(run_blocking_low_priority(&tasks, name)), Some(Some("modest".to_owned())));
        assert_ne!(runtime.block_on(run_blocking(&tasks, name)), Some(Some("modest".to_owned())));
        assert_eq!(
            runtime.block_on(run_blocking_low_priority(&tasks, || -> u8 { panic!("as the test wants it") })),
            None
        );
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
