//! Where others ask for the state of a running agent.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bucksaw_env::{Env, to_millis};
use bucksaw_wire::AgentReport;

use super::agent_info::AgentInfo;
use super::agent_status::{AgentStatus, FilesStatus};

/// Reads the state of the send window and its connection; the argument is the time in milliseconds since 1970.
type ReadWindow = dyn Fn(u64) -> AgentStatus + Send + Sync;

/// Reads the state of files; the argument is the most files to list.
type ReadFiles = dyn Fn(usize) -> FilesStatus + Send + Sync;

/// The files of an agent.
pub(crate) struct WatchedFiles {
    /// The id of the agent, the same over restarts.
    pub(crate) id: [u8; 16],
    pub(crate) status: Box<ReadFiles>,
}

/// Gives the state of an agent while it runs. Cheap to clone; all clones are of one agent.
#[derive(Clone, Default)]
pub struct AgentMonitor(Arc<OnceLock<WatchedAgent>>);

struct WatchedAgent {
    env: Env,
    window: Box<ReadWindow>,
    started: Duration,
    files: Option<WatchedFiles>,
}

impl fmt::Debug for AgentMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentMonitor").field("is_attached", &self.0.get().is_some()).finish()
    }
}

impl AgentMonitor {
    /// Watches an agent. Only the first one of a monitor is watched.
    pub(crate) fn attach(&self, env: &Env, window: Box<ReadWindow>, files: Option<WatchedFiles>) {
        let started = env.clock.uptime();
        let agent = WatchedAgent { env: env.clone(), window, started, files };
        drop(self.0.set(agent));
    }

    /// The state now, with at most this number of files; `None` if the agent has not started. May wait for the reading thread, so
    /// not on a thread that must not block.
    pub fn status(&self, files_max: usize) -> Option<AgentStatus> {
        let agent = self.0.get()?;
        let files = agent.files.as_ref().map(|files| (files.status)(files_max));
        let (now, unix_ms) = (agent.env.clock.uptime(), agent.env.clock.unix_ms());
        let mut status = (agent.window)(unix_ms);
        status.now = now;
        status.unix_ms = unix_ms;
        status.running = now.saturating_sub(agent.started);
        status.files = files;
        Some(status)
    }

    /// What the agent reports to a node; `None` for an agent without files. May wait as [`Self::status`] does.
    pub(crate) fn report(&self, info: &AgentInfo) -> Option<AgentReport> {
        let id = self.0.get()?.files.as_ref()?.id;
        let status = self.status(0)?;
        let files = status.files.as_ref()?;
        Some(AgentReport {
            id,
            host: info.host.clone(),
            version: info.version.clone(),
            files: files.files(),
            unreadable_files: files.unreadable.len() as u64,
            lag_bytes: files.lag_bytes,
            lag_ms: to_millis(files.lag),
            buffer_bytes: files.buffer_bytes,
            gaps: files.counters.gaps() + files.damaged_batches,
            dropped_records: files.dropped_records,
            acked_records: status.acked_records,
        })
    }
}
