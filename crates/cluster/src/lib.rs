//! Who is there, how they are, and how to call them.

mod actor;
mod cluster;
mod codec;
mod config;
mod entry;
mod exchange;
mod facts;
mod gossip;
mod identity;
mod keep;
mod member;
mod metrics;
mod packet;
mod pick;
mod reach;
mod router;
mod table;
mod text;
mod timers;

pub use cluster::{Cluster, ForgetError, JSON_BYTES_MAX};
pub use config::Config;
pub use facts::{ADDRESS_BYTES_MAX, Clients, Facts, Held, Load, PROTOCOL, Roles};
pub use member::{Member, State};
pub use metrics::Metrics;
pub use packet::is_packet;
pub use router::{Handler, Router};
