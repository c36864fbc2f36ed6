//! Random numbers.

use std::fmt::Debug;

/// A source of random numbers, good enough that ids do not collide. Not for secrets.
pub trait Entropy: Send + Sync + Debug {
    /// A random number.
    fn next_u64(&self) -> u64;
}
