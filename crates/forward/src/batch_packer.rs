//! Packs lines into batches with ids, encoded as they are sent.

use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Id, IdAllocator, Labels, LineSplitter, Millis, Producer, RowAttributes, SplitLines};
use bucksaw_segment::{FrameHeader, RowMeta};
use bucksaw_wire::Batch;

use crate::Config;
use crate::source_acks::BatchTicket;
use crate::stream_attributes::StreamAttributes;

/// The longest record, in bytes: two of them fit in a frame.
const RECORD_BYTES_LIMIT: usize = FrameHeader::BODY_BYTES_MAX / 2;

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

/// Packs the chunks of many files, each into a batch of its own.
pub(crate) struct FilePacker {
    splitter: LineSplitter,
    batch: BatchBuilder,
}

impl FilePacker {
    pub(crate) fn new(config: &Config, env: &Env) -> Self {
        let record_bytes_max = config.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT);
        Self { splitter: LineSplitter::new(record_bytes_max), batch: BatchBuilder::new(config, env) }
    }

    /// Packs the whole lines of a chunk; returns their length and the batch, if there are any. At the end of a file the
    /// last line needs no line end.
    pub(crate) fn pack(
        &mut self,
        stream: FileStreamRef<'_>,
        text: &[u8],
        is_end: bool,
    ) -> (usize, Option<ShippedBatch>) {
        self.batch.labels = Arc::clone(stream.labels);
        std::mem::swap(&mut self.batch.line_times, stream.line_times);
        let lines = self.splitter.split(text);
        let mut consumed = lines.chunk_bytes();
        self.batch.append(&lines);
        if let Some(rest) = text.get(consumed..).filter(|rest| is_end && !rest.is_empty()) {
            self.batch.append(&SplitLines::whole(rest, Flags::UNTERMINATED));
            consumed = text.len();
        }
        let batch = self.batch.finish();
        std::mem::swap(&mut self.batch.line_times, stream.line_times);
        (consumed, batch)
    }
}

/// The stream of a chunk.
pub(crate) struct FileStreamRef<'a> {
    pub(crate) labels: &'a Arc<Labels>,
    /// The times of the lines before.
    pub(crate) line_times: &'a mut Option<LineTimeReader>,
}

/// Packs one stream.
pub(crate) struct BatchPacker {
    splitter: LineSplitter,
    batch: BatchBuilder,
}

/// A batch that is being filled.
struct BatchBuilder {
    env: Env,
    labels: Arc<Labels>,
    id_allocator: IdAllocator,
    bytes_max: usize,
    text: Vec<u8>,
    count: u32,
    flags: Flags,
    /// `None` if lines have the time of their batch.
    line_times: Option<LineTimeReader>,
    /// Of each record, or of none.
    times: Vec<Option<(Millis, u32)>>,
    /// Of every record.
    attributes: Option<StreamAttributes>,
}

impl BatchPacker {
    pub(crate) fn new(config: &Config, env: &Env) -> Self {
        let record_bytes_max = config.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT);
        Self { splitter: LineSplitter::new(record_bytes_max), batch: BatchBuilder::new(config, env) }
    }

    /// Gives these attributes to every record.
    pub(crate) fn with_attributes(mut self, attributes: Option<StreamAttributes>) -> Self {
        self.batch.attributes = attributes;
        self
    }

    /// Adds a chunk of at most a few MiB; returns the full batches.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<ShippedBatch> {
        let lines = self.splitter.split(chunk);
        let full = self.batch.add(&lines);
        let remainder = lines.remainder();
        self.splitter.advance(chunk, remainder);
        full
    }

    /// Ends the stream. A last line without a line end gets the flag `UNTERMINATED`.
    pub(crate) fn finish(&mut self) -> Vec<ShippedBatch> {
        let mut full =
            self.splitter.finish(Flags::UNTERMINATED).map(|lines| self.batch.add(&lines)).unwrap_or_default();
        self.splitter.clear();
        full.extend(self.flush());
        full
    }

    /// Whether a batch has records.
    pub(crate) fn has_pending(&self) -> bool {
        self.batch.count > 0
    }

    /// The pending batch, if it has records.
    pub(crate) fn flush(&mut self) -> Option<ShippedBatch> {
        self.batch.finish()
    }
}

impl BatchBuilder {
    fn new(config: &Config, env: &Env) -> Self {
        Self {
            env: env.clone(),
            labels: Arc::new(config.labels.clone()),
            id_allocator: IdAllocator::new(Producer::random(env.entropy.next_u64())),
            bytes_max: config.batch_bytes.clamp(1, BATCH_BYTES_LIMIT),
            text: Vec::new(),
            count: 0,
            flags: Flags::empty(),
            line_times: config.line_zone.clone().map(LineTimeReader::new),
            times: Vec::new(),
            attributes: None,
        }
    }

    fn append(&mut self, lines: &SplitLines<'_>) {
        for (row, bits) in lines.flags.iter() {
            self.flags.push(self.count + row, bits);
        }
        self.read_times(&lines.parts, &lines.flags);
        match &self.attributes {
            Some(attributes) => attributes.append_to_lines(&lines.parts, &mut self.text),
            None => lines.parts.iter().for_each(|part| self.text.extend_from_slice(part)),
        }
        self.count += lines.count;
    }

    fn add(&mut self, lines: &SplitLines<'_>) -> Vec<ShippedBatch> {
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

    fn finish(&mut self) -> Option<ShippedBatch> {
        if self.count == 0 {
            return None;
        }
        let now = Millis(self.env.clock.unix_ms()).min(Millis::MAX);
        let (count, flags, text) = (self.count, std::mem::take(&mut self.flags), std::mem::take(&mut self.text));
        self.count = 0;
        let first = self.next_first_id(now, count);
        let mut row_meta = Vec::new();
        let times = std::mem::take(&mut self.times);
        let has_times = times.iter().any(Option::is_some);
        let times = has_times.then(|| times.into_iter().map(|time| time.unwrap_or((first.time(), 0))).collect());
        let (lines, attributes) = match &self.attributes {
            Some(attributes) => (Some(vec![1 + attributes.count(); count as usize]), attributes.of_rows(count)),
            None => (None, RowAttributes::empty()),
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

    /// The ids of the next batch.
    fn next_first_id(&mut self, now: Millis, count: u32) -> Id {
        let first = self.id_allocator.next_first_id(now, count).unwrap_or_else(|| {
            let producer = Producer::random(self.env.entropy.next_u64());
            self.id_allocator = IdAllocator::new(producer);
            Id::new(now, producer, 0)
        });
        self.id_allocator.advance(first, count);
        first
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::{ClientMessage, DecodeProgress};
    use proptest::prelude::*;

    use super::*;

    /// Text, first sequence number and flags of a frame.
    type FrameContents = (String, u32, Vec<(u32, u8)>);

    fn pack(config: &Config, stream: &[u8], chunk: usize) -> Vec<FrameContents> {
        let mut packer = BatchPacker::new(config, &Env::real());
        let mut packed: Vec<ShippedBatch> = stream.chunks(chunk).flat_map(|chunk| packer.push(chunk)).collect();
        packed.extend(packer.finish());
        let open = |packed: &ShippedBatch| {
            let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), used)) =
                ClientMessage::decode(&packed.frame, u32::MAX)
            else {
                panic!("no batch")
            };
            let rows = frame.rows().unwrap();
            assert_eq!((used, rows.count, frame.text().len()), (packed.frame.len(), packed.records, packed.text_bytes));
            let text = String::from_utf8(frame.text().to_vec()).unwrap();
            (text, frame.header.first_id.sequence(), rows.flags.iter().collect())
        };
        packed.iter().map(open).collect()
    }

    #[test]
    fn batches_have_their_size_and_flags() {
        let config = Config { record_bytes_max: 4, batch_bytes: 8, ..Config::default() };
        let check = |stream: &str, chunk: usize, want: &[FrameContents]| {
            assert_eq!(pack(&config, stream.as_bytes(), chunk), want, "{stream:?}");
        };
        let batch = |text: &str, first: u32, flags: &[(u32, u8)]| (text.to_owned(), first, flags.to_vec());
        check("", 9, &[]);
        check("a\nb\n", 9, &[batch("a\nb\n", 0, &[])]);
        check("aa\nbb\ncc\ndd\n", 3, &[batch("aa\nbb\n", 0, &[]), batch("cc\ndd\n", 2, &[])]);
        check(
            "abcdef\ng",
            9,
            &[batch("abcd\nef\n", 0, &[(0, Flags::CUT)]), batch("g\n", 2, &[(0, Flags::UNTERMINATED)])],
        );
        check("x\nab", 9, &[batch("x\nab\n", 0, &[(1, Flags::UNTERMINATED)])]);
    }

    #[test]
    fn lines_have_the_time_that_they_state_or_that_of_the_line_before() {
        let line_zone = Some(bucksaw_record::time::TimeZone::UTC);
        let config = Config { record_bytes_max: 24, line_zone, ..Config::default() };
        let mut packer = BatchPacker::new(&config, &Env::real());
        let chunks =
            [&b"none\n2023-11-14 22:13:20.5 x\n\tat y\n2023-11-14 22:1"[..], b"3:21 long 2001-01-01 00:00:00\n"];
        assert!(chunks.iter().all(|chunk| packer.push(chunk).is_empty()));
        let packed = packer.finish();
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
            ClientMessage::decode(&packed[0].frame, u32::MAX)
        else {
            panic!("no batch")
        };
        let rows = frame.rows().unwrap();
        let times: Vec<u64> = (0..rows.count).map(|row| rows.id(row).unwrap().time().0).collect();
        let batch = frame.header.first_id.time().0;
        let (first, second) = (1_700_000_000_500, 1_700_000_001_000);
        assert_eq!(times, [batch, first, first, second, second]);
    }

    proptest! {
        #[test]
        fn batches_contain_every_byte_and_number_every_record(
            stream in "[ab\\n]{0,80}",
            chunk in 1_usize..30,
            record_bytes_max in 1_usize..9,
            batch_bytes in 1_usize..40,
        ) {
            let config = Config { record_bytes_max, batch_bytes, ..Config::default() };
            let mut joined = String::new();
            let mut next = 0;
            for (text, first, flags) in pack(&config, stream.as_bytes(), chunk) {
                prop_assert_eq!(first, next);
                for (row, line) in (0..).zip(text.split_inclusive('\n')) {
                    let has_no_line_end = flags.iter().any(|(flagged, _)| *flagged == row);
                    joined.push_str(if has_no_line_end { &line[..line.len() - 1] } else { line });
                    next += 1;
                }
            }
            prop_assert_eq!(joined, stream);
        }
    }
}
