//! The whole reading side, from files to the send window, against a model of a node, on a simulated disk and clock.

mod agent_machine;
mod gaps;
mod idle;
mod injected_bug;
mod log_files;
pub(crate) mod model_node;
mod random;
