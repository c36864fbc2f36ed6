//! What the command of an agent needs.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::edge::load::LineDelivery;
use crate::node::BenchNode;

/// What the command of an agent needs.
pub(in crate::edge) struct AgentStart<'a> {
    pub(in crate::edge) program: &'a Path,
    /// A directory of its own. Files are below it as `*.log`.
    pub(in crate::edge) home: &'a Path,
    pub(in crate::edge) node: &'a BenchNode,
    pub(in crate::edge) delivery: LineDelivery,
    /// The port for writers that push.
    pub(in crate::edge) port: u16,
}

impl AgentStart<'_> {
    /// The pattern of all log files.
    pub(super) fn pattern(&self) -> String {
        self.home.join("*.log").display().to_string()
    }

    /// Writes a file into the directory of the agent, and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.home.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// The port of an address.
pub(super) fn port_of(address: &str) -> &str {
    address.rsplit_once(':').map_or("", |(_, port)| port)
}
