//! Batches with an idempotency key: a retry gets the ids of the first attempt, and another body with the same key is refused.
//!
//! A batch is split into sections by its content alone. The producer of a section is a hash of the key, of the batch's time and
//! of its content up to the section's end. So equal bodies with one key and time have equal ids, and the ids of different
//! bodies differ from the first different section on. Section `n` has the time of the batch plus `n` ms, which keeps the order
//! of the body. Its first sequence number is 0 for the first section, and then [`Producer::next_section_sequence`] of the
//! section before it, by which a line that is cut between sections can be reassembled.
//!
//! The time of a batch is that of its key if the key has a valid one; then all nodes assign the same ids. Otherwise it is the
//! time of the first attempt, which only the node that received it knows.
//!
//! A node remembers the key, the time and the producers of the sections, in memory and in a file of the queue ([`log`]). A
//! section whose producer differs from the remembered one is refused before any of it is stored.
//!
//! A hash collision would make two records one. XXH3 is not cryptographic, but a malicious client could as well send other
//! records with these ids by the framed protocol.
//!
//! [`Producer::next_section_sequence`]: bucksaw_record::Producer::next_section_sequence

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
