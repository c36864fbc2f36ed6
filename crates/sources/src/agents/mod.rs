//! The agents that report to a node.

mod registry;

pub use registry::{AgentRegistry, KnownAgent};
pub(crate) use registry::AgentConnection;
