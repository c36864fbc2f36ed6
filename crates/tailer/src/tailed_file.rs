//! The state of one file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{File, FileStat};

use crate::content::{has_bytes_before, head_of};
use crate::fingerprint::{Anchor, FINGERPRINT_BYTES_MAX, Fingerprint};
use crate::gaps::GapReason;
use crate::growth::GrowthMarks;
use crate::position::{FileKey, FilePosition};
use crate::unpacker::Unpacker;

/// Where a file is in its life. The page of the crate has a diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is known by a position only. Scans look for it.
    Lost,
    /// Its contents were replaced. Scans look for a copy of the former ones.
    Replaced,
    /// It has its path.
    Following,
    /// Another name has replaced its path.
    Renamed,
    /// It has no name, and is read through its handle.
    Deleted,
    /// A copy or a compressed file, which does not grow. It ends where it ends.
    Rest,
    /// Nothing is left but the bytes in memory.
    Ending,
    /// Read to its end. It is remembered, so that it is not read again.
    Finished,
}

/// The most earlier offsets that are remembered of a file.
const HISTORY_LENGTH: usize = 8;

/// Size and time of a file when it was read last.
pub(crate) type SizeAndTime = (u64, u64);

pub(crate) fn size_and_time(stat: &FileStat) -> SizeAndTime {
    (stat.size, stat.modified_ms)
}

#[derive(Debug)]
pub(crate) struct TailedFile {
    pub(crate) position: FilePosition,
    pub(crate) stage: Stage,
    /// The newest known name.
    pub(crate) current_path: PathBuf,
    pub(crate) handle: Option<Arc<dyn File>>,
    pub(crate) unpacker: Option<Unpacker>,
    /// How many bytes after the position were delivered and not consumed.
    pub(crate) waiting: u64,
    /// These bytes, or nothing if memory is short; then they are read again.
    pub(crate) pending: Vec<u8>,
    /// Whether the waiting bytes were delivered once more.
    pub(crate) is_flushed: bool,
    /// The state of the file when it was read last; `None` if it must be read.
    pub(crate) seen: Option<SizeAndTime>,
    /// When the file was last seen to grow, or was detached, as uptime.
    pub(crate) last_growth: Duration,
    /// Whether the time is over in which a detached file may grow.
    pub(crate) is_closing: bool,
    /// Whether the last access failed. Such a file is tried again by the next scan.
    pub(crate) is_failing: bool,
    /// The file whose text comes before that of this one.
    pub(crate) predecessor: Option<FileKey>,
    /// The size up to which successors wait.
    pub(crate) successors_wait_for: u64,
    /// The number of the scan in which a pattern matched it.
    pub(crate) matched_in: u64,
    /// Whether its own path led to it then.
    pub(crate) is_at_path: bool,
    /// How many scans did not find it.
    pub(crate) missing_scans: u32,
    /// The first bytes, while they are known: those of the fingerprint.
    pub(crate) head: Vec<u8>,
    /// Earlier offsets and what was before them, oldest first, the newest ones densest. A copy that is shorter than what was
    /// read is recognised by them.
    pub(crate) history: Vec<(u64, Anchor)>,
    /// State of the compressed file at the last error of its decoder.
    pub(crate) damage_seen: Option<SizeAndTime>,
    /// When its bytes were first seen.
    pub(crate) growth: GrowthMarks,
}

impl TailedFile {
    pub(crate) fn new(position: FilePosition, stage: Stage, now: Duration) -> Self {
        let (position_offset, anchor) = (position.offset, position.anchor);
        Self {
            current_path: position.path.clone(),
            successors_wait_for: position.size,
            position,
            stage,
            handle: None,
            unpacker: None,
            waiting: 0,
            pending: Vec::new(),
            is_flushed: false,
            seen: None,
            last_growth: now,
            is_closing: false,
            is_failing: false,
            predecessor: None,
            matched_in: 0,
            is_at_path: false,
            missing_scans: 0,
            head: Vec::new(),
            history: vec![(position_offset, anchor)],
            damage_seen: None,
            growth: GrowthMarks::default(),
        }
    }

    /// Moves the position behind `text`, which follows it.
    pub(crate) fn consume(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.position = self.position.after(text);
        if self.history.len() == HISTORY_LENGTH {
            // Of the older half every second one goes.
            let mut at = 0;
            self.history.retain(|_| {
                at += 1;
                at % 2 == 1 || at > HISTORY_LENGTH / 2
            });
        }
        self.history.push((self.position.offset, self.position.anchor));
    }

    /// The offset up to which the file was read, in its text.
    pub(crate) fn read_end(&self) -> u64 {
        self.position.offset + self.waiting
    }

    /// The offset of the next byte that is not in memory.
    pub(crate) fn next_offset(&self) -> u64 {
        self.position.offset + self.pending.len() as u64
    }

    /// The bytes before [`Self::next_offset`].
    pub(crate) fn bytes_before(&self) -> Anchor {
        self.position.anchor.followed_by(&self.pending)
    }

    /// Compares the file with what is known of it, and extends its fingerprint; false if its contents were replaced. Far behind
    /// the fingerprint only the bytes before the next ones are compared.
    pub(crate) fn compare(&mut self, handle: &dyn File, size: u64) -> io::Result<bool> {
        if size < self.position.size || !has_bytes_before(handle, self.next_offset(), self.bytes_before().as_bytes())? {
            return Ok(false);
        }
        let is_same = self.grow_fingerprint(handle)?;
        if is_same {
            self.position.size = size;
        }
        Ok(is_same)
    }

    /// Extends the fingerprint of a file that has grown; false if its first bytes have changed. Behind the fingerprint they are
    /// not read any more.
    pub(crate) fn grow_fingerprint(&mut self, handle: &dyn File) -> io::Result<bool> {
        let is_behind = self.next_offset() >= FINGERPRINT_BYTES_MAX as u64;
        if is_behind && self.head.len() == FINGERPRINT_BYTES_MAX {
            return Ok(true);
        }
        let head = head_of(handle)?;
        if !self.position.fingerprint.matches(&head) {
            return Ok(false);
        }
        self.position.fingerprint = Fingerprint::of(&head);
        self.head = head;
        Ok(true)
    }

    /// Whether the file is not there any more, and was empty when it was last seen.
    pub(crate) fn was_empty(&self) -> bool {
        self.stage == Stage::Lost && self.position.fingerprint.length() == 0 && self.position.size == 0
    }

    /// The bytes that are known to be missing if nothing more of the file is found.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.position.size.saturating_sub(self.next_offset())
    }

    /// The reason of the gap if nothing more of the file is found.
    pub(crate) fn gap_reason(&self) -> GapReason {
        if self.stage == Stage::Replaced { GapReason::Truncated } else { GapReason::Vanished }
    }

    /// Forgets what is open and in memory, as the file is now another one.
    pub(crate) fn reset(&mut self) {
        self.handle = None;
        self.unpacker = None;
        self.pending = Vec::new();
        self.waiting = 0;
        self.is_flushed = false;
        self.seen = None;
        self.is_closing = false;
        self.is_failing = false;
        self.missing_scans = 0;
        self.damage_seen = None;
    }
}
