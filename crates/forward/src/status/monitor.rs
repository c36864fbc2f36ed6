//! Where others ask for the state of a running agent.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bucksaw_env::Env;

use super::agent_status::{AgentStatus, FilesStatus};
use crate::send_window::SendWindow;

/// Reads the state of files; the argument is the most files to list.
pub(crate) type ReadFiles = dyn Fn(usize) -> FilesStatus + Send + Sync;

/// Gives the state of an agent while it runs. Cheap to clone; all clones are of one agent.
#[derive(Clone, Default)]
pub struct AgentMonitor(Arc<OnceLock<WatchedAgent>>);

struct WatchedAgent {
    env: Env,
    window: Arc<SendWindow>,
    started: Duration,
    files: Option<Box<ReadFiles>>,
}

impl fmt::Debug for AgentMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentMonitor").field("is_attached", &self.0.get().is_some()).finish()
    }
}

impl AgentMonitor {
    /// Watches an agent. Only the first one of a monitor is watched.
    pub(crate) fn attach(&self, env: &Env, window: &Arc<SendWindow>, files: Option<Box<ReadFiles>>) {
        let started = env.clock.uptime();
        let agent = WatchedAgent { env: env.clone(), window: Arc::clone(window), started, files };
        drop(self.0.set(agent));
    }

    /// The state now, with at most this number of files; `None` if the agent has not started. May wait for the reading thread, so
    /// not on a thread that must not block.
    pub fn status(&self, files_max: usize) -> Option<AgentStatus> {
        let agent = self.0.get()?;
        let files = agent.files.as_ref().map(|read| read(files_max));
        let (now, unix_ms) = (agent.env.clock.uptime(), agent.env.clock.unix_ms());
        let mut status = agent.window.status(unix_ms);
        status.now = now;
        status.unix_ms = unix_ms;
        status.running = now.saturating_sub(agent.started);
        status.files = files;
        Some(status)
    }
}
