//! The settings of a tailer.

use std::time::Duration;

use crate::pattern::PathPattern;

/// Where the first scan of the very first start begins to read the files that it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At their first byte.
    #[default]
    Start,
    /// After their last line end. Files that appear later are read from the start.
    End,
}

/// The settings of a [`crate::Tailer`].
#[derive(Clone, Debug)]
pub struct TailerConfig {
    /// Which files are followed.
    pub patterns: Vec<PathPattern>,
    /// Which of them are not. A pattern without `/` applies to the file name.
    pub excluded: Vec<PathPattern>,
    /// Where reading starts at the first start.
    pub read_from: ReadFrom,
    /// The longest text that is delivered at once, and so the longest line that is kept while it is incomplete. At this
    /// length the sink must consume a part.
    pub pending_bytes_max: usize,
    /// Limits the incomplete lines that are kept in memory, of all files together. Lines beyond are read from the file again.
    pub pending_bytes_total_max: usize,
    /// The bytes that one file delivers in one turn.
    pub read_bytes: usize,
    /// An incomplete line is delivered once more when it has not grown for this time.
    pub flush_after: Duration,
    /// A file that has not grown for this time becomes idle.
    pub idle_after: Duration,
    /// The handle of an idle file is closed after this time. The file is opened again when it grows.
    pub close_idle_after: Duration,
    /// A renamed file ends when it has not grown for this time.
    pub close_renamed_after: Duration,
    /// A deleted file ends when it has not grown for this time. Until then its handle holds the disk space.
    pub close_deleted_after: Duration,
    /// The most bytes that are decompressed of one compressed file.
    pub unpacked_bytes_max: u64,
    /// The most files that a scan takes from the patterns; the rest is counted and not read.
    pub files_max: usize,
}

impl Default for TailerConfig {
    fn default() -> Self {
        Self {
            patterns: Vec::new(),
            excluded: Vec::new(),
            read_from: ReadFrom::Start,
            pending_bytes_max: 1 << 20,
            pending_bytes_total_max: 64 << 20,
            read_bytes: 256 << 10,
            flush_after: Duration::from_secs(5),
            idle_after: Duration::from_secs(2),
            close_idle_after: Duration::from_secs(3_600),
            close_renamed_after: Duration::from_secs(300),
            close_deleted_after: Duration::from_secs(600),
            unpacked_bytes_max: 64 << 30,
            files_max: 100_000,
        }
    }
}
