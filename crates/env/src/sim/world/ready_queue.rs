//! The tasks that were woken and wait for their turn.
//!
//! They are kept sorted, not in the order in which they were woken: that order is not always the same (a
//! `tokio::sync::watch` wakes its readers in an order that the thread's own dice decide), and then no run would be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Which task it is; given in the order of spawning, never twice in one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskId(pub(super) u64);

/// Its lock is the innermost: whoever has it takes no other.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue(Mutex<Vec<TaskId>>);

impl ReadyQueue {
    pub(super) fn insert(&self, task: TaskId) {
        let mut tasks = self.tasks();
        if let Err(place) = tasks.binary_search(&task) {
            tasks.insert(place, task);
        }
    }

    /// Takes the one that `choose` says, of so many.
    pub(super) fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<TaskId> {
        let mut tasks = self.tasks();
        let count = tasks.len();
        let chosen = if count > 1 { choose(count) } else { 0 };
        if chosen < count { Some(tasks.remove(chosen)) } else { None }
    }

    pub(super) fn waker(self: &Arc<Self>, task: TaskId) -> Waker {
        Waker::from(Arc::new(TaskWaker { task, ready: Arc::clone(self) }))
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<TaskId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes one task. It holds no task, so that dropping it runs nobody's code.
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
