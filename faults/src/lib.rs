//! Injects faults into a cluster of real processes under load and checks its guarantees, like a small Jepsen.
//!
//! ```text
//!   8 x bucksaw forward ──► proxies ──► ingest 1..3 ◄── bulk writers        each process with an address of its own
//!                                          ▲ ▼          a ledger knows what was acknowledged
//!                                       store 1..3 ──► count, query: from every node
//! ```
//! [`run`] starts the cluster and applies faults, one at a time and in pairs. After each it waits until every node is
//! ready, nothing old is pending, and answers are complete. Every complete answer must contain each acknowledged line
//! exactly once, also during faults. The harness uses only the command line and HTTP.
//!
//! Faults that need root (lost packets, small disks) are skipped without it and listed as skipped. At the end, however
//! it comes, all processes and changes to the machine are removed.
//!
//! [`Ledger`], [`Random`], [`http`] and [`wait`] also serve the end-to-end tests and the benchmarks; [`Cgroup`] and [`fleet`]
//! the benchmarks.
#![expect(clippy::disallowed_methods, reason = "uses real time, files and processes")]
#![expect(clippy::print_stderr, reason = "prints the progress of long runs")]

mod cgroup;
mod cleanup_guard;
mod compare;
mod damage;
mod fault;
mod firewall;
pub mod fleet;
mod health_check;
pub mod http;
mod joining;
mod kill;
mod ledger;
mod load;
mod log;
mod memory;
mod monitor;
mod plot;
mod proxy;
mod query_load;
mod replication;
mod report;
mod run;
mod scaling;
mod schedule;
mod slow;
mod standalone;
mod timeline;
mod upgrade;
pub mod wait;
mod wiped;

pub use bucksaw_fixtures::Random;
pub use cgroup::Cgroup;
pub use cleanup_guard::CleanupGuard;
pub use damage::{DamageOptions, DamageReport, damage};
pub use joining::{JoiningOptions, measure_join};
pub use kill::{KillOptions, KillReport, kill};
pub use ledger::{ComparisonStart, ExpectedLines, Ledger, LedgerComparison};
pub use memory::{MemoryOptions, limit_memory};
pub use report::{FaultResult, Report};
pub use run::{RunOptions, run};
pub use scaling::{ScalingOptions, scale};
pub use slow::{SlowOptions, measure_slow};
pub use upgrade::{UpgradeOptions, upgrade};
pub use wiped::{WipeOptions, wipe};

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Runs a system program and waits for it.
fn run_command(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
