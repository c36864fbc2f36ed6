//! Ships files as they grow: from the tailer through the buffer on disk to the send window.
//!
//! ```text
//!   watcher ─► tailer ─► packer ─► buffer on disk ─► send window ─► connection
//!                                       ▲                │
//!                                       └── acknowledged ┘
//! ```
//! One thread does everything up to the send window. A batch enters the buffer together with the position in its file
//! after it, so a process that is killed sends nothing twice under other ids and passes over nothing.
//! While no node takes records, batches wait in the buffer. A full buffer stops reading, so that the files themselves hold
//! what follows, or drops its oldest batches ([`WhenFull`]).

mod acked_offsets;
mod agent_id;
mod collector;
mod config;
mod driver;
mod entry_batches;
mod file_stream;
mod pod_labeler;
mod pod_labels;
mod positions;
mod run;
mod shared;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod watcher;

pub use collector::Backlog;
pub(crate) use collector::Collector;
pub use config::{FilesConfig, PodLabelConfig, WhenFull};
pub use pod_labels::PodLabelChoice;
pub use run::{OtherInputs, lock_state, run_files};
pub(crate) use shared::SharedCollector;
