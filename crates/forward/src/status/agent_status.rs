//! The state of an agent at one moment.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_kubernetes::KubernetesStatus;
use bucksaw_tailer::{FileState, Gap, TailerCounters};

use super::connection_tracker::ConnectionStatus;
use crate::lines::LineTotals;

/// An agent is not ready when no node has accepted a connection for this long.
pub(super) const UNACCEPTED_MAX: Duration = Duration::from_secs(30);

/// The state of an agent at one moment. Times are uptimes.
#[derive(Clone, Debug, Default)]
pub struct AgentStatus {
    /// When this was.
    pub now: Duration,
    /// Milliseconds since 1970, at the same moment.
    pub unix_ms: u64,
    /// How long the agent has run.
    pub running: Duration,
    /// The connection.
    pub connection: ConnectionStatus,
    /// Why the last connection failed.
    pub last_error: Option<String>,
    /// Batches in the send window.
    pub window_batches: usize,
    /// Their bytes.
    pub window_bytes: usize,
    /// The bytes above which the window takes no more.
    pub window_bytes_max: usize,
    /// How long the oldest unacknowledged batch has waited; zero if there is none.
    pub oldest_batch: Duration,
    /// Acknowledged records.
    pub acked_records: u64,
    /// The bytes of their text.
    pub acked_bytes: u64,
    /// Files, and the buffer on disk; `None` if a stream is shipped.
    pub files: Option<FilesStatus>,
}

/// The state of the files and listeners of an agent, and of its buffer.
#[derive(Clone, Debug, Default)]
pub struct FilesStatus {
    /// The number of followed files by state. Files that were read to their end for good are not counted.
    pub states: Vec<(FileState, u64)>,
    /// Bytes that are unread or unacknowledged, of all files. The incomplete lines at their ends do not count.
    pub lag_bytes: u64,
    /// The longest wait of such a byte.
    pub lag: Duration,
    /// The files with the longest wait, the longest first.
    pub slowest: Vec<FileLag>,
    /// Paths that are not read, with the reason, as of the newest scan.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Records that were read since the start.
    pub read_records: u64,
    /// The bytes of their text.
    pub read_bytes: u64,
    /// Records dropped because the buffer, or the queue of local listeners, was full, since the start.
    pub dropped_records: u64,
    /// Batches that could not be read back from the buffer, because it was damaged while the agent ran. Their lines are lost.
    pub damaged_batches: u64,
    /// What became of lines that were not shipped as they are.
    pub lines: LineTotals,
    /// Bytes of the buffer on disk from the first unacknowledged batch on; 0 if there is none.
    pub buffer_bytes: u64,
    /// Bytes of all its files. Acknowledged batches are removed with their file.
    pub buffer_disk_bytes: u64,
    /// The most bytes of these files.
    pub buffer_bytes_max: u64,
    /// Batches in it without an acknowledgement.
    pub buffer_batches: u64,
    /// Segments of the queue of local listeners without an acknowledgement.
    pub queue_segments: u64,
    /// The labels of pods; `None` if the agent does not watch them.
    pub pods: Option<PodLabelStatus>,
    /// Gaps and other events of the files since the start.
    pub counters: TailerCounters,
    /// The newest gaps, oldest first.
    pub newest_gaps: Vec<Gap>,
}

/// What was done with labels of pods, and the state of their source.
#[derive(Clone, Debug, Default)]
pub struct PodLabelStatus {
    /// The watch of the API server.
    pub watch: KubernetesStatus,
    /// Records that were read without the labels of their pod, since the start.
    pub unlabelled_records: u64,
    /// Files whose text waits for the labels of its pod.
    pub waiting_files: u64,
    /// Labels that pods have and their records lack, over the files that are read: they are too many or too long for labels of a
    /// stream, or differ from another one only in characters that such a label cannot have.
    pub left_out_labels: u64,
}

/// How far one file was read and acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLag {
    /// The path by which it was first found.
    pub path: PathBuf,
    /// The number of bytes read into the buffer; of the decompressed text if the file is compressed.
    pub position: u64,
    /// The number of acknowledged bytes, or somewhat less while many batches wait. After a restart those that the former run left
    /// in the buffer count as acknowledged.
    pub acked: u64,
    /// The length of the file, as far as it was seen.
    pub size: u64,
    /// Bytes that are unread or unacknowledged, without the incomplete line at its end.
    pub lag_bytes: u64,
    /// How long the oldest of them has waited since the agent first saw it, or somewhat longer.
    pub lag: Duration,
    /// What the agent does with it.
    pub state: FileState,
}

impl AgentStatus {
    /// How long no node has accepted a connection; zero while one does.
    pub fn unaccepted(&self) -> Duration {
        match self.connection.address {
            Some(_) => Duration::ZERO,
            None => self.now.saturating_sub(self.connection.since),
        }
    }

    /// Whether a node accepts, or did so a moment ago.
    pub fn is_ready(&self) -> bool {
        self.connection.connections > 0 && self.unaccepted() < UNACCEPTED_MAX
    }
}

impl FilesStatus {
    /// The number of followed files.
    pub fn files(&self) -> u64 {
        self.states.iter().map(|(_, files)| files).sum()
    }
}
