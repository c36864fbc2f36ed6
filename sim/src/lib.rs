//! Simulated clusters with faults: the code of the product on simulated disks, network, clocks and random numbers, in one
//! thread under virtual time.
//!
//! ```text
//!   seed ──► scenario: nodes, roles, network conditions, faults
//!        ──► clients append, faults occur ──► all faults end ──► final checks
//! ```
//! The record ledger knows the outcome of each record. An acknowledged record must be found exactly once, a refused one never,
//! any other at most once. During the faults no record may be lost or duplicated. After them every pending record must be stored
//! and have its replicas.
//!
//! The same seed gives the same run, event for event, so a failing seed is a test ([`REGRESSION_SEEDS`]).
//! `docs/simulation.md` lists faults and checks.

mod append;
#[cfg(test)]
mod balance;
mod check;
mod checked_answer;
mod claims;
mod client;
mod disk_keys;
#[cfg(test)]
mod duplicate_id;
mod erased_records;
mod erasure_probe;
mod fault_injector;
mod fault_kind;
mod file_damage;
mod injected_bug;
#[cfg(test)]
mod leave;
mod ledger;
#[cfg(test)]
mod little;
mod machine;
mod pending_query;
mod program_version;
mod query_filter;
mod query_kind;
mod queueing;
mod record_attributes;
mod records;
#[cfg(test)]
mod repair;
mod rng;
mod run;
mod scenario;
mod settings;
mod sim_cluster;
mod tail;
#[cfg(test)]
mod test_bed;
mod trace;
#[cfg(test)]
mod upgrade;

pub use injected_bug::InjectedBug;
pub use ledger::Violation;
pub use queueing::{QueueingLoad, QueueingReport};
pub use run::{RunOutcome, run};
pub use scenario::Scenario;
pub use trace::log_to_stderr;

/// Seeds that failed once.
pub const REGRESSION_SEEDS: &[u64] =
    &[154, 732, 1025, 1106, 1331, 1436, 1841, 3571, 4503, 20850, 20910, 22620, 22860, 23593, 24000, 24483];
