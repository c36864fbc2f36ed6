//! The identity of a process in a world.

/// A host from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId {
    pub(super) host: usize,
    pub(super) incarnation: u64,
}

/// The process with which a task or action ends; `None` if it belongs to no host.
pub(super) type Owner = Option<ProcessId>;
