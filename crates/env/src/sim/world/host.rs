//! A node in a test's hands: its doors, and what can be done to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::executor::Executor;
use super::host_state::{HostStatus, ProcessId};
use super::net::Net;
use super::network_conditions::Delay;
use super::run_hash::TraceEvent;
use super::tasks::Tasks;
use crate::sim::{Clock, Fs, PowerCutLoss};
use crate::{BoxFuture, Clock as _, Entropy as _, Env};

/// A node of a simulated world, also while it is dead. A clone is the same node.
///
/// Doors, tasks and net belong to one life of the node, that which it has when it is asked for them. When that ends, its
/// tasks are dropped at that moment, its files can no longer be written, and what is done by its doors has no effect, or
/// waits for ever.
#[derive(Clone)]
pub struct Host {
    pub(super) executor: Arc<Executor>,
    pub(super) index: usize,
}

impl Host {
    /// The name that was given to it.
    #[must_use]
    pub fn name(&self) -> String {
        self.executor.state().host(self.index).name.clone()
    }

    /// Where other nodes reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.executor.state().host(self.index).address
    }

    /// Its files, clock and randomness.
    #[must_use]
    pub fn env(&self) -> Env {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        let (clock, entropy) = (Arc::clone(&host.clock), Arc::clone(&host.entropy));
        Env { fs: Arc::new(host.disk.clone()), clock, entropy }
    }

    /// Its tasks.
    #[must_use]
    pub fn tasks(&self) -> Arc<dyn crate::Tasks> {
        Arc::new(Tasks { executor: Arc::clone(&self.executor), owner: Some(self.process()) })
    }

    /// Its way to other nodes.
    #[must_use]
    pub fn net(&self) -> Arc<dyn crate::Net> {
        Arc::new(Net { executor: Arc::clone(&self.executor), process: self.process(), address: self.address() })
    }

    /// Runs a task on it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task: BoxFuture<()> = Box::pin(task);
        self.executor.spawn(Some(self.process()), task);
    }

    /// Its disk, to look at and to make it fail. It is another one after each death.
    #[must_use]
    pub fn fs(&self) -> Fs {
        self.executor.state().host(self.index).disk.clone()
    }

    /// Puts another disk in, when it is dead: an empty one, or one from a backup. Does nothing while it is up.
    pub fn set_disk(&self, disk: Fs) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        if host.status != HostStatus::Up {
            host.disk = disk;
        }
    }

    /// Ends the process. The disk is as it was, with all that was written and not synced still to be lost.
    pub fn kill(&self) {
        self.stop_with(HostStatus::Killed, |disk, _| disk.kill());
    }

    /// Ends the process and loses of the disk what was not synced. Who calls the node gets no answer, not even a refusal,
    /// until it is started again.
    pub fn cut_power(&self, how: PowerCutLoss) {
        self.stop_with(HostStatus::PoweredOff, |disk, seed| {
            let found = disk.cut_power(how, seed);
            disk.halt();
            found
        });
    }

    /// Starts it again with the disk that is left: a new life, in which nothing runs yet. Does nothing while it is up.
    pub fn restart(&self) {
        let mut state = self.executor.state();
        let (seed, passed) = (state.rng.next_u64(), state.elapsed.clone());
        let host = state.host(self.index);
        if host.status == HostStatus::Up {
            return;
        }
        host.status = HostStatus::Up;
        host.incarnation += 1;
        host.clock = Arc::new(Clock::driven_by(passed, host.clock.unix_ms()));
        host.entropy = Arc::new(crate::sim::Entropy::seeded(seed));
        state.trace.add(TraceEvent::Fault, self.index as u64);
        drop(state);
        self.executor.notify_changed();
    }

    /// Whether it lives. It does also while it is paused.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.executor.state().host(self.index).status == HostStatus::Up
    }

    /// Stops it where it stands, as SIGSTOP does: nothing of it runs. The time passes, and what comes by the network waits
    /// in buffers that have an end.
    pub fn pause(&self) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        host.is_paused = host.status == HostStatus::Up;
    }

    /// Lets it go on.
    pub fn resume(&self) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        host.is_paused = false;
        let (stopped, parked) = (std::mem::take(&mut host.paused_tasks), std::mem::take(&mut host.paused_actions));
        drop(state);
        self.executor.wake_all(stopped);
        for deed in parked {
            self.executor.schedule(std::time::Duration::ZERO, Some(self.process()), deed);
        }
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.executor.state().host(self.index).is_paused
    }

    /// Sets its wall clock on or back. The uptime does not notice.
    pub fn jump_clock(&self, ms: i64) {
        self.executor.state().host(self.index).clock.jump(ms);
    }

    /// Sets how long [`crate::Tasks::block`] takes on it: how slow its disk is.
    pub fn set_blocking_delay(&self, delay: Delay) {
        self.executor.state().host(self.index).blocking_delay = delay;
    }

    pub(super) fn process(&self) -> ProcessId {
        ProcessId { host: self.index, incarnation: self.executor.state().host(self.index).incarnation }
    }

    /// The disk stops first: what is dropped afterwards is not there any more on a real machine, and cleans nothing up.
    fn stop_with(&self, condition: HostStatus, disk_left: impl FnOnce(&Fs, u64) -> Fs) {
        let life = self.process();
        let mut state = self.executor.state();
        if !state.is_running(Some(life)) {
            return;
        }
        let seed = state.rng.next_u64();
        state.trace.add(TraceEvent::Fault, self.index as u64);
        let host = state.host(self.index);
        host.status = condition;
        host.is_paused = false;
        host.disk = disk_left(&host.disk, seed);
        let waiting = host.take_pending();
        let tasks = state.take_tasks_of(life);
        drop(state);
        drop((tasks, waiting));
        self.executor.notify_changed();
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.index)
    }
}
