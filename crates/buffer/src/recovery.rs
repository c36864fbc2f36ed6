//! Finds what a previous run left: the state of the source, and which batches are unacknowledged.

use std::io;

use crate::buffer_file::{BufferFile, EntryReader, ReadEntry};
use crate::entry::{BufferEntryKind, EntryHeader};

/// What a previous run left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferRecovery {
    /// The state of the source: a snapshot, and then the change of each batch behind it, in order. Empty if there is none. If the
    /// snapshot is damaged, an empty one is in its place.
    pub state: Vec<Vec<u8>>,
    /// Whether that is so: what no later batch has changed is missing from the state.
    pub is_snapshot_missing: bool,
    /// Batches that are in the buffer and not acknowledged.
    pub unacked_batches: u64,
    /// Their records.
    pub unacked_records: u64,
    /// Unacknowledged batches that are damaged or missing. The state is that before the first of them, so the source is
    /// read again from there.
    pub missing_batches: u64,
    /// Undamaged batches behind a missing one. They are sent, and their lines are read again, so answers contain these
    /// twice.
    pub repeated_batches: u64,
}

/// The numbers at which a buffer continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BufferNumbers {
    pub(crate) next: u64,
    pub(crate) acked: u64,
}

/// Reads all files, the oldest first.
pub(crate) fn recover(files: &[BufferFile]) -> io::Result<(BufferRecovery, BufferNumbers)> {
    let mut progress = BufferNumbers::default();
    for file in files {
        progress.next = progress.next.max(file.first_batch);
        each_header(file, |header| {
            progress.acked = progress.acked.max(header.acked);
            progress.next = progress.next.max(header.number + u64::from(header.kind == BufferEntryKind::Batch));
        })?;
    }
    // An acknowledgement for a batch that is in no file: its file was lost to a power cut.
    progress.next = progress.next.max(progress.acked);
    let mut state = StateReplay {
        recovery: BufferRecovery::default(),
        expected: files.first().map_or(0, |file| file.first_batch),
        acked: progress.acked,
    };
    for file in files {
        let mut reader = EntryReader::new(file.file.clone());
        loop {
            match reader.next(file.bytes)? {
                ReadEntry::End => break,
                ReadEntry::Entry(header, Some(body)) => state.add(&header, &body),
                // A missing batch is found by the numbers of those behind it.
                ReadEntry::Damage | ReadEntry::Entry(_, None) => {}
            }
        }
    }
    state.expect(progress.next);
    Ok((state.recovery, progress))
}

/// Reads the undamaged headers of a file.
pub(crate) fn each_header(file: &BufferFile, mut visit: impl FnMut(&EntryHeader)) -> io::Result<()> {
    let mut reader = EntryReader::new(file.file.clone());
    loop {
        match reader.next_header(file.bytes)? {
            ReadEntry::End => return Ok(()),
            ReadEntry::Entry(header, _) => visit(&header),
            ReadEntry::Damage => {}
        }
    }
}

/// Rebuilds the state from undamaged entries.
struct StateReplay {
    recovery: BufferRecovery,
    /// The number of the next batch, if none is missing.
    expected: u64,
    acked: u64,
}

impl StateReplay {
    fn add(&mut self, header: &EntryHeader, body: &[u8]) {
        let Some([state, ..]) = header.split(body) else { return };
        // A file may repeat what a lost one had.
        if header.kind == BufferEntryKind::Ack || header.number < self.expected && header.kind == BufferEntryKind::Batch
        {
            return;
        }
        self.expect(header.number);
        let is_frozen = self.recovery.missing_batches > 0;
        match header.kind {
            BufferEntryKind::Snapshot if !is_frozen => {
                self.recovery.state = vec![state.to_vec()];
                self.recovery.is_snapshot_missing = false;
            }
            BufferEntryKind::Batch => {
                self.expected = header.number + 1;
                if !is_frozen {
                    if self.recovery.state.is_empty() {
                        self.recovery.state.push(Vec::new());
                        self.recovery.is_snapshot_missing = true;
                    }
                    self.recovery.state.push(state.to_vec());
                }
                if header.number >= self.acked {
                    self.recovery.unacked_batches += 1;
                    self.recovery.unacked_records += u64::from(header.records);
                    self.recovery.repeated_batches += u64::from(is_frozen);
                }
            }
            _ => {}
        }
    }

    /// Counts the batches before `number` that did not come.
    fn expect(&mut self, number: u64) {
        let missing_from = self.expected.max(self.acked);
        self.recovery.missing_batches += number.saturating_sub(missing_from);
        self.expected = self.expected.max(number);
    }
}
