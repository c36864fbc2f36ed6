//! The buffer: appends batches, reads them once in order, and removes them when they are acknowledged.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::Fs;

use crate::buffer_file::{self, BufferFile, EntryReader, ReadEntry};
use crate::entry::{BODY_BYTES_MAX, BufferEntryKind, EntryHeader, body_crc};
use crate::recovery::{RecoveredBuffer, each_header, recover};
use crate::rewind::{BatchRanges, Rewind};
use crate::{BufferError, BufferRecovery};

/// The smallest and the largest length of a file at which the next one begins, in bytes.
const FILE_BYTES: (u64, u64) = (64 << 10, 16 << 20);

/// The number of files into which a full buffer is divided.
const FILES: u64 = 16;

/// A file is at least this many times as long as its snapshot.
const SNAPSHOT_FACTOR: u64 = 8;

/// Settings of the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The longest that all files may become, in bytes.
    pub bytes_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { bytes_max: 512 << 20 }
    }
}

/// A batch to append.
#[derive(Clone, Copy, Debug)]
pub struct NewBatch<'a> {
    /// The change of the source's state that the batch makes.
    pub state: &'a [u8],
    /// The encoded labels of the batch.
    pub labels: &'a [u8],
    /// The batch as it is sent.
    pub frame: &'a [u8],
    /// The number of its records.
    pub records: u32,
}

/// A batch that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferedBatch {
    /// Consecutive, but for damaged batches.
    pub number: u64,
    /// The encoded labels.
    pub labels: Vec<u8>,
    /// The batch as it is sent.
    pub frame: Vec<u8>,
    /// The number of its records.
    pub records: u32,
}

/// Batches that were dropped to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedBatches {
    /// The number of batches.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Bytes of their entries.
    pub bytes: u64,
}

/// The buffer of one agent. See the [crate](crate).
#[derive(Debug)]
pub struct DiskBuffer {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    config: Config,
    /// The oldest first.
    pub(crate) files: VecDeque<BufferFile>,
    /// The length at which the next file begins; 0 if the last file is not to be appended to.
    roll_at: u64,
    /// The number of the next batch.
    next: u64,
    acked: u64,
    /// The newest acknowledgement in a file.
    written_acked: u64,
    /// The number of the next batch to read, if it is not damaged.
    unread: u64,
    reader: Option<EntryReader>,
    /// The number of the first batch of the file being read.
    reading: u64,
    /// Batches that were missing at this start or an earlier one: their lines are read again.
    missing: BatchRanges,
    /// What the snapshot before the next batch keeps, and the number of that batch.
    rewind: Option<(u64, Rewind)>,
    /// Whether no snapshot has the rewind yet. Until then no file is removed: a later start needs them all to find it.
    is_rewind_unsaved: bool,
    /// Whether a file was removed since the directory was synced; unknown at the start. Files are removed durably one by one.
    is_removal_unsynced: bool,
    /// The first batch of the oldest file, and a place in this file before its first unacknowledged batch.
    pub(crate) acked_place: Option<(u64, EntryReader)>,
}

impl DiskBuffer {
    /// Opens the buffer in a directory, which is created if missing. The caller ensures that no other process has it open.
    ///
    /// # Errors
    /// Those of the file system. Damage is no error.
    pub fn open(fs: Arc<dyn Fs>, dir: &Path, config: Config) -> Result<(Self, BufferRecovery), BufferError> {
        fs.create_dir_all(dir)?;
        let mut files = Vec::new();
        for name in fs.list(dir)? {
            let path = dir.join(&name);
            if let Some(first_batch) = buffer_file::first_batch(&name) {
                let file = fs.open(&path)?;
                files.push(BufferFile { path, bytes: file.size()?, file, first_batch });
            } else if name.ends_with(".tmp") {
                fs.remove(&path)?;
            }
        }
        files.sort_by_key(|file| file.first_batch);
        let RecoveredBuffer { recovery, next, acked, rewind, missing } = recover(&files)?;
        let mut buffer = Self {
            fs,
            dir: dir.to_owned(),
            config,
            files: files.into(),
            roll_at: 0,
            next,
            acked,
            written_acked: acked,
            unread: acked,
            reader: None,
            reading: 0,
            missing,
            rewind: rewind.map(|rewind| (next, rewind)),
            is_rewind_unsaved: recovery.missing_batches > 0,
            is_removal_unsynced: true,
            acked_place: None,
        };
        buffer.remove_acked();
        buffer.read_from_oldest();
        Ok((buffer, recovery))
    }

    /// Appends a batch and returns its number. `snapshot` is the whole state before the batch; it is called when a new file
    /// begins.
    ///
    /// # Errors
    /// [`BufferError`]. The batch is then not in the buffer.
    pub fn append(&mut self, batch: &NewBatch<'_>, snapshot: impl FnOnce() -> Vec<u8>) -> Result<u64, BufferError> {
        let parts = [batch.state, batch.labels, batch.frame];
        let body_len: usize = parts.iter().map(|part| part.len()).sum();
        if body_len > BODY_BYTES_MAX {
            return Err(BufferError::TooLong(body_len));
        }
        let bytes = self.bytes();
        if self.unacked_batches() > 0 && bytes + body_len as u64 > self.config.bytes_max {
            return Err(BufferError::Full { bytes });
        }
        if self.files.back().is_none_or(|file| file.bytes >= self.roll_at) {
            self.save(&snapshot())?;
        }
        self.write(BufferEntryKind::Batch, parts, batch.records)?;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Begins a file with this state, durably. Batches before it stay in older files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&mut self, state: &[u8]) -> Result<(), BufferError> {
        let path = self.dir.join(buffer_file::file_name(self.next));
        let draft = path.with_extension("tmp");
        match self.fs.remove(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let file = self.fs.create(&draft)?;
        let mut begun = BufferFile { path, file, first_batch: self.next, bytes: 0 };
        let rewind = self.rewind.as_ref().filter(|(number, _)| *number == self.next);
        let rewind = rewind.map(|(_, rewind)| rewind.encode()).unwrap_or_default();
        // No older entry replaces a state that was moved back, so it is there twice.
        for _ in 0..if rewind.is_empty() { 1 } else { 2 } {
            self.write_to(&mut begun, BufferEntryKind::Snapshot, [state, &[], &rewind], 0)?;
        }
        begun.file.sync()?;
        self.fs.rename(&draft, &begun.path)?;
        self.fs.sync_dir(&self.dir)?;
        self.is_removal_unsynced = false;
        let (min, max) = FILE_BYTES;
        let wanted = (self.config.bytes_max / FILES).clamp(min, max).max(begun.bytes * SNAPSHOT_FACTOR);
        self.roll_at = begun.bytes + wanted;
        // A file without batches is replaced.
        if self.files.back().is_some_and(|file| file.first_batch == begun.first_batch) {
            self.files.pop_back();
        }
        self.files.push_back(begun);
        self.written_acked = self.acked;
        self.is_rewind_unsaved = false;
        self.acked_place = None;
        self.remove_acked();
        if self.reader.is_none() || self.reading == self.next {
            self.read_from_oldest();
        }
        Ok(())
    }

    /// Reads the next batch that was not read yet; `None` if there is none. Damaged batches are passed over.
    ///
    /// # Errors
    /// Those of the file system. The next call tries again.
    pub fn read_next(&mut self) -> Result<Option<BufferedBatch>, BufferError> {
        while let Some(reader) = &mut self.reader {
            let Some(at) = self.files.iter().position(|file| file.first_batch == self.reading) else {
                self.read_from_oldest();
                continue;
            };
            let end = self.files.get(at).map_or(0, |file| file.bytes);
            match reader.next(end)? {
                ReadEntry::Entry(header, Some(body))
                    if header.kind == BufferEntryKind::Batch && header.number >= self.unread =>
                {
                    let Some([_, labels, frame]) = header.split(&body) else { continue };
                    self.unread = header.number + 1;
                    let (labels, frame) = (labels.to_vec(), frame.to_vec());
                    return Ok(Some(BufferedBatch { number: header.number, labels, frame, records: header.records }));
                }
                ReadEntry::Entry(..) | ReadEntry::Damage => {}
                ReadEntry::End => {
                    let Some(following) = self.files.get(at + 1) else { return Ok(None) };
                    self.reading = following.first_batch;
                    self.reader = Some(EntryReader::new(following.file.clone()));
                }
            }
        }
        Ok(None)
    }

    /// The number of the next batch to read, if it is not damaged.
    pub fn first_unread(&self) -> u64 {
        self.unread
    }

    /// Whether every batch was read.
    pub fn is_read(&self) -> bool {
        self.unread >= self.next
    }

    /// Whether the state should be saved now: batches were missing at the start, so that their lines are read again. Until it is
    /// saved, no file is removed.
    pub fn is_save_due(&self) -> bool {
        self.is_rewind_unsaved
    }

    /// The number of batches in a range that was passed over, without those that were missing at the start. `end` is the next
    /// batch that was read, or [`Self::next_number`].
    pub fn damaged_between(&self, first: u64, end: u64) -> u64 {
        self.missing.outside(first..end).iter().map(|range| range.end - range.start).sum()
    }

    /// Passes over the unread batches, because the caller has them.
    pub fn skip_unread(&mut self) {
        self.unread = self.next;
        if let Some(file) = self.files.back() {
            self.reading = file.first_batch;
            self.reader = Some(EntryReader { file: file.file.clone(), offset: file.bytes });
        }
    }

    /// Records that all batches before this number are acknowledged, and removes the files that have no others.
    pub fn ack(&mut self, number: u64) {
        if number.min(self.next) > self.acked {
            self.acked = number.min(self.next);
            self.unread = self.unread.max(self.acked);
            self.remove_acked();
        }
    }

    /// Writes the newest acknowledgement, so that fewer batches are sent again after a restart. Not synced.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_ack(&mut self) -> Result<(), BufferError> {
        if self.acked > self.written_acked && self.roll_at > 0 {
            self.write(BufferEntryKind::Ack, [&[], &[], &[]], 0)?;
        }
        Ok(())
    }

    /// Drops the oldest file with its unacknowledged batches; `None` if there is only one file, or the state has to be saved
    /// before.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn drop_oldest(&mut self) -> Result<Option<DroppedBatches>, BufferError> {
        if self.is_rewind_unsaved {
            return Ok(None);
        }
        let (Some(oldest), Some(following)) = (self.files.front(), self.files.get(1)) else { return Ok(None) };
        let (mut dropped, acked) = (DroppedBatches::default(), self.acked);
        each_header(oldest, |header| {
            if header.kind == BufferEntryKind::Batch && header.number >= acked {
                dropped.batches += 1;
                dropped.records += u64::from(header.records);
                dropped.bytes += header.entry_len();
            }
        })?;
        self.ack(following.first_batch);
        Ok(Some(dropped))
    }

    /// The number of the first batch without an acknowledgement.
    pub fn first_unacked(&self) -> u64 {
        self.acked
    }

    /// The number of the next batch.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The number of batches without an acknowledgement, damaged ones included.
    pub fn unacked_batches(&self) -> u64 {
        self.next - self.acked
    }

    /// The length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Appends an entry to the last file.
    fn write(&mut self, kind: BufferEntryKind, parts: [&[u8]; 3], records: u32) -> Result<(), BufferError> {
        let Some(mut file) = self.files.pop_back() else { return Ok(()) };
        let written = self.write_to(&mut file, kind, parts, records);
        if written.is_err() && file.file.truncate(file.bytes).is_err() {
            // What is behind the last whole entry is damage; another file follows.
            self.roll_at = 0;
        }
        self.files.push_back(file);
        written?;
        self.written_acked = self.acked;
        Ok(())
    }

    fn write_to(
        &self,
        file: &mut BufferFile,
        kind: BufferEntryKind,
        parts: [&[u8]; 3],
        records: u32,
    ) -> io::Result<()> {
        let [state, labels, frame] = parts;
        let header = EntryHeader {
            kind,
            body_len: (state.len() + labels.len() + frame.len()) as u32,
            state_len: state.len() as u32,
            labels_len: labels.len() as u32,
            records,
            number: self.next,
            acked: self.acked,
            body_crc: body_crc(&parts),
        };
        file.file.append(&[&header.encode(), state, labels, frame])?;
        file.bytes += header.entry_len();
        Ok(())
    }

    /// Removes the files before the one with the first unacknowledged batch; never the last. The acknowledgement is written
    /// before, otherwise a restart would take what was removed for damage.
    fn remove_acked(&mut self) {
        if self.is_rewind_unsaved {
            return;
        }
        let has_acked_files = self.files.get(1).is_some_and(|following| following.first_batch <= self.acked);
        if has_acked_files {
            // If it fails, files are removed nevertheless: the disk may be full.
            let _ = self.write_ack();
        }
        while let (Some(oldest), Some(following)) = (self.files.front(), self.files.get(1))
            && following.first_batch <= self.acked
        {
            // After a power cut, older files with newer ones missing between them would look like lost batches.
            if self.is_removal_unsynced && self.fs.sync_dir(&self.dir).is_err() {
                return;
            }
            self.is_removal_unsynced = true;
            // Tried again at the next acknowledgement.
            if self.fs.remove(&oldest.path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return;
            }
            self.files.pop_front();
        }
    }

    /// Continues reading with the oldest file; what was read is passed over.
    fn read_from_oldest(&mut self) {
        let oldest = self.files.front();
        self.reading = oldest.map_or(0, |file| file.first_batch);
        self.reader = oldest.map(|file| EntryReader::new(file.file.clone()));
    }
}
