//! A node in a test's hands: its doors, and what can be done to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::executor::Shared;
use super::host::{Condition, Life};
use super::net::Net;
use super::tasks::Tasks;
use super::trace::Event;
use super::weather::Delay;
use crate::sim::{Clock, Fs, Loss};
use crate::{Clock as _, Doors, Entropy as _, Waiting};

/// A node of a simulated world, also while it is dead. A clone is the same node.
///
/// Doors, tasks and net belong to one life of the node, that which it has when it is asked for them. When that ends, its
/// tasks are dropped at that moment, its files can no longer be written, and what is done by its doors has no effect, or
/// waits for ever.
#[derive(Clone)]
pub struct Node {
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
}

impl Node {
    /// The name that was given to it.
    #[must_use]
    pub fn name(&self) -> String {
        self.shared.state().host(self.index).name.clone()
    }

    /// Where other nodes reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.state().host(self.index).address
    }

    /// Its files, clock and randomness.
    #[must_use]
    pub fn doors(&self) -> Doors {
        let mut state = self.shared.state();
        let host = state.host(self.index);
        let (clock, entropy) = (Arc::clone(&host.clock), Arc::clone(&host.entropy));
        Doors { fs: Arc::new(host.disk.clone()), clock, entropy }
    }

    /// Its tasks.
    #[must_use]
    pub fn tasks(&self) -> Arc<dyn crate::Tasks> {
        Arc::new(Tasks { shared: Arc::clone(&self.shared), owner: Some(self.life()) })
    }

    /// Its way to other nodes.
    #[must_use]
    pub fn net(&self) -> Arc<dyn crate::Net> {
        Arc::new(Net { shared: Arc::clone(&self.shared), life: self.life(), address: self.address() })
    }

    /// Runs a task on it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task: Waiting<()> = Box::pin(task);
        self.shared.spawn(Some(self.life()), task);
    }

    /// Its disk, to look at and to make it fail. It is another one after each death.
    #[must_use]
    pub fn fs(&self) -> Fs {
        self.shared.state().host(self.index).disk.clone()
    }

    /// Puts another disk in, when it is dead: an empty one, or one from a backup. Does nothing while it is up.
    pub fn set_disk(&self, disk: Fs) {
        let mut state = self.shared.state();
        let host = state.host(self.index);
        if host.condition != Condition::Up {
            host.disk = disk;
        }
    }

    /// Ends the process. The disk is as it was, with all that was written and not synced still to be lost.
    pub fn kill(&self) {
        self.die(Condition::Killed, |disk, _| disk.kill());
    }

    /// Ends the process and loses of the disk what was not synced. Who calls the node gets no answer, not even a refusal,
    /// until it is started again.
    pub fn cut_power(&self, how: Loss) {
        self.die(Condition::Dark, |disk, seed| {
            let found = disk.cut_power(how, seed);
            disk.halt();
            found
        });
    }

    /// Starts it again with the disk that is left: a new life, in which nothing runs yet. Does nothing while it is up.
    pub fn restart(&self) {
        let mut state = self.shared.state();
        let (seed, passed) = (state.dice.next_u64(), state.passed.clone());
        let host = state.host(self.index);
        if host.condition == Condition::Up {
            return;
        }
        host.condition = Condition::Up;
        host.incarnation += 1;
        host.clock = Arc::new(Clock::following(passed, host.clock.unix_ms()));
        host.entropy = Arc::new(crate::sim::Entropy::seeded(seed));
        state.trace.note(Event::Fault, self.index as u64);
        drop(state);
        self.shared.changed();
    }

    /// Whether it lives. It does also while it is paused.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.shared.state().host(self.index).condition == Condition::Up
    }

    /// Stops it where it stands, as SIGSTOP does: nothing of it runs. The time passes, and what comes by the network waits
    /// in buffers that have an end.
    pub fn pause(&self) {
        let mut state = self.shared.state();
        let host = state.host(self.index);
        host.paused = host.condition == Condition::Up;
    }

    /// Lets it go on.
    pub fn resume(&self) {
        let mut state = self.shared.state();
        let host = state.host(self.index);
        host.paused = false;
        let (stopped, parked) = (std::mem::take(&mut host.stopped), std::mem::take(&mut host.parked));
        drop(state);
        self.shared.wake_all(stopped);
        for deed in parked {
            self.shared.after(std::time::Duration::ZERO, Some(self.life()), deed);
        }
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.shared.state().host(self.index).paused
    }

    /// Sets its wall clock on or back. The uptime does not notice.
    pub fn jump_clock(&self, ms: i64) {
        self.shared.state().host(self.index).clock.jump(ms);
    }

    /// Sets how long [`crate::Tasks::block`] takes on it: how slow its disk is.
    pub fn set_work(&self, delay: Delay) {
        self.shared.state().host(self.index).work = delay;
    }

    pub(super) fn life(&self) -> Life {
        Life { host: self.index, incarnation: self.shared.state().host(self.index).incarnation }
    }

    /// The disk stops first: what is dropped afterwards is not there any more on a real machine, and cleans nothing up.
    fn die(&self, condition: Condition, disk_left: impl FnOnce(&Fs, u64) -> Fs) {
        let life = self.life();
        let mut state = self.shared.state();
        if !state.lives(Some(life)) {
            return;
        }
        let seed = state.dice.next_u64();
        state.trace.note(Event::Fault, self.index as u64);
        let host = state.host(self.index);
        host.condition = condition;
        host.paused = false;
        host.disk = disk_left(&host.disk, seed);
        let waiting = host.clear();
        let tasks = state.tasks_of(life);
        drop(state);
        drop((tasks, waiting));
        self.shared.changed();
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.index)
    }
}
