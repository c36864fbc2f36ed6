//! Ships what local listeners have taken: from the agent's queue to the send window.
//!
//! ```text
//!   listeners ─► queue in the state directory ─► segments ─► send window ─► connection
//!                            ▲                                   │
//!                            └──────── committed: removed ◄──────┘ acknowledged
//! ```
//! The listeners are those of a node, and they append to a queue of the same format. A sender that gets an
//! acknowledgement has its records in that queue. The frames of its segments become batches with the same ids, times,
//! attributes and text, as soon as they are appended: from memory, or from the file if they had to wait. A segment is
//! committed when it is closed and the node has acknowledged all of its batches, so an agent that was killed sends it
//! again, and answers contain each record once.
//!
//! Segments are closed after [`SEGMENT_AGE`], so that files are rarely created, renamed and removed. With a backlog they are
//! closed by size only, so that an agent whose node is away has few files.

mod bytes_limit;
mod runner;
mod segment_batches;
mod shipper;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::Queue;

pub(crate) use runner::QueueRunner;

use crate::WhenFull;

/// The age at which segments are closed, and so how much of what was acknowledged is sent again after a kill.
const SEGMENT_AGE: Duration = Duration::from_secs(3);

/// The smallest and the largest size at which segments are closed, in bytes.
const SEGMENT_BYTES: (u64, u64) = (256 << 10, 16 << 20);

/// Memory for frames that are not yet in the send window, in bytes.
const RECENT_BYTES: usize = 512 << 10;

/// The number of segments into which a full queue is divided.
const SEGMENTS: u64 = 32;

/// The queue of local listeners.
pub struct QueueInput {
    /// The queue, opened with [`queue_config`].
    pub queue: Arc<Queue>,
    /// The most bytes of records that wait in it.
    pub bytes_max: u64,
    /// What happens then. `Block` refuses records, by the means of each protocol.
    pub when_full: WhenFull,
    /// Resolves when the listeners have ended. They end at the stop of the agent.
    pub listeners: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The settings of a queue from which an agent ships at most this number of waiting bytes.
pub fn queue_config(bytes_max: u64) -> bucksaw_ingest::Config {
    let (lower, upper) = SEGMENT_BYTES;
    bucksaw_ingest::Config {
        segment_bytes_max: (bytes_max / SEGMENTS).clamp(lower, upper),
        segment_age_max: SEGMENT_AGE,
        // An agent has little traffic, and no queries that read what was shipped.
        fast_slots: 1,
        committed_grace: Duration::ZERO,
        committed_segments_max: 0,
        recent_bytes_max: RECENT_BYTES,
        ..bucksaw_ingest::Config::default()
    }
}
