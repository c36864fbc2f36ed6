//! Capacity model: formulas for the queues, batches, background work, repair, gossip and scaling of a cluster.
//!
//! The crate has pure functions over plain numbers: seconds, bytes, and counts per second as `f64`. It does no I/O and knows no
//! other part of Bucksaw; its callers take the service times from measurements.
//!
//! Each formula states its assumption and its source, and is tested against a simulation or a count of all cases.
//! `docs/model.md` lists the errors that the tests measured.
//!
//! A result is `None` where no steady state exists (the load is at or above the capacity) or where an input is out of its
//! domain, such as a rate that is negative or not a number. No input causes a panic.
//!
//! ```
//! use bucksaw_model::{Distribution, SingleServer};
//! let service = Distribution::exponential(0.010).unwrap();
//! let writer = SingleServer { arrivals_per_second: 50.0, service };
//! let response = writer.response().unwrap();
//! assert!((response.mean() - 0.020).abs() < 1e-4);
//! // Half of the capacity is the knee: the mean response is twice the service time.
//! assert!((writer.knee() - 50.0).abs() < 0.1);
//! ```
#![deny(clippy::indexing_slicing)]

mod arrivals;
mod background;
mod collision;
mod cpu_quota;
mod distribution;
mod failure;
mod fork_join;
mod gossip;
mod group_commit;
mod lease_race;
mod littles_law;
mod number;
mod repair;
mod scalability;
mod segment_formation;
mod shared_servers;
mod single_server;
mod special;
mod write_limit;

#[cfg(test)]
mod oracle;

pub use arrivals::superposed_variation_squared;
pub use background::BackgroundShare;
pub use collision::Collision;
pub use cpu_quota::CpuQuota;
pub use distribution::{Distribution, DistributionError, HistogramError, SECONDS_MAX, SECONDS_MIN};
pub use failure::NodeFailures;
pub use fork_join::ForkJoin;
pub use gossip::{FailureDetection, Rumour};
pub use group_commit::{CommitCycle, GroupCommit, commits_per_second};
pub use lease_race::LeaseRace;
pub use littles_law::Flow;
pub use repair::RepairTime;
pub use scalability::{Estimate, ScalabilityError, ScalabilityFit, ScalabilityLaw};
pub use segment_formation::SegmentFormation;
pub use shared_servers::{SERVERS_MAX, SharedServers, processor_sharing_mean};
pub use single_server::SingleServer;
pub use write_limit::{LimitedWrites, WriteLimit};
