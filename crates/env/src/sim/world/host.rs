//! A host as a test sees it: its environment and the faults that it can suffer.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::executor::Executor;
use super::host_state::HostStatus;
use super::net::Net;
use super::network_conditions::Delay;
use super::process_id::ProcessId;
use super::run_hash::TraceEvent;
use super::tasks::Tasks;
use crate::sim::{Clock, Fs, PowerCutLoss};
use crate::{BoxFuture, Clock as _, Entropy as _, Env};

/// A host of a simulated world, running or not. A clone is the same host.
///
/// Environment, tasks and network belong to the process that runs when they are requested. When it ends, its tasks are dropped
/// at once, its files cannot be written any more, and calls to its environment have no effect or never resolve.
#[derive(Clone)]
pub struct Host {
    pub(super) executor: Arc<Executor>,
    pub(super) index: usize,
}

impl Host {
    /// Its name.
    pub fn name(&self) -> String {
        self.executor.state().host(self.index).name.clone()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.executor.state().host(self.index).address
    }

    /// Its files, clock and random numbers.
    pub fn env(&self) -> Env {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        let (clock, entropy) = (Arc::clone(&host.clock), Arc::clone(&host.entropy));
        Env { fs: Arc::new(host.disk.clone()), clock, entropy }
    }

    /// Its tasks.
    pub fn tasks(&self) -> Arc<dyn crate::Tasks> {
        Arc::new(Tasks { executor: Arc::clone(&self.executor), owner: Some(self.process()) })
    }

    /// Its access to the network.
    pub fn net(&self) -> Arc<dyn crate::Net> {
        Arc::new(Net { executor: Arc::clone(&self.executor), process: self.process(), address: self.address() })
    }

    /// Runs a task on it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task: BoxFuture<()> = Box::pin(task);
        self.executor.spawn(Some(self.process()), task);
    }

    /// Its disk, for inspection and faults. Each crash replaces it.
    pub fn fs(&self) -> Fs {
        self.executor.state().host(self.index).disk.clone()
    }

    /// Replaces the disk by an empty one or a snapshot. Does nothing while the host is up.
    pub fn set_disk(&self, disk: Fs) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        if host.status != HostStatus::Up {
            host.disk = disk;
        }
    }

    /// Ends the process. Unsynced writes stay on the disk, and stay unsynced.
    pub fn kill(&self) {
        self.stop_with(HostStatus::Killed, |disk, _| disk.kill());
    }

    /// Ends the process and loses unsynced changes of the disk. Until the restart, callers get no answer, not even a refusal.
    pub fn cut_power(&self, how: PowerCutLoss) {
        self.stop_with(HostStatus::PoweredOff, |disk, seed| {
            let after = disk.cut_power(how, seed);
            disk.halt();
            after
        });
    }

    /// Starts a new process, without tasks, on the present disk. Does nothing while the host is up.
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

    /// Whether the process exists, also if it is paused.
    pub fn is_up(&self) -> bool {
        self.executor.state().host(self.index).status == HostStatus::Up
    }

    /// Suspends the process, as SIGSTOP does. Time passes, and input from the network waits in bounded buffers.
    pub fn pause(&self) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        host.is_paused = host.status == HostStatus::Up;
    }

    /// Continues a paused process.
    pub fn resume(&self) {
        let mut state = self.executor.state();
        let host = state.host(self.index);
        host.is_paused = false;
        let (tasks, actions) = (std::mem::take(&mut host.paused_tasks), std::mem::take(&mut host.paused_actions));
        drop(state);
        self.executor.wake_all(tasks);
        for action in actions {
            self.executor.schedule(std::time::Duration::ZERO, Some(self.process()), action);
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.executor.state().host(self.index).is_paused
    }

    /// Moves its wall clock forward or back. The uptime is unaffected.
    pub fn jump_clock(&self, ms: i64) {
        self.executor.state().host(self.index).clock.jump(ms);
    }

    /// Sets the duration of [`crate::Tasks::spawn_blocking`], which stands for the speed of its disk.
    pub fn set_blocking_delay(&self, delay: Delay) {
        self.executor.state().host(self.index).blocking_delay = delay;
    }

    pub(super) fn process(&self) -> ProcessId {
        ProcessId { host: self.index, incarnation: self.executor.state().host(self.index).incarnation }
    }

    /// Halts the disk first: tasks of a dead process must not clean up when they are dropped.
    fn stop_with(&self, status: HostStatus, replace_disk: impl FnOnce(&Fs, u64) -> Fs) {
        let process = self.process();
        let mut state = self.executor.state();
        if !state.is_running(Some(process)) {
            return;
        }
        let seed = state.rng.next_u64();
        state.trace.add(TraceEvent::Fault, self.index as u64);
        let host = state.host(self.index);
        host.status = status;
        host.is_paused = false;
        host.disk = replace_disk(&host.disk, seed);
        let pending = host.take_pending();
        let tasks = state.take_tasks_of(process);
        drop(state);
        drop((tasks, pending));
        self.executor.notify_changed();
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.index)
    }
}
