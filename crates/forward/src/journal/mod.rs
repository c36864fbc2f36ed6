//! Ships systemd's journal.
//!
//! ```text
//!   journalctl --follow --output=export ─► decoder ─► batches by stream ─► buffer on disk, with the cursor ─► send window
//! ```
//! `journalctl` reads the journal, because its format is that of the installed version. The agent starts it behind the
//! last entry that is in the buffer, and again after a pause when it ends. Entries become records as those of `/upload`
//! do (docs/senders/journald.md). An entry has the labels that it states, and those of the agent that it does not.
//!
//! The entries that arrive within [`Config::linger`](crate::Config::linger) enter the buffer together with the cursor of
//! the last one, all or none. So an agent that is killed neither repeats nor skips one. A full buffer stops reading, and
//! journalctl waits; the journal itself holds what follows.

mod event_packer;
mod journalctl;
mod reader;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub(crate) use reader::JournalReader;

/// Which entries of the journal are shipped.
#[derive(Clone, Debug, Default)]
pub struct JournalConfig {
    /// Only entries of these units; of all if there are none.
    pub units: Vec<String>,
    /// The directory of the journal; `None` is that of the system.
    pub directory: Option<PathBuf>,
    /// Whether the very first start passes over the entries that are there.
    pub skips_old_entries: bool,
}
