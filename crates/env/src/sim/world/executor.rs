//! Runs one thing after the other: a task that is ready, drawn by the seed, or, when none is, the next timer.
//!
//! Nothing takes time but what waits for it. As long as a task is ready time does not advance; then it jumps to the next
//! timer.
//!
//! Locks: [`Shared::state`] is never held while foreign code runs, that is while a task is polled or dropped, a waker
//! woken, or a deed done. All of these may come back here.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::change_notifier::ChangeNotifier;
use super::host_state::{HostState, HostStatus, Owner, ProcessId};
use super::network::LinkTable;
use super::ready_queue::{ReadyQueue, TaskId};
use super::run_hash::{RunHash, TraceEvent};
use super::timers::{ScheduledAction, TimerAction, TimerKey, TimerQueue};
use crate::sim::Entropy;
use crate::sim::clock::ElapsedNanos;
use crate::{BoxFuture, Entropy as _};

/// Things that may happen in one moment. Whoever needs more waits for something that has happened already.
const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

/// The world as all its parts share it.
pub(super) struct Executor {
    seed: u64,
    state: Mutex<WorldState>,
    ready: Arc<ReadyQueue>,
    /// Tells of each change of [`State::hosts`] and [`State::links`] that a connection should know of.
    change_notifier: ChangeNotifier,
}

pub(super) struct WorldState {
    pub(super) now: Duration,
    /// The same for all wall clocks.
    pub(super) elapsed: ElapsedNanos,
    pub(super) rng: Entropy,
    pub(super) trace: RunHash,
    pub(super) hosts: Vec<HostState>,
    pub(super) links: LinkTable,
    pub(super) timers: TimerQueue,
    tasks: BTreeMap<TaskId, TaskSlot>,
    tasks_spawned: u64,
    /// Whose code runs.
    pub(super) running: Owner,
    /// Things done since the time last moved.
    steps_in_instant: u64,
    is_ended: bool,
}

pub(super) struct TaskSlot {
    owner: Owner,
    /// Not there while it is polled.
    future: Option<(BoxFuture<()>, Waker)>,
}

/// Whose turn it is.
enum NextTask {
    Task(RunnableTask),
    /// Of what is no task, or none any more.
    NotATask(TaskId),
}

/// A task that was taken out.
struct RunnableTask {
    id: TaskId,
    future: BoxFuture<()>,
    waker: Waker,
}

impl Executor {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = WorldState {
            now: Duration::ZERO,
            elapsed: ElapsedNanos::default(),
            rng: Entropy::seeded(seed),
            trace: RunHash::default(),
            hosts: Vec::new(),
            links: LinkTable::default(),
            timers: TimerQueue::default(),
            tasks: BTreeMap::new(),
            tasks_spawned: 0,
            running: None,
            steps_in_instant: 0,
            is_ended: false,
        };
        Arc::new(Self {
            seed,
            state: Mutex::new(state),
            ready: Arc::default(),
            change_notifier: ChangeNotifier::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(&self, owner: Owner, future: BoxFuture<()>) {
        let mut state = self.state();
        if state.is_ended || !state.is_running(owner) {
            drop(state);
            drop(future);
            return;
        }
        let id = state.next_task_id();
        state.tasks.insert(id, TaskSlot { owner, future: Some((future, self.ready.waker(id))) });
        drop(state);
        self.ready.insert(id);
    }

    /// Resolves after so much time.
    pub(super) fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let due = state.timer_key(at);
        drop(state);
        Sleep { executor: Arc::clone(self), timer: due, is_set: false }
    }

    /// Does something after so much time.
    pub(super) fn schedule(&self, time: Duration, owner: Owner, deed: ScheduledAction) {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let due = state.timer_key(at);
        state.timers.insert(due, TimerAction::Run(owner, deed));
    }

    /// Resolves when something is so, of what [`Self::changed`] is told of.
    pub(super) async fn wait_until(&self, is_so: impl Fn(&WorldState) -> bool) {
        let mut changes = self.change_notifier.subscribe();
        while !is_so(&self.state()) {
            (&mut changes).await;
        }
    }

    pub(super) fn notify_changed(&self) {
        self.change_notifier.notify_all();
    }

    /// Does the next thing that happens at `until` or before. When there is none it is `until` now, and false is said.
    pub(super) fn step(&self, until: Duration) -> bool {
        match self.take_next() {
            Some(NextTask::Task(task)) => {
                self.poll(task);
                true
            }
            Some(NextTask::NotATask(_)) => true,
            None => self.fire_next_timer(until),
        }
    }

    /// Runs until `future` is done, or until that time.
    pub(super) fn run<T>(&self, mut future: Pin<&mut impl Future<Output = T>>, until: Duration) -> Option<T> {
        let own = self.state().next_task_id();
        let waker = self.ready.waker(own);
        self.ready.insert(own);
        loop {
            match self.take_next() {
                Some(NextTask::NotATask(task)) if task == own => {
                    self.state().trace.add(TraceEvent::Polled, own.0);
                    match self.catch_panic(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
                        Poll::Ready(done) => return Some(done),
                        Poll::Pending => {}
                    }
                }
                Some(NextTask::Task(task)) => self.poll(task),
                Some(NextTask::NotATask(_)) => {}
                None if self.fire_next_timer(until) => {}
                None => return None,
            }
        }
    }

    /// Ends the world: drops all that is in it.
    pub(super) fn end(&self) {
        loop {
            let mut state = self.state();
            state.is_ended = true;
            let tasks = std::mem::take(&mut state.tasks);
            let timers = std::mem::take(&mut state.timers);
            let waiting: Vec<_> = state.hosts.iter_mut().map(HostState::take_pending).collect();
            drop(state);
            // What is dropped may set timers again.
            if tasks.is_empty() && timers.is_empty() {
                return;
            }
            drop((tasks, timers, waiting));
        }
    }

    /// Says of which world it is that something went wrong.
    #[expect(clippy::panic, reason = "this is how a test learns of it")]
    pub(super) fn fail(&self, what: &str) -> ! {
        let now = self.state().now;
        panic!("world of seed {} at {now:?}: {what}", self.seed);
    }

    /// Runs foreign code, and says of which world it is when that panics.
    fn catch_panic<T>(&self, code: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| self.fail(panic_message(panic.as_ref())))
    }

    /// Whose turn it is. A task is taken out to be polled.
    fn take_next(&self) -> Option<NextTask> {
        let mut state = self.state();
        loop {
            state.steps_in_instant += 1;
            if state.steps_in_instant > STEPS_PER_INSTANT_MAX {
                drop(state);
                self.fail("time does not advance");
            }
            let id = self.ready.take(|count| state.rng.below(count))?;
            let WorldState { tasks, hosts, .. } = &mut *state;
            let Some(task) = tasks.get_mut(&id) else { return Some(NextTask::NotATask(id)) };
            let owner = task.owner;
            if let Some(host) = owner.and_then(|life| hosts.get_mut(life.host)).filter(|host| host.is_paused) {
                host.paused_tasks.push(id);
                continue;
            }
            let Some((future, waker)) = task.future.take() else { return Some(NextTask::NotATask(id)) };
            state.running = owner;
            state.trace.add(TraceEvent::Polled, id.0);
            return Some(NextTask::Task(RunnableTask { id, future, waker }));
        }
    }

    fn poll(&self, drawn: RunnableTask) {
        let RunnableTask { id, mut future, waker } = drawn;
        let polled = self.catch_panic(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        let mut state = self.state();
        state.running = None;
        let done = match state.tasks.get_mut(&id) {
            Some(task) if polled.is_pending() => {
                task.future = Some((future, waker));
                None
            }
            // It is done, or was ended while it ran.
            _ => Some((state.tasks.remove(&id), future, waker)),
        };
        drop(state);
        self.catch_panic(|| drop(done));
    }

    /// Lets the time pass to the next timer, and that happen.
    fn fire_next_timer(&self, until: Duration) -> bool {
        let mut state = self.state();
        let Some((due, timer)) = state.timers.pop(until) else {
            state.advance_to(until);
            return false;
        };
        state.advance_to(due.at);
        let now = state.now.as_nanos() as u64;
        state.trace.add(TraceEvent::Fired, now);
        match timer {
            TimerAction::Wake(waker) => {
                drop(state);
                waker.wake();
            }
            TimerAction::Run(owner, deed) if state.is_running(owner) => {
                match state.host_of(owner).filter(|host| host.is_paused) {
                    Some(host) => host.paused_actions.push(deed),
                    None => {
                        state.running = owner;
                        drop(state);
                        self.catch_panic(deed);
                        self.state().running = None;
                    }
                }
            }
            TimerAction::Run(..) => drop(state),
        }
        true
    }

    /// Lets the tasks go on that were stopped.
    pub(super) fn wake_all(&self, tasks: Vec<TaskId>) {
        for task in tasks {
            self.ready.insert(task);
        }
    }
}

impl WorldState {
    pub(super) fn host(&mut self, index: usize) -> &mut HostState {
        &mut self.hosts[index]
    }

    /// Whether who does something still does. Nobody always does.
    pub(super) fn is_running(&self, owner: Owner) -> bool {
        owner.is_none_or(|life| self.hosts.get(life.host).is_some_and(|host| host.is_running(life)))
    }

    /// Whether a node lives again that had died.
    pub(super) fn has_restarted(&self, before: ProcessId) -> bool {
        let host = self.hosts.get(before.host);
        host.is_some_and(|host| host.status == HostStatus::Up && host.incarnation > before.incarnation)
    }

    /// Takes out the tasks of a node, so that they can be dropped.
    pub(super) fn take_tasks_of(&mut self, life: ProcessId) -> Vec<TaskSlot> {
        let own = self.tasks.iter().filter(|(_, task)| task.owner == Some(life));
        let own: Vec<TaskId> = own.map(|(id, _)| *id).collect();
        own.iter().filter_map(|id| self.tasks.remove(id)).collect()
    }

    /// A moment for something; chance says what comes first of one moment.
    pub(super) fn timer_key(&mut self, at: Duration) -> TimerKey {
        let lot = self.rng.next_u64();
        self.timers.new_key(at, lot)
    }

    fn host_of(&mut self, owner: Owner) -> Option<&mut HostState> {
        self.hosts.get_mut(owner?.host)
    }

    fn next_task_id(&mut self) -> TaskId {
        self.tasks_spawned += 1;
        TaskId(self.tasks_spawned)
    }

    fn advance_to(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        if !passed.is_zero() {
            self.now = now;
            self.elapsed.set(now);
            self.steps_in_instant = 0;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Waits for its time. The timer is set when somebody first waits for it: many a limit of time is never looked at, because
/// what it limits is there at once. Dropping it takes its timer back.
#[derive(Debug)]
pub(super) struct Sleep {
    executor: Arc<Executor>,
    timer: TimerKey,
    is_set: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { executor: shared, timer: due, is_set } = self.get_mut();
        let mut state = shared.state();
        if !*is_set {
            if due.at < state.now {
                return Poll::Ready(());
            }
            state.timers.insert(*due, TimerAction::Wake(context.waker().clone()));
            *is_set = true;
            return Poll::Pending;
        }
        let Some(TimerAction::Wake(waker)) = state.timers.get_mut(due) else { return Poll::Ready(()) };
        if waker.will_wake(context.waker()) {
            return Poll::Pending;
        }
        let before = std::mem::replace(waker, context.waker().clone());
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.is_set {
            let timer = self.executor.state().timers.remove(&self.timer);
            drop(timer);
        }
    }
}
