//! A batch that is being filled, with the ids of its records.

use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Labels, Millis, RowAttributes, SplitLines};
use bucksaw_segment::{FrameHeader, RowMeta};
use bucksaw_wire::Batch;
use memchr::memchr_iter;

use crate::Config;
use crate::batch_ids::BatchIds;
use crate::record_attributes::RecordAttributes;
use crate::source_acks::BatchTicket;
use crate::stream_attributes::StreamAttributes;

/// The longest record, in bytes: two of them fit in a frame.
pub(crate) const RECORD_BYTES_LIMIT: usize = FrameHeader::BODY_BYTES_MAX / 2;

/// The largest batch, in bytes: leaves room in a frame for the last record.
const BATCH_BYTES_LIMIT: usize = FrameHeader::BODY_BYTES_MAX / 4;

/// A batch in its encoded form.
#[derive(Debug)]
pub(crate) struct ShippedBatch {
    pub(crate) labels: Arc<Labels>,
    pub(crate) frame: Vec<u8>,
    pub(crate) records: u32,
    pub(crate) text_bytes: usize,
    /// Its place among the batches of its source, if the source counts them.
    pub(crate) ticket: Option<BatchTicket>,
}

impl ShippedBatch {
    /// When the batch was packed, in milliseconds since 1970.
    pub(crate) fn accepted_ms(&self) -> Option<u64> {
        let header = self.frame.first_chunk().and_then(|header| FrameHeader::parse(header).ok())?;
        Some(header.accepted.0)
    }
}

/// A batch that is being filled, either with plain lines or with records.
pub(crate) struct BatchBuilder {
    env: Env,
    pub(crate) labels: Arc<Labels>,
    ids: BatchIds,
    bytes_max: usize,
    text: Vec<u8>,
    count: u32,
    flags: Flags,
    /// `None` if lines have the time of their batch.
    pub(crate) line_times: Option<LineTimeReader>,
    /// Of each record, or of none.
    times: Vec<Option<(Millis, u32)>>,
    /// The number of lines of each record; empty for plain lines.
    lines: Vec<u32>,
    attributes: RowAttributes,
    /// Those of every plain line.
    pub(crate) stream_attributes: Option<StreamAttributes>,
}

impl BatchBuilder {
    /// An empty batch.
    pub(crate) fn new(config: &Config, env: &Env) -> Self {
        Self {
            env: env.clone(),
            labels: Arc::new(config.labels.clone()),
            ids: BatchIds::new(env),
            bytes_max: config.batch_bytes.clamp(1, BATCH_BYTES_LIMIT),
            text: Vec::new(),
            count: 0,
            flags: Flags::empty(),
            line_times: config.line_zone.clone().map(LineTimeReader::new),
            times: Vec::new(),
            lines: Vec::new(),
            attributes: RowAttributes::empty(),
            stream_attributes: None,
        }
    }

    /// Records of the batch.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of text.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether the batch has as much text as it should.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= self.bytes_max
    }

    /// Adds a record. `line` has no LF behind it, and may have some inside. Without a time it has the one that its first line
    /// states, if line times are read.
    pub(crate) fn push_record(
        &mut self,
        line: &[u8],
        attributes: Option<&RecordAttributes>,
        flags: u8,
        time: Option<(Millis, u32)>,
    ) {
        let text_at = self.text.len();
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        if flags != 0 {
            self.flags.push(self.count, flags);
        }
        let mut ends = memchr_iter(b'\n', line);
        let first_end = ends.next();
        let mut lines = first_end.map_or(1, |_| ends.count() as u32 + 2);
        match (&mut self.line_times, time) {
            (Some(reader), None) => {
                let first_line = self.text.get(text_at..text_at + first_end.unwrap_or(line.len()) + 1);
                let mut of_line = Flags::empty();
                of_line.push(0, flags);
                let now = Millis(self.env.clock.unix_ms());
                reader.read(&[first_line.unwrap_or_default()], &of_line, now, &mut self.times);
            }
            _ => self.times.push(time),
        }
        if let Some(attributes) = attributes {
            self.attributes.push(self.count, 1, &attributes.names);
            self.attributes.push_value_lines(self.count, &attributes.value_lines);
            self.text.extend_from_slice(&attributes.values);
            lines += attributes.lines;
        }
        self.lines.push(lines);
        self.count += 1;
    }

    /// Adds plain lines.
    pub(crate) fn append(&mut self, lines: &SplitLines<'_>) {
        for (row, bits) in lines.flags.iter() {
            self.flags.push(self.count + row, bits);
        }
        self.read_times(&lines.parts, &lines.flags);
        match &self.stream_attributes {
            Some(attributes) => attributes.append_to_lines(&lines.parts, &mut self.text),
            None => lines.parts.iter().for_each(|part| self.text.extend_from_slice(part)),
        }
        self.count += lines.count;
    }

    /// Adds plain lines; returns the batches that became full.
    pub(crate) fn add(&mut self, lines: &SplitLines<'_>) -> Vec<ShippedBatch> {
        let mut full = Vec::new();
        if self.text.len() + lines.text_bytes() > self.bytes_max {
            full.extend(self.finish());
        }
        self.append(lines);
        if self.text.len() >= self.bytes_max {
            full.extend(self.finish());
        }
        full
    }

    fn read_times(&mut self, lines: &[&[u8]], flags: &Flags) {
        let Some(reader) = &mut self.line_times else { return };
        let now = Millis(self.env.clock.unix_ms());
        reader.read(lines, flags, now, &mut self.times);
    }

    /// Takes the batch, if it has records.
    pub(crate) fn finish(&mut self) -> Option<ShippedBatch> {
        if self.count == 0 {
            return None;
        }
        let now = Millis(self.env.clock.unix_ms()).min(Millis::MAX);
        let (count, flags, text) = (self.count, std::mem::take(&mut self.flags), std::mem::take(&mut self.text));
        self.count = 0;
        let first = self.ids.next_first_id(now, count);
        let mut row_meta = Vec::new();
        let times = std::mem::take(&mut self.times);
        let has_times = times.iter().any(Option::is_some);
        let times = has_times.then(|| times.into_iter().map(|time| time.unwrap_or((first.time(), 0))).collect());
        let (lines, attributes) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.attributes));
        let (lines, attributes) = match &self.stream_attributes {
            Some(attributes) => (Some(vec![1 + attributes.count(); count as usize]), attributes.of_rows(count)),
            None => (lines.iter().any(|lines| *lines != 1).then_some(lines), attributes),
        };
        let layout_bits = RowMeta { times, lines, flags, attributes }.encode(first.time(), &mut row_meta);
        let frame =
            Batch { first_id: first, count, accepted: now, layout_bits, row_meta: &row_meta, text: &text }.encode();
        Some(ShippedBatch {
            labels: Arc::clone(&self.labels),
            frame,
            records: count,
            text_bytes: text.len(),
            ticket: None,
        })
    }
}
