//! Runs the tasks and timers of a world in one thread.
//!
//! While a task is ready, the seed chooses which one is polled, and time does not advance. Then it jumps to the next timer.
//!
//! The lock of [`Executor::state`] is never held while a task is polled or dropped, a waker is woken, or an action runs: each of
//! these may call the executor.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::host_state::{HostState, HostStatus};
use super::link_table::{LinkId, LinkTable};
use super::process_id::{Owner, ProcessId};
use super::ready_queue::{ReadyQueue, TaskId};
use super::run_hash::{RunHash, TraceEvent};
use super::timers::{ScheduledAction, TimerAction, TimerKey, TimerMap};
use crate::lock;
use crate::sim::clock::ElapsedNanos;
use crate::sim::{Entropy, Fs};
use crate::{BoxFuture, Entropy as _};

/// Maximum steps without an advance of time; more indicate a busy loop.
const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

pub(super) struct Executor {
    seed: u64,
    state: Mutex<WorldState>,
    ready: Arc<ReadyQueue>,
    /// Notified of changes to hosts and links that connections wait for.
    changed: Notify,
}

pub(super) struct WorldState {
    pub(super) now: Duration,
    /// `now` for the clocks of the hosts.
    pub(super) elapsed: ElapsedNanos,
    pub(super) rng: Entropy,
    pub(super) trace: RunHash,
    pub(super) hosts: Vec<HostState>,
    pub(super) links: LinkTable,
    timers: TimerMap,
    timers_made: u64,
    tasks: BTreeMap<TaskId, TaskSlot>,
    tasks_spawned: u64,
    /// The process whose code runs.
    pub(super) running: Owner,
    /// Steps since the time last advanced.
    steps_in_instant: u64,
    is_ended: bool,
}

pub(super) struct TaskSlot {
    owner: Owner,
    /// `None` while it is polled.
    future: Option<(BoxFuture<()>, Waker)>,
}

/// The next woken id.
enum NextTask {
    Task(RunnableTask),
    /// The future of [`Executor::run`], or a task that has ended.
    NotATask(TaskId),
}

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
            timers: TimerMap::new(),
            timers_made: 0,
            tasks: BTreeMap::new(),
            tasks_spawned: 0,
            running: None,
            steps_in_instant: 0,
            is_ended: false,
        };
        Arc::new(Self { seed, state: Mutex::new(state), ready: Arc::default(), changed: Notify::new() })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WorldState> {
        lock(&self.state)
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

    /// Resolves after `time`.
    pub(super) fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let timer = state.timer_key(at);
        drop(state);
        Sleep { executor: Arc::clone(self), timer, is_set: false }
    }

    /// Runs `action` after `time`, if its owner still runs.
    pub(super) fn schedule(&self, time: Duration, owner: Owner, action: ScheduledAction) {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let timer = state.timer_key(at);
        state.timers.insert(timer, TimerAction::Run(owner, action));
    }

    /// Runs blocking work of a process now, and returns the time that its syncs take. The tasks that it wakes go on after that
    /// time. No other task is awake when an action runs.
    pub(super) fn run_blocking_work(self: &Arc<Self>, owner: Owner, work: impl FnOnce()) -> Duration {
        let disk = self.state().host_of(owner).map(|host| host.disk.clone());
        let take_delay = || disk.as_ref().map_or(Duration::ZERO, Fs::take_sync_delay);
        // Syncs outside of blocking work take no time.
        take_delay();
        work();
        let delay = take_delay();
        if !delay.is_zero() {
            let (executor, woken) = (Arc::clone(self), self.ready.take_all());
            self.schedule(delay, None, Box::new(move || executor.wake_all(woken)));
        }
        delay
    }

    /// Resolves when `condition` holds, which is tested after each [`Self::notify_changed`].
    pub(super) async fn wait_until(&self, condition: impl Fn(&WorldState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn notify_changed(&self) {
        self.changed.notify_waiters();
    }

    /// Runs the next step that is due at `until` or before. If there is none, advances to `until` and returns false.
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

    /// Runs until `future` is ready, or until the time `until`.
    pub(super) fn run<T>(&self, mut future: Pin<&mut impl Future<Output = T>>, until: Duration) -> Option<T> {
        let own = self.state().next_task_id();
        let waker = self.ready.waker(own);
        self.ready.insert(own);
        loop {
            match self.take_next() {
                Some(NextTask::NotATask(task)) if task == own => {
                    self.state().trace.add(TraceEvent::Polled, own.0);
                    match self.catch_panic(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
                        Poll::Ready(result) => return Some(result),
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

    /// Ends the world: drops all tasks and timers.
    pub(super) fn end(&self) {
        loop {
            let mut state = self.state();
            state.is_ended = true;
            let tasks = std::mem::take(&mut state.tasks);
            let timers = std::mem::take(&mut state.timers);
            let pending: Vec<_> = state.hosts.iter_mut().map(HostState::take_pending).collect();
            drop(state);
            // Dropping may set timers again.
            if tasks.is_empty() && timers.is_empty() {
                return;
            }
            drop((tasks, timers, pending));
        }
    }

    /// Fails the test with the seed in the message.
    #[expect(clippy::panic, reason = "fails the test")]
    pub(super) fn fail(&self, what: &str) -> ! {
        let now = self.state().now;
        panic!("world of seed {} at {now:?}: {what}", self.seed);
    }

    /// Runs code of a task or action; adds the seed to the message of a panic.
    fn catch_panic<T>(&self, code: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| self.fail(panic_message(panic.as_ref())))
    }

    /// Chooses the next woken id and takes its task out of the table.
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
            if let Some(host) = owner.and_then(|process| hosts.get_mut(process.host)).filter(|host| host.is_paused) {
                host.paused_tasks.push(id);
                continue;
            }
            let Some((future, waker)) = task.future.take() else { return Some(NextTask::NotATask(id)) };
            state.running = owner;
            state.trace.add(TraceEvent::Polled, id.0);
            return Some(NextTask::Task(RunnableTask { id, future, waker }));
        }
    }

    fn poll(&self, task: RunnableTask) {
        let RunnableTask { id, mut future, waker } = task;
        let polled = self.catch_panic(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        let mut state = self.state();
        state.running = None;
        let ended = match state.tasks.get_mut(&id) {
            Some(task) if polled.is_pending() => {
                task.future = Some((future, waker));
                None
            }
            // It is ready, or its process ended while it ran.
            _ => Some((state.tasks.remove(&id), future, waker)),
        };
        drop(state);
        self.catch_panic(|| drop(ended));
    }

    /// Advances the time to the next timer and fires it. Returns false if none is due at `until` or before.
    fn fire_next_timer(&self, until: Duration) -> bool {
        let mut state = self.state();
        let Some(first) = state.timers.first_entry().filter(|first| first.key().at <= until) else {
            state.advance_to(until);
            return false;
        };
        let (key, timer) = first.remove_entry();
        state.advance_to(key.at);
        let now = state.now.as_nanos() as u64;
        state.trace.add(TraceEvent::Fired, now);
        match timer {
            TimerAction::Wake(waker) => {
                drop(state);
                waker.wake();
            }
            TimerAction::Run(owner, action) if state.is_running(owner) => {
                match state.host_of(owner).filter(|host| host.is_paused) {
                    Some(host) => host.paused_actions.push(action),
                    None => {
                        state.running = owner;
                        drop(state);
                        self.catch_panic(action);
                        self.state().running = None;
                    }
                }
            }
            TimerAction::Run(..) => drop(state),
        }
        true
    }

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

    /// Whether the owner of a task still runs; always true without owner.
    pub(super) fn is_running(&self, owner: Owner) -> bool {
        owner.is_none_or(|process| self.hosts.get(process.host).is_some_and(|host| host.is_running(process)))
    }

    /// Whether the host of an ended process runs again.
    pub(super) fn has_restarted(&self, ended: ProcessId) -> bool {
        let host = self.hosts.get(ended.host);
        host.is_some_and(|host| host.status == HostStatus::Up && host.incarnation > ended.incarnation)
    }

    /// Takes the tasks of a process, to be dropped outside of the lock.
    pub(super) fn take_tasks_of(&mut self, process: ProcessId) -> Vec<TaskSlot> {
        let tasks = self.tasks.iter().filter(|(_, task)| task.owner == Some(process));
        let tasks: Vec<TaskId> = tasks.map(|(id, _)| *id).collect();
        tasks.iter().filter_map(|id| self.tasks.remove(id)).collect()
    }

    /// The key of a new timer at `at`. A random number of the world orders timers of the same time.
    pub(super) fn timer_key(&mut self, at: Duration) -> TimerKey {
        self.timers_made += 1;
        TimerKey { at, tie_break: self.rng.next_u64(), sequence: self.timers_made }
    }

    /// The delay of a packet sent now.
    pub(super) fn delay(&self, link: LinkId) -> Duration {
        self.links.delay(link, self.now, &self.rng)
    }

    /// Whether a packet sent once arrives.
    pub(super) fn is_delivered(&self, link: LinkId) -> bool {
        self.links.is_delivered(link, &self.rng)
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

/// Resolves at its time. The timer is set at the first poll: many timeouts are never polled, because the limited future
/// is ready at once. Dropping it removes the timer.
#[derive(Debug)]
pub(super) struct Sleep {
    executor: Arc<Executor>,
    timer: TimerKey,
    is_set: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { executor, timer, is_set } = self.get_mut();
        let mut state = executor.state();
        if !*is_set {
            if timer.at < state.now {
                return Poll::Ready(());
            }
            state.timers.insert(*timer, TimerAction::Wake(context.waker().clone()));
            *is_set = true;
            return Poll::Pending;
        }
        let Some(TimerAction::Wake(waker)) = state.timers.get_mut(timer) else { return Poll::Ready(()) };
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
