//! Queues of simulated clusters against the closed formulas of `bucksaw-model`, with calibrated times of gathers and syncs.
//!
//! ```text
//!   appends ──► ingest nodes ── sealed segments ──► stores ──► committed
//!   Poisson      8 appends make    pending until       one segment
//!                a segment         a store leases it   per gather
//! ```
//! A third of the nodes accepts records and the others store them. So every fetch is a call, which can be counted, and the time of
//! a gather is not mixed with the syncs of an ingest node.
//!
//! A simulated segment of 4 KB stands for a full default batch of 128 MiB, and a gather takes the time of such a batch on one
//! core. The stores are set to gather one segment at a time, without replicas, merges and repair: that is what the formulas are
//! about. There are no faults.

mod calibration;
mod figures;
mod lease_observer;
mod load;
mod prediction;
mod report;
mod steady_run;
#[cfg(test)]
mod tests;

pub use load::QueueingLoad;
pub use report::QueueingReport;
