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

mod answer;
mod append;
#[cfg(test)]
mod balance;
#[cfg(test)]
mod bench;
mod chance;
mod check;
mod claims;
mod client;
mod edition;
mod faults;
mod fleet;
mod follow;
#[cfg(test)]
mod goodbye;
mod ledger;
mod machine;
mod plant;
mod question;
mod records;
#[cfg(test)]
mod repair;
mod rot;
mod run;
mod scenario;
mod settings;
mod trace;
#[cfg(test)]
mod twin;
#[cfg(test)]
mod upgrade;

pub use ledger::Violation;
pub use plant::Mutation;
pub use run::{Outcome, run};
pub use scenario::Scenario;
pub use trace::show;

/// Seeds that failed once. They are run by `make test` for ever.
pub const KEPT: &[u64] =
    &[154, 732, 1025, 1106, 1331, 1436, 1841, 3571, 4503, 20850, 20910, 22620, 22860, 23593, 24000, 24483];
