//! Cluster membership: which nodes are live, their facts, and calls to them. It carries no records.
//!
//! Nodes find each other by gossip: no leader, no registration, no consensus. Each acts on its own view, and the views of two
//! nodes differ for a moment. Three mechanisms complement each other:
//!
//! ```text
//!   every 0.5 s                 when facts change               every 5 s, and at a join
//!   failure detection           (at most once a second)         digest exchange
//!
//!   A ── ping ──────► B         A ── facts of A ──► B           A ══ call cluster/exchange ══► B
//!   A ◄── ack ─────── B         A ── facts of A ──► C             all entries of A
//!      none in 0.2 s:           A ── facts of A ──► D           A ◄═════════════════════════ B
//!   A ── ping B! ──► C, D, E    …                                 all entries of B
//!      none either:
//!   B is suspect; gossip        one datagram to each,           the newest wins, by incarnation
//!   spreads that, B may         64 at most; lost ones are       and version: restores lost facts,
//!   refute; after 2 s B is down replaced by exchanges           down members, departures
//! ```
//!
//! - *Failure detection* is SWIM by the crate foca, driven by one task ([`Cluster::start`]). It alone decides which members are
//!   live. A node that suspects another also sends it a suspicion notice, so that it can refute (`suspicion`). On a local
//!   network a crash is usually known everywhere within three seconds, and rarely later than five. Down members are probed
//!   every second, so that the halves of a partitioned cluster merge within seconds. An isolated node tries all known members
//!   and `--join` for ever.
//! - *[`Facts`]* are small and of constant size, so they are always sent as a whole, in any order and without a backlog.
//! - *The member table* keeps down [`Member`]s until they return, leave, are forgotten, or [`Config::remember_for`] is over.
//!   Left and forgotten members are kept as tombstones for the same time. The table is persisted in `members.json`, so that a
//!   node finds its peers without `--join` after a restart, and knows which ones are missing.
//!
//! A process is identified by node id, address and *incarnation*, which rises with each start. The highest incarnation replaces
//! the others, so a restart or a move needs no agreement. A node that was wrongly declared dead raises its incarnation. Two live
//! processes have one node id only if a data directory was copied. [`Member::duplicate_suspected_at`] reports both at once, so
//! that no answer is complete, and [`Member::duplicate_at`] after the time that a move takes. A node that starts while another
//! process runs with its id is refused ([`Cluster::join_state`]).
//!
//! Invariants:
//! - Only what is displayed, and the order of incarnations, depends on the wall clock. If a clock was set back, the node learns
//!   its earlier incarnation from its peers and continues above it.
//! - All received bytes are checked before foca or the table sees them. The table has at most a thousand members.
//! - Packets of another [`PROTOCOL`] are ignored, counted and reported ([`Cluster::incompatible_peers`]). Unknown fields and
//!   kinds are ignored, and missing fields have defaults, so compatible versions work together: see [`ClusterVersion`].
//! - Equal seeds give equal packets: time and randomness come from the environment, and nothing depends on hash order.
//!
//! The crate does not encrypt, which the network does, and does not decide which nodes to query or whether an answer is
//! complete.

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
mod golden_tests;
mod gossip;
mod identity;
mod incompatible;
mod join_state;
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

pub use cluster::Cluster;
pub use config::Config;
pub use facts::{ADDRESS_BYTES_MAX, Clients, DataSummary, Facts, Load, RE_REPLICATED_MAX, Roles};
pub use incompatible::IncompatiblePeer;
pub use join_state::JoinState;
pub use member::{Member, MemberState};
pub use metrics::Metrics;
pub use packet::is_packet;
pub use router::Router;
pub use table::ForgetError;
pub use version::{ClusterVersion, Format, Formats, PROTOCOL};
