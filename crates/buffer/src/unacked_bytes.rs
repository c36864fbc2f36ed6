//! How many bytes of the buffer are not acknowledged.

use crate::DiskBuffer;
use crate::buffer_file::{EntryReader, ReadEntry};
use crate::entry::BufferEntryKind;

impl DiskBuffer {
    /// The length of the files from the first unacknowledged batch on, in bytes; 0 if all batches are acknowledged. Reads the
    /// headers of the batches that were acknowledged since the last call, of one file at most.
    pub fn unacked_bytes(&mut self) -> u64 {
        if self.unacked_batches() == 0 {
            return 0;
        }
        let (all, acked) = (self.bytes(), self.first_unacked());
        let Some(oldest) = self.files.front() else { return 0 };
        let known = self.acked_place.take().filter(|(first_batch, _)| *first_batch == oldest.first_batch);
        let mut place = known.map_or_else(|| EntryReader::new(oldest.file.clone()), |(_, place)| place);
        loop {
            let offset = place.offset;
            match place.next_header(oldest.bytes) {
                Ok(ReadEntry::Entry(header, _)) if header.kind != BufferEntryKind::Batch || header.number < acked => {}
                Ok(ReadEntry::Damage) => {}
                Ok(ReadEntry::Entry(..) | ReadEntry::End) | Err(_) => {
                    place.offset = offset;
                    break;
                }
            }
        }
        let bytes = all.saturating_sub(place.offset);
        self.acked_place = Some((oldest.first_batch, place));
        bytes
    }
}
