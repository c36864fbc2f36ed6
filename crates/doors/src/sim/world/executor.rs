//! Runs one thing after the other: a task that is ready, drawn by the seed, or, when none is, the next timer.
//!
//! Nothing takes time but what waits for it. As long as a task is ready the time stands still; then it jumps to the next
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

use super::changes::Changes;
use super::host::{Condition, Host, Life, Owner};
use super::network::Links;
use super::ready::{Ready, TaskId};
use super::timers::{Deed, Due, Timer, Timers};
use super::trace::{Event, Trace};
use crate::sim::Entropy;
use crate::sim::clock::Passed;
use crate::{Entropy as _, Waiting};

/// Things that may happen in one moment. Whoever needs more waits for something that has happened already.
const STANDSTILL: u64 = 1_000_000;

/// The world as all its parts share it.
pub(super) struct Shared {
    seed: u64,
    state: Mutex<State>,
    ready: Arc<Ready>,
    /// Tells of each change of [`State::hosts`] and [`State::links`] that a connection should know of.
    changes: Changes,
}

pub(super) struct State {
    pub(super) now: Duration,
    /// The same for all wall clocks.
    pub(super) passed: Passed,
    pub(super) dice: Entropy,
    pub(super) trace: Trace,
    pub(super) hosts: Vec<Host>,
    pub(super) links: Links,
    pub(super) timers: Timers,
    tasks: BTreeMap<TaskId, Task>,
    tasks_given: u64,
    /// Whose code runs.
    pub(super) running: Owner,
    /// Things done since the time last moved.
    still: u64,
    over: bool,
}

pub(super) struct Task {
    owner: Owner,
    /// Not there while it is polled.
    future: Option<(Waiting<()>, Waker)>,
}

/// Whose turn it is.
enum Turn {
    Task(Drawn),
    /// Of what is no task, or none any more.
    Other(TaskId),
}

/// A task that was taken out.
struct Drawn {
    id: TaskId,
    future: Waiting<()>,
    waker: Waker,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            now: Duration::ZERO,
            passed: Passed::default(),
            dice: Entropy::seeded(seed),
            trace: Trace::default(),
            hosts: Vec::new(),
            links: Links::default(),
            timers: Timers::default(),
            tasks: BTreeMap::new(),
            tasks_given: 0,
            running: None,
            still: 0,
            over: false,
        };
        Arc::new(Self { seed, state: Mutex::new(state), ready: Arc::default(), changes: Changes::default() })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(&self, owner: Owner, future: Waiting<()>) {
        let mut state = self.state();
        if state.over || !state.lives(owner) {
            drop(state);
            drop(future);
            return;
        }
        let id = state.task_id();
        state.tasks.insert(id, Task { owner, future: Some((future, self.ready.waker(id))) });
        drop(state);
        self.ready.insert(id);
    }

    /// Resolves after so much time.
    pub(super) fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let due = state.due(at);
        drop(state);
        Sleep { shared: Arc::clone(self), due, is_set: false }
    }

    /// Does something after so much time.
    pub(super) fn after(&self, time: Duration, owner: Owner, deed: Deed) {
        let mut state = self.state();
        let at = state.now.saturating_add(time);
        let due = state.due(at);
        state.timers.insert(due, Timer::Do(owner, deed));
    }

    /// Resolves when something is so, of what [`Self::changed`] is told of.
    pub(super) async fn when(&self, is_so: impl Fn(&State) -> bool) {
        let mut changes = self.changes.watch();
        while !is_so(&self.state()) {
            (&mut changes).await;
        }
    }

    pub(super) fn changed(&self) {
        self.changes.tell();
    }

    /// Does the next thing that happens at `until` or before. When there is none it is `until` now, and false is said.
    pub(super) fn step(&self, until: Duration) -> bool {
        match self.draw() {
            Some(Turn::Task(task)) => {
                self.poll(task);
                true
            }
            Some(Turn::Other(_)) => true,
            None => self.fire(until),
        }
    }

    /// Runs until `future` is done, or until that time.
    pub(super) fn run<T>(&self, mut future: Pin<&mut impl Future<Output = T>>, until: Duration) -> Option<T> {
        let own = self.state().task_id();
        let waker = self.ready.waker(own);
        self.ready.insert(own);
        loop {
            match self.draw() {
                Some(Turn::Other(task)) if task == own => {
                    self.state().trace.note(Event::Polled, own.0);
                    match self.guarded(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
                        Poll::Ready(done) => return Some(done),
                        Poll::Pending => {}
                    }
                }
                Some(Turn::Task(task)) => self.poll(task),
                Some(Turn::Other(_)) => {}
                None if self.fire(until) => {}
                None => return None,
            }
        }
    }

    /// Ends the world: drops all that is in it.
    pub(super) fn end(&self) {
        loop {
            let mut state = self.state();
            state.over = true;
            let tasks = std::mem::take(&mut state.tasks);
            let timers = std::mem::take(&mut state.timers);
            let waiting: Vec<_> = state.hosts.iter_mut().map(Host::clear).collect();
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
    fn guarded<T>(&self, code: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| self.fail(message(panic.as_ref())))
    }

    /// Whose turn it is. A task is taken out to be polled.
    fn draw(&self) -> Option<Turn> {
        let mut state = self.state();
        loop {
            state.still += 1;
            if state.still > STANDSTILL {
                drop(state);
                self.fail("the time stands still");
            }
            let id = self.ready.take(|count| state.dice.below(count))?;
            let State { tasks, hosts, .. } = &mut *state;
            let Some(task) = tasks.get_mut(&id) else { return Some(Turn::Other(id)) };
            let owner = task.owner;
            if let Some(host) = owner.and_then(|life| hosts.get_mut(life.host)).filter(|host| host.paused) {
                host.stopped.push(id);
                continue;
            }
            let Some((future, waker)) = task.future.take() else { return Some(Turn::Other(id)) };
            state.running = owner;
            state.trace.note(Event::Polled, id.0);
            return Some(Turn::Task(Drawn { id, future, waker }));
        }
    }

    fn poll(&self, drawn: Drawn) {
        let Drawn { id, mut future, waker } = drawn;
        let polled = self.guarded(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
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
        self.guarded(|| drop(done));
    }

    /// Lets the time pass to the next timer, and that happen.
    fn fire(&self, until: Duration) -> bool {
        let mut state = self.state();
        let Some((due, timer)) = state.timers.pop(until) else {
            state.pass_to(until);
            return false;
        };
        state.pass_to(due.at);
        let now = state.now.as_nanos() as u64;
        state.trace.note(Event::Fired, now);
        match timer {
            Timer::Wake(waker) => {
                drop(state);
                waker.wake();
            }
            Timer::Do(owner, deed) if state.lives(owner) => match state.host_of(owner).filter(|host| host.paused) {
                Some(host) => host.parked.push(deed),
                None => {
                    state.running = owner;
                    drop(state);
                    self.guarded(deed);
                    self.state().running = None;
                }
            },
            Timer::Do(..) => drop(state),
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

impl State {
    pub(super) fn host(&mut self, index: usize) -> &mut Host {
        &mut self.hosts[index]
    }

    /// Whether who does something still does. Nobody always does.
    pub(super) fn lives(&self, owner: Owner) -> bool {
        owner.is_none_or(|life| self.hosts.get(life.host).is_some_and(|host| host.lives(life)))
    }

    /// Whether a node lives again that had died.
    pub(super) fn is_back(&self, before: Life) -> bool {
        let host = self.hosts.get(before.host);
        host.is_some_and(|host| host.condition == Condition::Up && host.incarnation > before.incarnation)
    }

    /// Takes out the tasks of a node, so that they can be dropped.
    pub(super) fn tasks_of(&mut self, life: Life) -> Vec<Task> {
        let own = self.tasks.iter().filter(|(_, task)| task.owner == Some(life));
        let own: Vec<TaskId> = own.map(|(id, _)| *id).collect();
        own.iter().filter_map(|id| self.tasks.remove(id)).collect()
    }

    /// A moment for something; chance says what comes first of one moment.
    pub(super) fn due(&mut self, at: Duration) -> Due {
        let lot = self.dice.next_u64();
        self.timers.due(at, lot)
    }

    fn host_of(&mut self, owner: Owner) -> Option<&mut Host> {
        self.hosts.get_mut(owner?.host)
    }

    fn task_id(&mut self) -> TaskId {
        self.tasks_given += 1;
        TaskId(self.tasks_given)
    }

    fn pass_to(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        if !passed.is_zero() {
            self.now = now;
            self.passed.set(now);
            self.still = 0;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Waits for its time. The timer is set when somebody first waits for it: many a limit of time is never looked at, because
/// what it limits is there at once. Dropping it takes its timer back.
#[derive(Debug)]
pub(super) struct Sleep {
    shared: Arc<Shared>,
    due: Due,
    is_set: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { shared, due, is_set } = self.get_mut();
        let mut state = shared.state();
        if !*is_set {
            if due.at < state.now {
                return Poll::Ready(());
            }
            state.timers.insert(*due, Timer::Wake(context.waker().clone()));
            *is_set = true;
            return Poll::Pending;
        }
        let Some(Timer::Wake(waker)) = state.timers.get_mut(due) else { return Poll::Ready(()) };
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
            let timer = self.shared.state().timers.remove(&self.due);
            drop(timer);
        }
    }
}
