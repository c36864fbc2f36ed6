//! Records that a decoder collects until they are worth a frame.

use bucksaw_protocols::AttributeList;
use bucksaw_record::{AttributeNames, Flags, InvalidAttributes, Labels, RowAttributes, SplitLines};
use memchr::memchr_iter;

use super::records::{RecordTime, Records};

/// Records of one stream, copied from where they were decoded. The buffer grows in steps, up to about twice what it holds
/// and no further than its capacity limit, which bounds the memory of a request.
#[derive(Debug, Default)]
pub struct RecordBuffer {
    text: Vec<u8>,
    count: u32,
    flags: Flags,
    /// Of each record, or of none.
    times: Vec<Option<RecordTime>>,
    /// The number of lines of each record, once one has several.
    lines: Option<Vec<u32>>,
    attributes: RowAttributes,
    /// Memory of the names and runs of `attributes`, approximately, in bytes.
    attribute_bytes: usize,
    /// The names of the last record with attributes.
    last_names: Option<AttributeNames>,
    value_lines: Vec<u32>,
    capacity_max: usize,
}

/// How much a buffer holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BufferedSize {
    text_bytes: usize,
    /// Records that may have event times.
    records: usize,
}

impl RecordBuffer {
    /// An empty buffer without memory that grows ahead to at most `capacity_max` bytes of text.
    pub fn new(capacity_max: usize) -> Self {
        Self { capacity_max, ..Self::default() }
    }

    /// An empty buffer with memory for as much as another one holds, and an eighth more.
    pub(super) fn with_room(capacity_max: usize, held: BufferedSize) -> Self {
        let text = (held.text_bytes + held.text_bytes / 8).min(capacity_max);
        let times = held.records + held.records / 8;
        Self { text: Vec::with_capacity(text), times: Vec::with_capacity(times), ..Self::new(capacity_max) }
    }

    /// How much the buffer holds.
    pub(super) fn size(&self) -> BufferedSize {
        BufferedSize { text_bytes: self.text.len(), records: self.times.len() }
    }

    /// The number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of text, the LFs included.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes of memory that the buffer holds.
    pub fn memory_bytes(&self) -> usize {
        let lines = self.lines.as_ref().map_or(0, Vec::capacity) * size_of::<u32>();
        let times = self.times.capacity() * size_of::<Option<RecordTime>>();
        self.text.capacity() + times + lines + self.attribute_bytes + self.flags.len() * 8
    }

    /// Bytes of text and of what describes it, which bounds the size of a frame.
    pub(super) fn content_bytes(&self) -> usize {
        self.text.len() + self.attribute_bytes
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
        if let Some(lines) = &mut self.lines {
            lines.resize(self.count as usize, 1);
        }
    }

    /// Adds a line, its LF included, of a source whose records have no event times of their own.
    pub fn push_line(&mut self, line: &[u8], flags: u8) {
        if flags != 0 {
            self.flags.push(self.count, flags);
        }
        self.push_text(line);
        self.count += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(1);
        }
    }

    /// Adds a record, its LF included, of a source whose records may have event times.
    pub fn push_record(&mut self, text: &[u8], flags: u8, time: Option<RecordTime>) {
        self.push_text(text);
        self.push_row(1, flags, time);
    }

    /// Adds a record with attributes. `line` has no LF behind it, and may have some inside.
    ///
    /// # Errors
    /// [`InvalidAttributes`]; nothing is added then.
    pub fn push_event(
        &mut self,
        line: &[u8],
        attributes: &AttributeList,
        flags: u8,
        time: Option<RecordTime>,
    ) -> Result<(), InvalidAttributes> {
        if !attributes.is_empty() {
            let names = match self.last_names.take().filter(|names| names.is(attributes.names())) {
                Some(names) => names,
                None => AttributeNames::new(attributes.iter().map(|(name, _)| name))?,
            };
            let lists = self.attributes.lists().len();
            self.attributes.push(self.count, 1, &names);
            if self.attributes.lists().len() > lists {
                self.attribute_bytes += names.memory() + size_of::<AttributeNames>();
            }
            // A run of rows, at most.
            self.attribute_bytes += 12;
            self.last_names = Some(names);
        }
        self.reserve_text(line.len() + 1 + attributes.value_bytes() + attributes.len());
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        for (_, value) in attributes.iter() {
            self.text.extend_from_slice(value);
            self.text.push(b'\n');
        }
        let values =
            if attributes.has_line_end() { self.push_value_lines(attributes) } else { attributes.len() as u32 };
        self.push_row(line_count(line) + values, flags, time);
        Ok(())
    }

    /// Notes the lines of each value of the next record. Returns their sum.
    fn push_value_lines(&mut self, attributes: &AttributeList) -> u32 {
        self.value_lines.clear();
        self.value_lines.extend(attributes.iter().map(|(_, value)| line_count(value)));
        self.attributes.push_value_lines(self.count, &self.value_lines);
        self.attribute_bytes += 24 + self.value_lines.len() * size_of::<u32>();
        self.value_lines.iter().sum()
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.times.clear();
        self.flags = Flags::empty();
        self.lines = None;
        self.attributes = RowAttributes::empty();
        self.attribute_bytes = 0;
        self.count = 0;
    }

    /// Gives the records to `read`.
    pub fn with_records<T>(&self, read: impl FnOnce(Records<'_>) -> T) -> T {
        self.with_records_of(None, read)
    }

    /// Gives the records to `read`, as those of one stream of a batch with several.
    pub(super) fn with_records_of<T>(&self, labels: Option<&Labels>, read: impl FnOnce(Records<'_>) -> T) -> T {
        read(Records {
            text: &[&self.text],
            count: self.count,
            flags: &self.flags,
            times: &self.times,
            lines: self.lines.as_deref(),
            attributes: &self.attributes,
            batch_labels: labels,
        })
    }

    fn push_row(&mut self, lines: u32, flags: u8, time: Option<RecordTime>) {
        if flags != 0 {
            self.flags.push(self.count, flags);
        }
        self.times.push(time);
        if lines > 1 && self.lines.is_none() {
            self.lines = Some(vec![1; self.count as usize]);
        }
        if let Some(all) = &mut self.lines {
            all.push(lines);
        }
        self.count += 1;
    }

    fn push_text(&mut self, text: &[u8]) {
        self.reserve_text(text.len());
        self.text.extend_from_slice(text);
    }

    /// Makes room for this number of bytes.
    fn reserve_text(&mut self, bytes: usize) {
        let bytes = self.text.len() + bytes;
        if bytes > self.text.capacity() {
            self.text.reserve_exact(Self::text_capacity(bytes, self.capacity_max) - self.text.len());
        }
    }
}

/// The lines of a text that has no LF behind it.
fn line_count(text: &[u8]) -> u32 {
    memchr_iter(b'\n', text).count() as u32 + 1
}
