//! Whole clusters in one thread, under virtual time, with faults: the real code of queue, store, cluster and query on
//! simulated disks, network, clocks and randomness.
//!
//! ```text
//!   seed ──► scenario: how many nodes, which roles, how bad the weather, what goes wrong and when
//!        ──► clients append, faults happen ──► all is healed ──► everything must have come right
//! ```
//! The `ledger` knows what was acknowledged. What was must be found, exactly once; what was neither acknowledged nor
//! refused may be found, at most once; what was refused must not. First it is seen to that nothing is lost or doubled while
//! things go wrong; then all faults end, and it is seen to that everything pending is consumed and every record is kept as
//! often as promised.
//!
//! The same seed gives the same run, event for event, so a seed that fails is a test ([`KEPT`]).

mod append;
#[cfg(test)]
mod balance;
mod check;
mod checked_answer;
mod claims;
mod client;
#[cfg(test)]
mod duplicate_id;
mod fault_injector;
mod file_damage;
mod injected_bug;
#[cfg(test)]
mod leave;
mod ledger;
mod machine;
mod pending_query;
mod program_version;
mod query_filter;
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
pub use run::{RunOutcome, run};
pub use scenario::Scenario;
pub use trace::log_to_stderr;

/// Seeds that failed once. They are run by `make test` for ever.
pub const REGRESSION_SEEDS: &[u64] =
    &[154, 732, 1025, 1106, 1331, 1436, 1841, 3571, 4503, 20850, 20910, 22620, 22860, 23593, 24000, 24483];
