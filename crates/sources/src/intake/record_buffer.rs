//! Records that a decoder collects until they are worth a frame.

use bucksaw_record::{Flags, SplitLines};

use super::records::{RecordTime, Records};

/// Records of one stream, copied from where they were decoded. The buffer grows in steps, up to about twice what it holds
/// and no further than its capacity limit, which bounds the memory of a request.
#[derive(Debug)]
pub struct RecordBuffer {
    text: Vec<u8>,
    count: u32,
    flags: Flags,
    /// Of each record, or of none.
    times: Vec<Option<RecordTime>>,
    capacity_max: usize,
}

impl RecordBuffer {
    /// An empty buffer without memory that grows ahead to at most `capacity_max` bytes of text.
    pub fn new(capacity_max: usize) -> Self {
        Self { text: Vec::new(), count: 0, flags: Flags::empty(), times: Vec::new(), capacity_max }
    }

    /// The number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether records of it may have event times, which take memory.
    pub fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    /// Bytes of text, the LFs included.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes of memory that the buffer holds.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.times.capacity() * size_of::<Option<RecordTime>>() + self.flags.len() * 8
    }

    /// Memory for `bytes` of text: twice as much at each growth, up to `capacity_max`.
    pub(crate) fn text_capacity(bytes: usize, capacity_max: usize) -> usize {
        bytes.max(bytes.saturating_mul(2).min(capacity_max))
    }

    /// Adds lines, which have no event times.
    pub fn push_lines(&mut self, lines: &SplitLines<'_>) {
        for (row, bits) in lines.flags.iter() {
            self.flags.push(self.count + row, bits);
        }
        lines.parts.iter().for_each(|part| self.push_text(part));
        self.count += lines.count;
    }

    /// Adds a record, its LF included, of a source whose records may have event times.
    pub fn push_record(&mut self, text: &[u8], flags: u8, time: Option<RecordTime>) {
        if flags != 0 {
            self.flags.push(self.count, flags);
        }
        self.times.push(time);
        self.push_text(text);
        self.count += 1;
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.times.clear();
        self.flags = Flags::empty();
        self.count = 0;
    }

    /// Gives the records to `read`.
    pub fn with_records<T>(&self, read: impl FnOnce(Records<'_>) -> T) -> T {
        read(Records { text: &[&self.text], count: self.count, flags: &self.flags, times: &self.times })
    }

    fn push_text(&mut self, text: &[u8]) {
        let bytes = self.text.len() + text.len();
        if bytes > self.text.capacity() {
            self.text.reserve_exact(Self::text_capacity(bytes, self.capacity_max) - self.text.len());
        }
        self.text.extend_from_slice(text);
    }
}
