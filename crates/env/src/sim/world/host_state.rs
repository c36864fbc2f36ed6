//! The state of one host.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::network_conditions::Delay;
use super::process_id::ProcessId;
use super::ready_queue::TaskId;
use super::timers::ScheduledAction;
use crate::IncomingCall;
use crate::sim::{Clock, Entropy, Fs};

/// Maximum datagrams that wait to be received. Further ones are lost, as with a full socket buffer.
const DATAGRAMS_MAX: usize = 256;

/// Maximum calls that wait to be accepted. Further ones are retried later.
const CALLS_MAX: usize = 128;

/// The duration of [`crate::Tasks::spawn_blocking`] on a healthy host.
pub(super) const BLOCKING_DELAY: Delay = Delay::uniform(Duration::from_micros(20), Duration::from_micros(500));

/// Whether a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostStatus {
    Up,
    /// The process has ended; the machine refuses connections.
    Killed,
    /// The machine does not answer.
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
    /// Tasks and actions that became due during a pause.
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

    pub(super) fn is_running(&self, process: ProcessId) -> bool {
        self.status == HostStatus::Up && self.incarnation == process.incarnation
    }

    /// Takes all pending input, to be dropped outside of the lock.
    pub(super) fn take_pending(&mut self) -> PendingInput {
        self.paused_tasks.clear();
        PendingInput {
            _paused_actions: std::mem::take(&mut self.paused_actions),
            _datagrams: std::mem::replace(&mut self.datagrams, Mailbox::new(DATAGRAMS_MAX)),
            _calls: std::mem::replace(&mut self.calls, Mailbox::new(CALLS_MAX)),
        }
    }
}

/// Pending input of a dead process. Dropping it may wake tasks of other hosts.
pub(super) struct PendingInput {
    _paused_actions: Vec<ScheduledAction>,
    _datagrams: Mailbox<(SocketAddr, Vec<u8>)>,
    _calls: Mailbox<IncomingCall>,
}

/// A bounded queue with one receiving task.
pub(super) struct Mailbox<T> {
    items: VecDeque<T>,
    items_max: usize,
    waker: Option<Waker>,
}

impl<T> Mailbox<T> {
    fn new(items_max: usize) -> Self {
        Self { items: VecDeque::new(), items_max, waker: None }
    }

    /// Adds an item and returns the waker of the receiver; returns the item if the queue is full.
    pub(super) fn push(&mut self, item: T) -> Result<Option<Waker>, T> {
        if self.items.len() >= self.items_max {
            return Err(item);
        }
        self.items.push_back(item);
        Ok(self.waker.take())
    }

    /// The next item. The replaced waker is returned, because dropping it under the lock could deadlock.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> (Poll<T>, Option<Waker>) {
        match self.items.pop_front() {
            Some(item) => (Poll::Ready(item), None),
            None => (Poll::Pending, self.waker.replace(context.waker().clone())),
        }
    }
}
