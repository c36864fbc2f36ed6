//! The ground floor: everything that is not deterministic comes in through here.
//!
//! Files, time, randomness, tasks and the network between nodes are traits. [`real`] has the bodies that a node runs on;
//! [`sim`] has a file system that knows live bytes from durable ones and can lose power, a clock that stands still until
//! told otherwise, a seeded source of randomness, and, made of these, whole worlds of nodes under virtual time, with all
//! the faults that one can think of ([`sim::World`]). Code above this floor takes [`Doors`], [`Tasks`] and [`Net`] in its
//! constructors and never asks the operating system itself, which is what makes crash tests and simulation possible at
//! all; `clippy.toml` bans the ways around it.
//! told otherwise, and a seeded source of randomness. Code above this floor takes [`Doors`] in its constructors and never
//! asks the operating system itself, which is what makes crash tests and simulation possible at all; `clippy.toml` bans the
//! ways around it.
//!
//! What it does not do: it knows nothing of records, segments or formats.
//!
//! ```
//! use bucksaw_env::{Clock, sim};
//! let clock = sim::Clock::at(1_000);
//! clock.advance(std::time::Duration::from_millis(5));
//! assert_eq!(clock.unix_ms(), 1_005);
//! ```

pub mod backed_up_file;
mod body;
mod clock;
mod entropy;
mod fs;
mod log_rate_limiter;
mod net;
pub mod real;
mod replace;
mod shortage;
pub mod sim;
mod tasks;

use std::sync::Arc;

pub use body::{Body, BodyClosed, BodyWriter};
pub use clock::Clock;
pub use entropy::Entropy;
pub use fs::{File, FileLock, Fs, Space};
pub use log_rate_limiter::LogRateLimiter;
pub use net::{DATAGRAM_BYTES_MAX, IncomingCall, Net, Reply};
pub use replace::replace;
pub use shortage::Shortage;
pub use tasks::{BoxFuture, Tasks, run_blocking, run_blocking_low_priority, with_timeout};

/// The doors that a node was given, cheap to clone and hand on.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Env {
    /// The doors of the machine that this process runs on.
    #[must_use]
    pub fn real() -> Self {
        Self { fs: Arc::new(real::Fs), clock: Arc::new(real::Clock::new()), entropy: Arc::new(real::Entropy::new()) }
    }
}
