//! The state of an agent, as a program, a person and Prometheus ask for it.
//!
//! Nothing is counted for it that the agent does not need itself, except when bytes of files were first seen: an agent without
//! such clients does no work for it.

mod agent_info;
mod agent_status;
mod connection_tracker;
mod json;
mod listener;
mod metrics;
mod monitor;
mod server;

pub use agent_info::AgentInfo;
pub use agent_status::{AgentStatus, FileLag, FilesStatus, PodLabelStatus};
pub use connection_tracker::ConnectionStatus;
pub(crate) use connection_tracker::ConnectionTracker;
pub use monitor::AgentMonitor;
pub(crate) use monitor::WatchedFiles;
pub use server::{serve_metrics, serve_status};
