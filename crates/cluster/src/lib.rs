//! Who is there, how they are, and how to call them. It carries no records.
//!
//! Nodes know each other by gossip alone: no leader, no registration, no consensus. Each acts on what it knows itself, and what
//! two nodes know differs for a moment. Three things go on, of which each does what the others cannot:
//!
//! ```text
//!   every 0.5 s                 when facts change               every 5 s, and at a join
//!   is it there?                (at most once a second)         all that is known
//!
//!   A ── ping ──────► B         A ── facts of A ──► B           A ══ call cluster/exchange ══► B
//!   A ◄── ack ─────── B         A ── facts of A ──► C             all entries of A
//!      none in 0.2 s:           A ── facts of A ──► D           A ◄═════════════════════════ B
//!   A ── ping B! ──► C, D, E    …                                 all entries of B
//!      none either:
//!   B is suspect; rumour says   one datagram to each,           the newest wins, by incarnation
//!   so, and B may contradict;   64 at most; what is lost        and version: brings lost facts,
//!   after 2 s B is down         comes by the comparison         those who are down, goodbyes
//! ```
//!
//! - *Probes and rumours* are SWIM by the crate foca, fed by one task ([`Cluster::start`]). It alone decides who is alive.
//!   Whoever suspects a node says so to its face, too, so that it surely hears of it and contradicts (`doubt`).
//!   A crash is known everywhere after three seconds mostly, and hardly ever after more than five, on a local network. Who is down is tried each second, so that halves of a
//!   cluster that were parted find each other within seconds; who is alone tries everyone it knows, and `--join`, for ever.
//! - *[`Facts`]* are small and of constant size. That is what lets them be told whole and at once: there is no state to catch up
//!   with, no backlog, and no order in which they must arrive.
//! - *The list* holds [`Member`]s that are down until they come back, said goodbye, are forgotten, or `remember` is over.
//!   Goodbyes and the forgotten are tombstones for as long, so nobody brings them back. It survives restarts in
//!   `members.json`, so that a node finds the others without `--join`, and knows who is missing.
//!
//! A node is its id, its address and its *incarnation*, which is higher at each start. The highest takes the place of the
//! others: a restart or a move needs nobody's consent. A node that was wrongly taken for dead goes on under the next one. Two
//! live nodes have one id only when a data directory was copied. [`Member::also_at`] names both from the first moment, so that
//! no answer counts as complete, and [`Member::twin`] when neither is a node that has just moved. A node that starts
//! while another process runs with its id is refused ([`Cluster::place`]).
//!
//! Invariants:
//! - Nothing here depends on the wall clock but what is shown, and which of two incarnations is later; and where a clock was set
//!   back, a node learns of its earlier incarnation and goes on in one after it.
//! - Every byte from outside is checked before foca or the list sees it. The list has at most a thousand nodes besides this one.
//! - Packets of another [`PROTOCOL`] are passed over, counted and told of ([`Cluster::strangers`]); fields and kinds that are not
//!   known are passed over; missing ones have defaults. So neighbouring versions understand each other: see [`Version`].
//! - The same seed gives the same packets: randomness and time come by the environment, and nothing depends on the order of a hash.
//!
//! What it does not do: it encrypts nothing (the network's body does), and it decides nothing for the floors above: not whom to
//! ask, nor when an answer is complete.

mod actor;
mod bootstrap;
mod cluster;
mod codec;
mod compatibility;
mod config;
mod entry;
mod exchange;
mod exchange_schedule;
mod facts;
#[cfg(test)]
mod golden;
mod gossip;
mod identity;
mod incompatible;
mod join_state;
mod json_text;
mod member;
mod member_file;
mod metrics;
mod packet;
mod router;
mod sampling;
mod suspicion;
mod table;
mod timers;
mod version;

pub use cluster::{Cluster, JSON_BYTES_MAX};
pub use config::Config;
pub use facts::{ADDRESS_BYTES_MAX, Clients, DataSummary, Facts, Load, RE_REPLICATED_MAX, Roles};
pub use incompatible::IncompatiblePeer;
pub use join_state::JoinState;
pub use member::{Member, MemberState};
pub use metrics::Metrics;
pub use packet::is_packet;
pub use router::{Handler, Router};
pub use table::ForgetError;
pub use version::{Format, Formats, PROTOCOL, Version};
