//! The state of the disk between two checks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::halt_reason::HaltReason;

/// The state of the disk. No lock is held over disk I/O.
#[derive(Debug, Default)]
pub(crate) struct HaltState {
    /// Why nothing is accepted, by the last check.
    pub(crate) halt: Mutex<Option<HaltReason>>,
    /// Whether `halt` has a reason, and whether it is [`HaltReason::DiskFull`]; read for each chunk.
    pub(crate) is_halted: AtomicBool,
    pub(crate) is_full: AtomicBool,
    /// A reason from outside the queue.
    pub(crate) external_halt: Mutex<Option<HaltReason>>,
    /// Bytes that may be appended before the next check, so that fast clients do not use up the reserve between two checks.
    pub(crate) free_bytes: AtomicU64,
    /// The last failed write; `None` while writes succeed.
    pub(crate) write_failure: Mutex<Option<WriteFailure>>,
    /// Whether the last log line reported a halt.
    pub(crate) is_halt_logged: AtomicBool,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteFailure {
    /// The uptime of the failure, or of the last probe since.
    pub(crate) at: Duration,
    pub(crate) reason: HaltReason,
}
