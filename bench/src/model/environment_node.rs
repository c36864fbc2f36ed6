//! A node in one of the environments.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use bucksaw_faults::{Cgroup, CleanupGuard};

use super::environment::{NodeEnvironment, QUOTA_PERIOD};
use crate::context::BenchContext;
use crate::node::BenchNode;

/// The library that delays calls of the system.
const SLOW_CALLS: &str = include_str!("slow_calls.c");

/// A running node, and what limits it. The node ends before the limits are removed.
#[derive(Debug)]
pub(super) struct EnvironmentNode {
    pub(super) node: BenchNode,
    limits: EnvironmentLimits,
}

/// The control groups of an environment. Limits of CPU and of writes are of different controllers.
#[derive(Debug)]
struct EnvironmentLimits {
    groups: Vec<Cgroup>,
    cleanup: CleanupGuard,
}

impl EnvironmentNode {
    /// Starts a node with an empty data directory.
    pub(super) fn start(context: &BenchContext, environment: &NodeEnvironment) -> anyhow::Result<Self> {
        let cleanup = CleanupGuard::start()?;
        let mut groups = Vec::new();
        if let Some(percent) = environment.cpu_percent {
            groups.push(Cgroup::with_cpu_limit("cpu", percent, QUOTA_PERIOD, &cleanup)?);
        }
        if let Some(bytes) = environment.write_bytes_per_second {
            let dir = context.path("");
            groups.push(Cgroup::with_write_limit("writes", &dir, bytes, &cleanup)?);
        }
        let mut launcher: Vec<String> = groups.iter().flat_map(Cgroup::launcher).collect();
        let slow_calls = environment.slow_calls();
        if !slow_calls.is_empty() {
            let library = slow_calls_library(&context.path(""))?;
            launcher.extend(["env".to_owned(), format!("LD_PRELOAD={}", library.display())]);
            launcher.extend(slow_calls);
        }
        let flags = [["--audit=false"].as_slice(), environment.serve_flags()].concat();
        let node = context.node_launched_by(&launcher, "node", &flags)?;
        Ok(Self { node, limits: EnvironmentLimits { groups, cleanup } })
    }

    /// Stops the node, and removes its data and its limits.
    pub(super) fn stop(self, context: &BenchContext) -> anyhow::Result<()> {
        let Self { node, limits: EnvironmentLimits { groups, cleanup } } = self;
        let dir = node.dir().to_owned();
        node.stop()?;
        drop(groups);
        drop(cleanup);
        context.clear(&dir)
    }
}

/// Compiles the library that delays calls of the system.
fn slow_calls_library(dir: &Path) -> anyhow::Result<PathBuf> {
    let dir = dir.canonicalize().with_context(|| format!("cannot find {}", dir.display()))?;
    let (source, library) = (dir.join("slow_calls.c"), dir.join("slow_calls.so"));
    std::fs::write(&source, SLOW_CALLS).with_context(|| format!("cannot write {}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let compiled = compiler.output().context("delays need a C compiler, cc")?;
    ensure!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_library_delays_syncs() {
        let dir = tempfile::tempdir().unwrap();
        let library = slow_calls_library(dir.path()).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let started = Instant::now();
        let synced = Command::new("sync")
            .arg(&file)
            .env("LD_PRELOAD", &library)
            .env("SLOW_SYNC_MICROS", "200000")
            .status()
            .unwrap();
        assert!(synced.success() && started.elapsed() >= Duration::from_millis(200));
    }
}
