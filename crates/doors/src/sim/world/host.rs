//! One node as the world sees it: whether it lives, what it has, and what waits for it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::ready::TaskId;
use super::timers::Deed;
use super::weather::Delay;
use crate::Incoming;
use crate::sim::{Clock, Entropy, Fs};

/// Datagrams that wait to be received; what comes beyond is lost, as it is when a socket's buffer is full.
const DATAGRAMS: usize = 256;

/// Calls that wait to be accepted; who comes beyond tries again later.
const CALLS: usize = 128;

/// How long [`crate::Tasks::block`] takes on a machine that is well.
pub(super) const WORK: Delay = Delay::between(Duration::from_micros(20), Duration::from_micros(500));

/// A node from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) host: usize,
    pub(super) incarnation: u64,
}

/// Whose something is: of a node, and ends with it, or nobody's.
pub(super) type Owner = Option<Life>;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    /// Only the process is gone; the machine says so to whoever calls.
    Killed,
    /// Nobody says anything.
    Dark,
}

pub(super) struct Host {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) incarnation: u64,
    pub(super) condition: Condition,
    pub(super) disk: Fs,
    pub(super) clock: Arc<Clock>,
    pub(super) entropy: Arc<Entropy>,
    pub(super) work: Delay,
    pub(super) paused: bool,
    /// What would have run or happened, had it not been paused.
    pub(super) stopped: Vec<TaskId>,
    pub(super) parked: Vec<Deed>,
    pub(super) datagrams: Queue<(SocketAddr, Vec<u8>)>,
    pub(super) calls: Queue<Incoming>,
}

impl Host {
    pub(super) fn new(name: &str, address: SocketAddr, clock: Clock, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            address,
            incarnation: 0,
            condition: Condition::Up,
            disk: Fs::new(),
            clock: Arc::new(clock),
            entropy: Arc::new(Entropy::seeded(seed)),
            work: WORK,
            paused: false,
            stopped: Vec::new(),
            parked: Vec::new(),
            datagrams: Queue::new(DATAGRAMS),
            calls: Queue::new(CALLS),
        }
    }

    pub(super) fn lives(&self, life: Life) -> bool {
        self.condition == Condition::Up && self.incarnation == life.incarnation
    }

    /// Takes all that waits, so that it can be dropped.
    pub(super) fn clear(&mut self) -> Waiting {
        self.stopped.clear();
        Waiting {
            _parked: std::mem::take(&mut self.parked),
            _datagrams: std::mem::replace(&mut self.datagrams, Queue::new(DATAGRAMS)),
            _calls: std::mem::replace(&mut self.calls, Queue::new(CALLS)),
        }
    }
}

/// What waited for a node that has died. Dropping it ends foreign things.
pub(super) struct Waiting {
    _parked: Vec<Deed>,
    _datagrams: Queue<(SocketAddr, Vec<u8>)>,
    _calls: Queue<Incoming>,
}

/// What waits for one task to take it.
pub(super) struct Queue<T> {
    items: VecDeque<T>,
    items_max: usize,
    waker: Option<Waker>,
}

impl<T> Queue<T> {
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

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("condition", &self.condition).finish_non_exhaustive()
    }
}
