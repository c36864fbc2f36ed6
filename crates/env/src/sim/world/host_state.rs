//! One node as the world sees it: whether it lives, what it has, and what waits for it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::network_conditions::Delay;
use super::ready_queue::TaskId;
use super::timers::ScheduledAction;
use crate::IncomingCall;
use crate::sim::{Clock, Entropy, Fs};

/// Datagrams that wait to be received; what comes beyond is lost, as it is when a socket's buffer is full.
const DATAGRAMS_MAX: usize = 256;

/// Calls that wait to be accepted; who comes beyond tries again later.
const CALLS_MAX: usize = 128;

/// How long [`crate::Tasks::block`] takes on a machine that is well.
pub(super) const BLOCKING_DELAY: Delay = Delay::uniform(Duration::from_micros(20), Duration::from_micros(500));

/// A node from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId {
    pub(super) host: usize,
    pub(super) incarnation: u64,
}

/// Whose something is: of a node, and ends with it, or nobody's.
pub(super) type Owner = Option<ProcessId>;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostStatus {
    Up,
    /// Only the process is gone; the machine says so to whoever calls.
    Killed,
    /// Nobody says anything.
    PoweredOff,
}

pub(super) struct HostState {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) incarnation: u64,
    pub(super) status: HostStatus,
    pub(super) disk: Fs,
    pub(super) clock: Arc<Clock>,
    pub(super) entropy: Arc<Entropy>,
    pub(super) blocking_delay: Delay,
    pub(super) is_paused: bool,
    /// What would have run or happened, had it not been paused.
    pub(super) paused_tasks: Vec<TaskId>,
    pub(super) paused_actions: Vec<ScheduledAction>,
    pub(super) datagrams: Mailbox<(SocketAddr, Vec<u8>)>,
    pub(super) calls: Mailbox<IncomingCall>,
}

impl HostState {
    pub(super) fn new(name: &str, address: SocketAddr, clock: Clock, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            address,
            incarnation: 0,
            status: HostStatus::Up,
            disk: Fs::new(),
            clock: Arc::new(clock),
            entropy: Arc::new(Entropy::seeded(seed)),
            blocking_delay: BLOCKING_DELAY,
            is_paused: false,
            paused_tasks: Vec::new(),
            paused_actions: Vec::new(),
            datagrams: Mailbox::new(DATAGRAMS_MAX),
            calls: Mailbox::new(CALLS_MAX),
        }
    }

    pub(super) fn is_running(&self, life: ProcessId) -> bool {
        self.status == HostStatus::Up && self.incarnation == life.incarnation
    }

    /// Takes all that waits, so that it can be dropped.
    pub(super) fn take_pending(&mut self) -> PendingInput {
        self.paused_tasks.clear();
        PendingInput {
            _paused_actions: std::mem::take(&mut self.paused_actions),
            _datagrams: std::mem::replace(&mut self.datagrams, Mailbox::new(DATAGRAMS_MAX)),
            _calls: std::mem::replace(&mut self.calls, Mailbox::new(CALLS_MAX)),
        }
    }
}

/// What waited for a node that has died. Dropping it ends foreign things.
pub(super) struct PendingInput {
    _paused_actions: Vec<ScheduledAction>,
    _datagrams: Mailbox<(SocketAddr, Vec<u8>)>,
    _calls: Mailbox<IncomingCall>,
}

/// What waits for one task to take it.
pub(super) struct Mailbox<T> {
    items: VecDeque<T>,
    items_max: usize,
    waker: Option<Waker>,
}

impl<T> Mailbox<T> {
    fn new(items_max: usize) -> Self {
        Self { items: VecDeque::new(), items_max, waker: None }
    }

    /// Whom to wake. What is too much is given back.
    pub(super) fn push(&mut self, item: T) -> Result<Option<Waker>, T> {
        if self.items.len() >= self.items_max {
            return Err(item);
        }
        self.items.push_back(item);
        Ok(self.waker.take())
    }

    /// The next one; else the waker that was there before, which is not to be dropped here.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> (Poll<T>, Option<Waker>) {
        match self.items.pop_front() {
            Some(item) => (Poll::Ready(item), None),
            None => (Poll::Pending, self.waker.replace(context.waker().clone())),
        }
    }
}

impl fmt::Debug for HostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("condition", &self.status).finish_non_exhaustive()
    }
}
