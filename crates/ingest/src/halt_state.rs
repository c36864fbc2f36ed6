//! What the queue remembers of the disk between two checks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bucksaw_env::LogRateLimiter;

use crate::halt_reason::HaltReason;

/// What is known of the disk. No lock is held over disk I/O.
#[derive(Debug, Default)]
pub(crate) struct HaltState {
    /// Why nothing is accepted, as the last look found.
    pub(crate) halt: Mutex<Option<HaltReason>>,
    /// Whether there is such a reason, and whether it is [`Halt::Full`]: for those who ask for each chunk.
    pub(crate) is_halted: AtomicBool,
    pub(crate) is_full: AtomicBool,
    /// Why the rest of the node wants nothing to be accepted.
    pub(crate) external_halt: Mutex<Option<HaltReason>>,
    /// Bytes that may be appended before the disk is looked at again: the reserve is kept however fast records come.
    pub(crate) free_bytes: AtomicU64,
    /// The last failure of the operating system; `None` when it writes.
    pub(crate) write_failure: Mutex<Option<WriteFailure>>,
    pub(crate) halt_log: HaltLog,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteFailure {
    /// The uptime of the failure, or of the last try since.
    pub(crate) at: Duration,
    pub(crate) why: HaltReason,
}

/// The state changes often while the store makes room and clients take it again.
#[derive(Debug, Default)]
pub(crate) struct HaltLog {
    pub(crate) full: LogRateLimiter,
    pub(crate) others: LogRateLimiter,
    /// Whether the last line said that nothing is accepted.
    pub(crate) halted: AtomicBool,
}
