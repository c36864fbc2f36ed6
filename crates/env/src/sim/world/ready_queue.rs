//! The woken tasks.
//!
//! They are sorted by id, because the order of waking is not deterministic: a `tokio::sync::watch` wakes its readers in random
//! order.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use crate::lock;

/// Identifies a task; ascends in the order of spawning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId(pub(super) u64);

/// No other lock is taken under its lock.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue(Mutex<Vec<TaskId>>);

impl ReadyQueue {
    pub(super) fn insert(&self, task: TaskId) {
        let mut tasks = self.tasks();
        if let Err(index) = tasks.binary_search(&task) {
            tasks.insert(index, task);
        }
    }

    /// Takes the task at the index that `choose` returns, given the number of tasks.
    pub(super) fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<TaskId> {
        let mut tasks = self.tasks();
        let count = tasks.len();
        let chosen = if count > 1 { choose(count) } else { 0 };
        if chosen < count { Some(tasks.remove(chosen)) } else { None }
    }

    /// Takes all tasks.
    pub(super) fn take_all(&self) -> Vec<TaskId> {
        std::mem::take(&mut *self.tasks())
    }

    pub(super) fn waker(self: &Arc<Self>, task: TaskId) -> Waker {
        Waker::from(Arc::new(TaskWaker { task, ready: Arc::clone(self) }))
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<TaskId>> {
        lock(&self.0)
    }
}

/// Wakes one task. It does not own the task, so dropping it runs no other code.
#[derive(Debug)]
struct TaskWaker {
    task: TaskId,
    ready: Arc<ReadyQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.insert(self.task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_wakes_has_no_effect() {
        let order = |woken: &[u64]| {
            let ready = Arc::new(ReadyQueue::default());
            for task in woken {
                ready.waker(TaskId(*task)).wake();
            }
            std::iter::from_fn(|| ready.take(|count| count / 2)).map(|task| task.0).collect::<Vec<u64>>()
        };
        assert_eq!(order(&[3, 1, 2, 1]), order(&[2, 2, 3, 1]));
        assert_eq!(order(&[3, 1, 2]), [2, 3, 1]);
        assert_eq!(order(&[]), []);
    }
}
