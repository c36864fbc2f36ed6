//! The threads of a node.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bucksaw_env::{Tasks, real};
use tokio::runtime::{Builder, Runtime};

use super::memory::MemoryPlan;
use super::priority;

/// How long the threads of one runtime may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Three runtimes, so that a slow disk under one does not delay the others, and one for low-priority work.
pub(super) struct Runtimes {
    /// TCP listeners for records, whose appends may wait for the disk.
    pub(super) net: Runtime,
    /// HTTP, which moves such work to threads of its own.
    pub(super) http: Runtime,
    /// The node's tasks and the calls of other nodes.
    pub(super) node: Runtime,
    low_priority: Runtime,
}

impl Runtimes {
    pub(super) fn start(plan: &MemoryPlan) -> anyhow::Result<Self> {
        Ok(Self {
            net: runtime("net", plan)?,
            http: runtime("http", plan)?,
            node: runtime("node", plan)?,
            low_priority: priority::background_runtime()?,
        })
    }

    /// The tasks of the node.
    pub(super) fn tasks(&self) -> Arc<dyn Tasks> {
        Arc::new(real::Tasks::new(self.node.handle().clone()).with_low_priority(self.low_priority.handle().clone()))
    }

    pub(super) fn shut_down(self) {
        for runtime in [self.net, self.http, self.node, self.low_priority] {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// A few threads are enough for the network's short work, and idle ones cost nothing.
fn runtime(name: &str, plan: &MemoryPlan) -> anyhow::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, 8);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(plan.blocking_threads)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_name(name)
        .enable_all()
        .build()
        .context("cannot start the threads of the network")
}
