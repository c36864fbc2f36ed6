//! Who is there, how they are, and how to call them.

mod cluster;
mod config;
mod facts;
mod member;
mod metrics;
mod pick;
mod router;
mod text;

pub use cluster::{Cluster, ForgetError, JSON_BYTES_MAX};
pub use config::Config;
pub use facts::{ADDRESS_BYTES_MAX, Clients, Facts, Held, Load, PROTOCOL, Roles};
pub use member::{Member, State};
pub use metrics::Metrics;
pub use router::{Handler, Router};
