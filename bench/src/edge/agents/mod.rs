//! The agents that are measured, and how each is started.
//!
//! All read lines in the form of Docker's `json-file` and decode them, unless they are named `-raw`. What they deliver to is
//! part of their name: a node of Bucksaw, or nothing (`null`).

mod agent_process;
mod agent_start;
mod bucksaw;
mod collector;
mod edge_agent;
mod fluent_bit;
mod promtail;
mod rsyslog;

pub(super) use agent_process::{AgentProcess, free_port};
pub(super) use agent_start::AgentStart;
pub(super) use edge_agent::{EdgeAgent, ProgramPath, PushProtocol};
