//! What was not delivered, and other events, counted.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;

/// The newest gaps that are kept.
const GAPS_MAX: usize = 64;

/// Why bytes of a file are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GapReason {
    /// The file was truncated or overwritten, and no copy of its former contents was found.
    Truncated,
    /// The file is gone: deleted or moved while it was not open.
    Vanished,
    /// A compressed file is damaged.
    Damaged,
    /// The text of a compressed file exceeds the limit.
    TooLong,
}

impl fmt::Display for GapReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the file was truncated or overwritten, and there is no copy of it",
            Self::Vanished => "the file was deleted or moved while it was not open",
            Self::Damaged => "a compressed file is damaged",
            Self::TooLong => "a compressed file is too long",
        })
    }
}

/// Bytes of a file that were not delivered, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The path of the file.
    pub path: PathBuf,
    /// Why they are missing.
    pub reason: GapReason,
    /// The number of bytes that are known to be missing. There may be more, which were written after the file was last
    /// read; 0 if only that is possible.
    pub bytes: u64,
    /// When it was found, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// Events since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailerCounters {
    /// Files that were new.
    pub files_found: u64,
    /// Files that lost their path by a rename or a deletion.
    pub files_detached: u64,
    /// Files that were truncated or overwritten in place.
    pub truncations: u64,
    /// Copies, compressed or not, in which reading went on.
    pub copies_continued: u64,
    /// Gaps by reason.
    pub gaps_truncated: u64,
    /// See [`GapReason::Vanished`].
    pub gaps_vanished: u64,
    /// See [`GapReason::Damaged`].
    pub gaps_damaged: u64,
    /// See [`GapReason::TooLong`].
    pub gaps_too_long: u64,
    /// The bytes known to be missing in all gaps.
    pub gap_bytes: u64,
    /// Opens that failed.
    pub open_errors: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Paths that could not be listed or inspected, of all scans.
    pub scan_errors: u64,
    /// Matches that are no regular file, each once.
    pub skipped_not_regular: u64,
    /// Compressed files of an unsupported kind, each once.
    pub skipped_unsupported: u64,
    /// Matches beyond the limit of files, in the newest scan.
    pub files_beyond_limit: u64,
}

impl TailerCounters {
    /// The number of gaps.
    pub fn gaps(&self) -> u64 {
        self.gaps_truncated + self.gaps_vanished + self.gaps_damaged + self.gaps_too_long
    }
}

/// The counters and the newest gaps.
#[derive(Debug, Default)]
pub(crate) struct GapLog {
    pub(crate) counters: TailerCounters,
    newest: VecDeque<Gap>,
}

impl GapLog {
    pub(crate) fn add(&mut self, gap: Gap) {
        let counter = match gap.reason {
            GapReason::Truncated => &mut self.counters.gaps_truncated,
            GapReason::Vanished => &mut self.counters.gaps_vanished,
            GapReason::Damaged => &mut self.counters.gaps_damaged,
            GapReason::TooLong => &mut self.counters.gaps_too_long,
        };
        *counter += 1;
        self.counters.gap_bytes += gap.bytes;
        if self.newest.len() == GAPS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(gap);
    }

    pub(crate) fn newest(&self) -> impl Iterator<Item = &Gap> {
        self.newest.iter()
    }
}
