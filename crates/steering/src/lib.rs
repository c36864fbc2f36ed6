//! Client steering: which clients a node accepts, redirects, refuses or disconnects, and how a sender follows.
//!
//! No node assigns clients to others. Each ingest node compares its own load with the loads that the others publish by gossip,
//! and offers its own clients to less loaded nodes. The crate only decides: it has no I/O and no tasks, and receives time,
//! loads and random numbers from its callers.
//!
//! ```text
//!   once a second (node)                                per client (sources, api)              in the sender (forward)
//!
//!   LoadSample ──► LoadController ─► NodeLoad ─► gossip
//!   IngestPeer ──►   │ Rebalancer
//!   (from gossip)    ├─► RedirectPolicy ─► LoadShedder ─► accept, suggest, refuse, ──► AddressSelector
//!                    └─► redirect budget ─►    ▲          disconnect, with targets
//!                                          ClientRate
//! ```
//!
//! # What is measured
//!
//! - The ingest rate of a node: accepted bytes per second, moving a quarter of the way each second. Nodes publish it, with
//!   their connections and their load level.
//! - The smoothed load of each node: its rate, moving a sixteenth of the way each second, so that a burst counts little.
//! - Distress of a node ([`LoadSample`]): refused appends, the age of the oldest pending segment, free disk space.
//! - The rate of each connected client ([`ClientRate`]).
//!
//! # What is decided
//!
//! The *load level*, 0 idle to 3 overloaded, is that of the worst measurement; the table is in `level`.
//!
//! *Rebalancing* moves connected clients between nodes of any level. It begins when a node has exceeded another one's smoothed
//! load by half of the mean rate for 5 s, and ends at a quarter. Every 10 s the node may redirect clients whose rates sum up to
//! half of its excess over the mean rate: the redirect budget. A node whose level is 1 or higher has a budget even without such a
//! difference.
//!
//! | level | new framed clients | connected framed clients | lines over TCP | HTTP |
//! | --- | --- | --- | --- | --- |
//! | 0 idle | accepted | within the budget: suggestion | accepted | within the budget: redirect header |
//! | 1 busy | suggestion | the same | accepted | the same |
//! | 2 very busy | refused | the same | accepted | redirect header |
//! | 3 overloaded | refused | within the budget: disconnected | new ones closed | refused with a redirect header |
//!
//! A node refuses, closes and disconnects only while it is within the *refusal quota*; otherwise it suggests. A node that stops
//! names failover targets to all of its clients.
//!
//! A sender tries redirect targets once and in order, then its configured addresses. It ejects an address that failed or
//! refused for 5 s, doubling up to 60 s.
//!
//! # Stability
//!
//! No oscillation:
//! - A level rises after 3 s and falls after 15 s, and is held down to three quarters of its bounds.
//! - A client moves only if its rate is at most five eighths of the difference between the two nodes. After the move, the
//!   difference is at most a quarter of that in the other direction, which is too little to move it back.
//! - A budget is half of the excess, and the next one follows 10 s later, when the effect is visible.
//! - A client gets one suggestion per minute ([`SUGGESTION_INTERVAL_MIN`]), and a sender that moved ignores suggestions for a minute.
//!
//! No herd:
//! - A redirect costs at least the mean client rate of the budget. A client that exceeds the rest of the budget moves with the
//!   probability of its share, so that many nodes with one spare client each do not all move it.
//! - Connected clients are checked at random intervals ([`jittered`]).
//! - Targets are at most three, in random order, weighted by spare capacity.
//! - A sender follows at most four redirects in sequence.
//!
//! No refusal without need:
//! - At most a third of the ingest nodes refuse at once, the most loaded ones, each after 3 s within the quota. Every node
//!   computes the quota from the same published loads.
//! - A client is refused or disconnected only if a node of a lower level listens on the same kind of port. If all nodes are
//!   overloaded, all accept.
#![deny(clippy::indexing_slicing)]

mod address_selector;
mod client_network;
mod client_rate;
mod controller;
mod level;
mod metrics;
mod policy;
mod rebalancer;
mod shedder;
mod token_bucket;

pub use address_selector::AddressSelector;
pub use client_network::client_network;
pub use client_rate::{ClientRate, SUGGESTION_INTERVAL_MIN, jittered};
pub use controller::{BUSY_BYTES_PER_SECOND_DEFAULT, LoadController};
pub use level::LoadSample;
pub use metrics::Metrics;
pub use policy::{IngestPeer, ListenerKind, NodeLoad, RedirectDecision, RedirectKind, RedirectPolicy};
pub use rebalancer::BUSY_FRACTION;
pub use shedder::LoadShedder;

#[cfg(test)]
mod tests;
