//! The agents that report to a node.

mod registry;

pub(crate) use registry::AgentConnection;
pub use registry::{AgentRegistry, KnownAgent};
