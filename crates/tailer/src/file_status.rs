//! What is known of each file, for people and for metrics.

use std::path::Path;
use std::time::Duration;

use crate::position::FileKey;
use crate::tailed_file::{Stage, TailedFile};
use crate::tailer::Tailer;

/// What a tailer does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileState {
    /// It grows, and is read.
    Active,
    /// It has not grown for a while, and is read when it grows.
    Idle,
    /// Another file has its path. It is read to its end.
    Rotated,
    /// It has no name any more. It is read to its end.
    Deleted,
    /// It is looked for: it is not where it was, or was truncated.
    Sought,
    /// A copy or a compressed form, which is read to its end.
    Copied,
    /// It could not be opened or read. The next scan tries again.
    Failing,
}

impl FileState {
    /// The state in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Rotated => "rotated",
            Self::Deleted => "deleted",
            Self::Sought => "sought",
            Self::Copied => "copied",
            Self::Failing => "failing",
        }
    }
}

/// What is known of a file that was not read to its end for good.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FileStatus<'a> {
    /// The number of the file.
    pub key: FileKey,
    /// The path by which the file was first found.
    pub path: &'a Path,
    /// The number of consumed bytes; of the decompressed text if the file is compressed.
    pub offset: u64,
    /// The length of the file, as far as it was seen.
    pub size: u64,
    /// The bytes at the end of the file that wait for their line end; 0 while others have to be read first.
    pub incomplete: u64,
    /// What the tailer does with it.
    pub state: FileState,
}

impl Tailer {
    /// Inspects the files that grow, with a `stat` each, so that [`Self::file_status`] has their sizes. While reading is stopped,
    /// nothing else sees their growth.
    pub fn note_growth(&mut self) {
        let now = self.clock.uptime();
        for key in &self.active {
            let Some(file) = self.files.get_mut(key) else { continue };
            if let Some(Ok(stat)) = file.handle.as_ref().filter(|_| file.unpacker.is_none()).map(|handle| handle.stat())
            {
                file.growth.note(stat.size, now);
            }
        }
    }

    /// The files that are followed, without those that were read to their end for good.
    pub fn file_status(&self) -> impl Iterator<Item = FileStatus<'_>> {
        self.files.values().filter_map(|file| status_of(file, self.active.contains(&file.position.key)))
    }

    /// When the byte at this offset of a file was first seen, as uptime, or somewhat earlier; `None` if it was not seen.
    pub fn seen_at(&self, key: FileKey, offset: u64) -> Option<Duration> {
        self.files.get(&key)?.growth.seen_at(offset)
    }
}

fn status_of(file: &TailedFile, is_active: bool) -> Option<FileStatus<'_>> {
    let position = &file.position;
    let state = match file.stage {
        Stage::Finished => return None,
        Stage::Lost if position.is_finished => return None,
        _ if file.is_failing => FileState::Failing,
        Stage::Lost | Stage::Replaced => FileState::Sought,
        Stage::Following if is_active => FileState::Active,
        Stage::Following => FileState::Idle,
        Stage::Renamed => FileState::Rotated,
        Stage::Deleted | Stage::Ending => FileState::Deleted,
        Stage::Rest => FileState::Copied,
    };
    let size = position.size.max(file.growth.end()).max(position.offset);
    // What a decoder gave is kept in memory, also before the sink takes it.
    let is_read = file.unpacker.is_none() && file.read_end() >= size;
    let incomplete = if is_read { file.waiting } else { 0 };
    let (key, path, offset) = (position.key, &*position.path, position.offset);
    Some(FileStatus { key, path, offset, size, incomplete, state })
}
