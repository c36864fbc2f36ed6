//! Batches with a key: a retry gets the ids that the first try had, and another body under the same key is refused.
//!
//! A batch is cut into sections by its content alone. Each section has a producer of its own, a hash of the key, of the
//! batch's time and of all that the batch holds up to its end. So the same body under the
//! same key and time has the same ids, and two bodies that differ have different ids from the first section that differs.
//! Section `n` has the time of the batch plus `n` ms, which keeps the order of the body. The numbers of its records begin with
//! [`Producer::next_section`] of the section before it, of the first with 0, so that a line that is cut between sections can be
//! put together again.
//!
//! The time of a batch is that of its key, if the key carries one that can be right: then all nodes number it alike. Else it
//! is that of the first try, and only the node that took it knows it.
//!
//! A node remembers the key, the time and the producers of the sections. A section that has another producer than the
//! remembered one is refused before anything of it is stored. What is remembered is in the queue's directory too ([`log`]).
//!
//! A collision of hashes would make two records one. XXH3 is no cryptographic hash: a client that wants to harm a batch could
//! as well send other records under its ids by the framed protocol.

mod assign;
mod batch;
mod entry;
mod log;
mod remembered;
mod scan;
mod table;

pub use batch::IdempotentBatch;
pub(crate) use remembered::IdempotencyKeys;
pub use scan::KeyFileReport;
pub(crate) use scan::check;

#[cfg(test)]
mod tests;
