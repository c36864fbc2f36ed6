//! The environment of a node: files, time, random numbers, tasks and the network between nodes, as traits.
//!
//! [`real`] implements them on the operating system. [`sim`] implements them under one seed: a file system that
//! distinguishes written from durable bytes and can lose power, and a clock that tests advance. [`sim::World`] has
//! hosts under virtual time with injected faults. Code above this crate receives [`Env`], [`Tasks`] and [`Net`] in its
//! constructors, and never calls the operating system itself. So it can be simulated, and tested under crashes.
//! `clippy.toml` bans direct calls.
//!
//! ```
//! use bucksaw_env::{Clock, sim};
//! let clock = sim::Clock::at_unix_ms(1_000);
//! clock.advance(std::time::Duration::from_millis(5));
//! assert_eq!(clock.unix_ms(), 1_005);
//! ```

pub mod backed_up_file;
mod body;
mod clock;
mod encryption;
mod entropy;
mod fs;
mod gauge_guard;
mod lock;
mod log_rate_limiter;
mod metrics;
mod net;
pub mod real;
mod reloads;
mod shortage;
pub mod sim;
mod small_file;
mod tasks;

use std::sync::Arc;

pub use body::{Body, BodyClosed, BodyWriter};
pub use clock::{Clock, to_millis};
pub use encryption::{ENCRYPTION_OVERHEAD, FileCipher, FileKeys, KeyId};
pub use entropy::Entropy;
pub use fs::{DirEntry, EntryKind, File, FileIdentity, FileLock, FileStat, Fs, Space};
pub use gauge_guard::GaugeGuard;
pub use lock::lock;
pub use log_rate_limiter::{LogLimits, LogRateLimiter};
pub use metrics::{MetricLabel, create_series, set_gauge};
pub use net::{DATAGRAM_BYTES_MAX, IncomingCall, Net, Reply};
pub use reloads::{FailedReload, Reload, Reloads};
pub use shortage::Shortage;
pub use small_file::{file_name, read_file, replace};
pub use tasks::{BoxFuture, Tasks, run_blocking, run_blocking_low_priority, run_task, wait_for_stop, with_timeout};

/// Files, time and random numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub entropy: Arc<dyn Entropy>,
}

impl Env {
    /// The environment of this process: the operating system.
    pub fn real() -> Self {
        Self {
            fs: Arc::new(real::Fs),
            clock: Arc::new(real::Clock::default()),
            entropy: Arc::new(real::Entropy::default()),
        }
    }
}
