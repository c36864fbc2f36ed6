//! Randomness.

use std::fmt::Debug;

/// Makes random numbers: good enough that ids do not collide, not for secrets.
pub trait Entropy: Send + Sync + Debug {
    /// A random number.
    fn next_u64(&self) -> u64;
}
