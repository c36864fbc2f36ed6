//! A running agent.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Child;

use anyhow::Context as _;

use crate::process;

/// A running agent, killed on drop.
pub(in crate::edge) struct AgentProcess {
    child: Child,
    log: PathBuf,
}

impl AgentProcess {
    /// A process whose standard error goes to a file.
    pub(super) fn new(child: Child, log: PathBuf) -> Self {
        Self { child, log }
    }

    pub(in crate::edge) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(in crate::edge) fn cpu_nanos(&self) -> anyhow::Result<u64> {
        process::cpu_nanos(self.pid()).with_context(|| format!("the agent has ended: {}", self.log()))
    }

    pub(in crate::edge) fn peak_mb(&self) -> anyhow::Result<f64> {
        process::peak_mb(self.pid())
    }

    /// Its standard error.
    pub(in crate::edge) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of the loopback that was free a moment ago.
pub(in crate::edge) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
