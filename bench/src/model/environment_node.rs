//! A node in one of the environments.

use anyhow::ensure;
use bucksaw_faults::{Cgroup, CleanupGuard};

use super::environment::{NodeEnvironment, QUOTA_PERIOD};
use crate::context::BenchContext;
use crate::node::BenchNode;

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
        if let Some(arguments) = environment.strace_arguments() {
            let has_strace = std::process::Command::new("strace").arg("-V").output().is_ok();
            ensure!(has_strace, "delays are injected by strace, which is not installed");
            launcher.push("strace".to_owned());
            launcher.extend(arguments);
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
