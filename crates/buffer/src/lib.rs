//! The agent's buffer on disk: batches that no node has acknowledged yet, and how far their source was read.
//!
//! ```text
//!   <dir>/0000000000000000.buffer   snapshot, batch 0, batch 1, …        all acknowledged: removed
//!   <dir>/00000000000004d2.buffer   snapshot, batch 1234, …              read: sent, not acknowledged
//!   <dir>/0000000000000929.buffer   snapshot, batch 2345, …  ◄── append
//! ```
//! A batch is stored in one write together with the state of its source after it. So a process that is killed knows
//! either both or neither: a restart sends unacknowledged batches again with the same bytes and ids, and continues
//! behind them. Each file begins with a snapshot of the whole state, so older files are needed for their batches only.
//!
//! Batches are not synced. After a power cut, some of the newest may be missing while later ones exist. Then the state is
//! that before the first missing batch: the source is read again from there, and lines may be sent twice, but none is
//! lost. Damaged batches are handled in the same way, and counted. The caller saves this state at once
//! ([`DiskBuffer::is_save_due`]), together with which batches were missing, so that a later start reads on from there.
//!
//! State and labels are opaque here. [`entry`] has the format.
//!
//! ```
//! use bucksaw_buffer::{Config, DiskBuffer, NewBatch};
//! use bucksaw_env::sim;
//! let fs = sim::Fs::new();
//! let (mut buffer, _) = DiskBuffer::open(std::sync::Arc::new(fs), "/buffer".as_ref(), Config::default())?;
//! let batch = NewBatch { state: b"offset 9", labels: b"app=web", frame: b"a line", records: 1 };
//! buffer.append(&batch, || b"offset 0".to_vec())?;
//! assert_eq!(buffer.read_next()?.map(|batch| batch.frame), Some(b"a line".to_vec()));
//! buffer.ack(1);
//! assert_eq!(buffer.unacked_batches(), 0);
//! # Ok::<(), bucksaw_buffer::BufferError>(())
//! ```
#![deny(clippy::indexing_slicing)]

mod buffer_file;
mod disk_buffer;
pub mod entry;
mod error;
mod recovery;
mod rewind;
#[cfg(test)]
mod tests;
mod unacked_bytes;

pub use disk_buffer::{BufferedBatch, Config, DiskBuffer, DroppedBatches, NewBatch};
pub use error::BufferError;
pub use recovery::BufferRecovery;
