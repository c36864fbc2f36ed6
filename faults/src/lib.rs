//! A cluster of real processes, under load, to which bad things happen: a simplified Jepsen.
//!
//! ```text
//!   8 x bucksaw forward ──► proxies ──► ingest 1..3 ◄── bulk writers        each process with an address of its own
//!                                          ▲ ▼          a ledger knows what was acknowledged
//!                                       store 1..3 ──► count, query: from every node
//! ```
//! [`run`] starts it, lets things go wrong one after the other and sometimes two together, and after each sees to it that
//! all comes right again: every node is there, nothing waits, answers are complete. What was acknowledged must be in every
//! answer that says it is complete, exactly once, also while things go wrong. Only the program's own doors are used: its
//! commands and HTTP.
//!
//! What needs root (packets that are lost, small disks) is left out without it, and said to be. Everything that is
//! started or set up is undone at the end, whatever the end is.
//!
//! The [`Ledger`] and the [`Random`] numbers serve the tests at the program's door too.
#![expect(clippy::disallowed_methods, reason = "this is about real time, real files and real processes")]
#![expect(clippy::print_stderr, reason = "a run of minutes says how it goes")]

mod cgroup;
mod cleanup_guard;
mod compare;
mod damage;
mod fault;
mod firewall;
mod fleet;
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
mod random;
mod replication;
mod report;
mod run;
mod scaling;
mod schedule;
mod slow;
mod standalone;
mod timeline;
mod upgrade;
mod wiped;

pub use damage::{DamageOptions, DamageReport, damage};
pub use joining::{JoiningOptions, measure_join};
pub use kill::{KillOptions, KillReport, kill};
pub use ledger::{ComparisonStart, ExpectedLines, Ledger, LedgerComparison};
pub use memory::{MemoryOptions, limit_memory};
pub use random::Random;
pub use report::{FaultResult, Report};
pub use run::{RunOptions, run};
pub use scaling::{ScalingOptions, scale};
pub use slow::{SlowOptions, measure_slow};
pub use upgrade::{UpgradeOptions, upgrade};
pub use wiped::{WipeOptions, wipe};

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Runs a program of the system to its end.
fn run_command(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
