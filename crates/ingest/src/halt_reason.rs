//! Why the queue accepts no records.

use std::io;

use bucksaw_env::Shortage;

use crate::append::IngestError;
use crate::stall::STALL_MAX;

/// Why nothing is accepted. Each reason ends with its cause, without a restart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum HaltReason {
    /// The disk is full, or nearly.
    #[error("the disk is full")]
    DiskFull,
    /// The process or the machine has no file descriptor left.
    #[error("no file descriptor is left: raise the limit of open files")]
    Descriptors,
    /// A write or a sync failed with this error.
    #[error("the queue's files cannot be written: {0}")]
    Failing(String),
    /// A write or a sync has not returned for [`Queue::STALL_MAX`](crate::Queue::STALL_MAX).
    #[error("the disk has not answered for {} s", STALL_MAX.as_secs())]
    Stalled,
    /// Too many segments wait for stores.
    #[error("the queue has too many pending segments")]
    QueueFull,
    /// The index of stored segments takes this number of bytes, which is its limit.
    #[error(
        "the index of stored segments takes all of the {:.1} MB that the memory limit allows: raise --memory-limit, or lower \
         --retention-bytes or --retention-age",
        megabytes(.0)
    )]
    #[strum(serialize = "store_index")]
    StoreIndexFull(u64),
}

impl HaltReason {
    /// The reason for an error of the operating system.
    pub(crate) fn of(error: &io::Error) -> Self {
        match Shortage::from_error(error) {
            Some(Shortage::Space) => Self::DiskFull,
            Some(Shortage::Descriptors) => Self::Descriptors,
            None => Self::Failing(error.to_string()),
        }
    }

    /// The value of the label `reason` in metrics.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

/// A number of bytes in MB.
fn megabytes(bytes: &u64) -> f64 {
    *bytes as f64 / f64::from(1 << 20)
}

impl From<HaltReason> for IngestError {
    fn from(halt: HaltReason) -> Self {
        match halt {
            HaltReason::DiskFull => Self::DiskFull,
            HaltReason::QueueFull => Self::QueueFull,
            HaltReason::Failing(error) => Self::Io(error),
            halt => Self::Io(halt.to_string()),
        }
    }
}
