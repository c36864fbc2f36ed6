//! Tasks on a runtime that somebody else started.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::Waiting;

/// The tasks of a tokio runtime, which has a timer. They end with it.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    modest: Handle,
}

impl Tasks {
    /// Tasks that run on this runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { modest: runtime.clone(), runtime }
    }

    /// Work that nobody waits for is done on blocking threads of this one, which have a lower priority.
    #[must_use]
    pub fn modest(self, modest: Handle) -> Self {
        Self { modest, ..self }
    }
}

fn block(runtime: &Handle, work: Box<dyn FnOnce() + Send>) -> Waiting<()> {
    let work = runtime.spawn_blocking(work);
    Box::pin(async move {
        // A panic was printed by the thread that it happened in.
        let _ = work.await;
    })
}

impl crate::Tasks for Tasks {
    fn spawn(&self, task: Waiting<()>) {
        self.runtime.spawn(task);
    }

    fn sleep(&self, time: Duration) -> Waiting<()> {
        // A timer looks for its runtime when it is made, and whoever calls may stand outside of it.
        let _inside = self.runtime.enter();
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, work: Box<dyn FnOnce() + Send>) -> Waiting<()> {
        block(&self.runtime, work)
    }

    fn block_modestly(&self, work: Box<dyn FnOnce() + Send>) -> Waiting<()> {
        block(&self.modest, work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;
    use crate::{run, run_modestly, within};

    /// A runtime, and its tasks as somebody has them who stands outside of it.
    fn outside() -> (Runtime, Arc<dyn crate::Tasks>) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let tasks = Arc::new(Tasks::new(runtime.handle().clone()));
        (runtime, tasks)
    }

    #[test]
    fn tasks_run_though_nobody_waits() {
        let (_runtime, tasks) = outside();
        let (tell, told) = oneshot::channel();
        let inner = Arc::clone(&tasks);
        tasks.spawn(Box::pin(async move {
            inner.sleep(Duration::from_millis(1)).await;
            tell.send(7).unwrap();
        }));
        assert_eq!(told.blocking_recv(), Ok(7));
    }

    #[test]
    fn work_that_was_begun_is_done_though_nobody_waits() {
        let (_runtime, tasks) = outside();
        let (tell, told) = oneshot::channel();
        drop(tasks.block(Box::new(move || tell.send(7).unwrap())));
        assert_eq!(told.blocking_recv(), Ok(7));
    }

    #[test]
    fn work_gives_its_result_or_none_after_a_panic() {
        let (runtime, tasks) = outside();
        assert_eq!(runtime.block_on(run(&tasks, || 7)), Some(7));
        assert_eq!(runtime.block_on(run(&tasks, || -> u8 { panic!("as the test wants it") })), None);
    }

    #[test]
    fn modest_work_is_done_on_threads_of_its_own() {
        let (runtime, _) = outside();
        let modest = Builder::new_current_thread().thread_name("modest").build().unwrap();
        let tasks: Arc<dyn crate::Tasks> =
            Arc::new(Tasks::new(runtime.handle().clone()).modest(modest.handle().clone()));
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(runtime.block_on(run_modestly(&tasks, name)), Some(Some("modest".to_owned())));
        assert_ne!(runtime.block_on(run(&tasks, name)), Some(Some("modest".to_owned())));
        assert_eq!(runtime.block_on(run_modestly(&tasks, || -> u8 { panic!("as the test wants it") })), None);
    }

    #[test]
    fn what_takes_too_long_is_dropped() {
        let (runtime, tasks) = outside();
        let late = within(&tasks, Duration::from_millis(1), std::future::pending::<()>());
        assert_eq!(runtime.block_on(late), None);
        let soon = within(&tasks, Duration::from_secs(600), async { 7 });
        assert_eq!(runtime.block_on(soon), Some(7));
    }
}
