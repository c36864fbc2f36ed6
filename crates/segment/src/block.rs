//! Blocks: compressed records in the order of their ids, grouped by stream.
//!
//! A block is self-contained: it has the labels of its streams, so that compaction can copy it between files. It consists of
//! two compressed columns, rows and text. A search reads the text only if the rows match. The text may be encoded as
//! searchable columns with a filter: see `bucksaw_columns`.
//!
//! Format: `docs/format.md`, "Block".
//!
//! Invariant: within a chunk the ids rise from row to row; between the chunks of a block they interleave.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bucksaw_binary::{ByteReader, put_delta, put_varint};
use bucksaw_columns::{Encoder, TextEncoding};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_search::{AsciiSet, SearchBlock};

use crate::attribute_column::{decode_attributes, encode_attributes};
use crate::frame::is_text_of_rows;
use crate::line_classes::line_classes;
use crate::row_meta::{decode_flags, encode_flags};
use crate::stored::replica_digests::interval_sums;
use crate::stored::{IdSum, Interval};
use crate::{Chunk, Codec, RecordBlock, RecordMap, RecordSummary, Rows};

/// Level for the rows column, which is small and compresses well at any level.
const ROWS_CODEC: Codec = Codec::Zstd(1);

/// Builds a block from records in the order of their ids.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    chunks: Vec<ChunkBuilder>,
    by_stream: HashMap<Labels, usize>,
    text_bytes: u64,
    /// Memory for the text of the next block's first stream: that of a whole block would grow by copies each time.
    spare_text: Vec<u8>,
}

#[derive(Debug)]
struct ChunkBuilder {
    labels: Labels,
    rows: Rows,
    text: Vec<u8>,
}

/// A compressed block, as stored in a file.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBlock {
    pub(crate) rows: PackedColumn,
    pub(crate) text: PackedColumn,
    /// For [`crate::BlockFilter`]; empty when there is none.
    pub(crate) filter: Vec<u8>,
    pub(crate) summary: RecordSummary,
    pub(crate) streams: Vec<Labels>,
    /// The sums of its ids by interval; empty if they were not asked for.
    pub(crate) id_sums: Vec<(Interval, IdSum)>,
}

/// A compressed column.
#[derive(Clone, Debug)]
pub(crate) struct PackedColumn {
    pub(crate) codec: Codec,
    pub(crate) bytes: Vec<u8>,
    pub(crate) raw_len: usize,
}

impl PackedColumn {
    fn pack(codec: Codec, raw: &[u8]) -> Self {
        let (codec, bytes) = codec.pack(raw);
        Self { codec, bytes: bytes.into_owned(), raw_len: raw.len() }
    }

    /// Compresses the text of some chunks, and builds its filter if the codec has one.
    fn pack_text(codec: Codec, raw: &[u8], chunks: &[ChunkBuilder], encoder: &mut Encoder) -> (Self, Vec<u8>) {
        let (Codec::Columns(level) | Codec::ColumnsAlways(level)) = codec else {
            return (Self::pack(codec, raw), Vec::new());
        };
        let classes = line_classes(chunks.iter().map(|chunk| &chunk.rows));
        let packed = match codec {
            Codec::ColumnsAlways(_) => encoder.encode_always(raw, &classes, level.into()),
            _ => encoder.encode(raw, &classes, level.into()),
        };
        let text = match packed.text {
            TextEncoding::Columns(bytes) => Self { codec, bytes, raw_len: raw.len() },
            TextEncoding::Zstd(bytes) => Self { codec: Codec::Zstd(level), bytes, raw_len: raw.len() },
            TextEncoding::Plain => Self::pack(Codec::Plain, raw),
        };
        (text, packed.filter)
    }
}

impl BlockBuilder {
    /// An empty builder with memory for this much text.
    pub fn with_capacity(text_bytes: usize) -> Self {
        Self { spare_text: Vec::with_capacity(text_bytes), ..Self::default() }
    }

    /// Bytes of text so far.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Whether the block has no records.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds the rows `range` of `rows`, whose text is `text`. Their ids are above all that this stream's earlier rows
    /// had.
    pub fn push(&mut self, labels: &Labels, rows: &Rows, range: Range<u32>, text: &[u8]) {
        let at = match self.by_stream.get(labels) {
            Some(at) => *at,
            None => {
                let text = std::mem::take(&mut self.spare_text);
                self.chunks.push(ChunkBuilder { labels: labels.clone(), rows: Rows::default(), text });
                self.by_stream.insert(labels.clone(), self.chunks.len() - 1);
                self.chunks.len() - 1
            }
        };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        chunk.append_rows(rows, range, text);
        self.text_bytes += text.len() as u64;
    }

    /// Compresses the block and clears the builder. Sums its ids if asked to. `None` without records.
    pub(crate) fn pack(&mut self, codec: Codec, encoder: &mut Encoder, with_id_sums: bool) -> Option<EncodedBlock> {
        if self.is_empty() {
            return None;
        }
        let mut chunks = std::mem::take(&mut self.chunks);
        self.by_stream.clear();
        self.text_bytes = 0;
        let mut summary = RecordSummary::default();
        chunks.iter().for_each(|chunk| summary.add(&chunk.rows, chunk.text.len()));
        let summed = chunks.iter().filter(|_| with_id_sums).map(|chunk| &chunk.rows);
        let id_sums = interval_sums(summed);
        let mut rows = Vec::new();
        put_varint(&mut rows, chunks.len() as u64);
        chunks.iter().for_each(|chunk| encode_chunk(chunk, &mut rows));
        let mut raw = std::mem::take(&mut chunks.first_mut()?.text);
        chunks.iter_mut().for_each(|chunk| raw.append(&mut chunk.text));
        let (text, filter) = PackedColumn::pack_text(codec, &raw, &chunks, encoder);
        raw.clear();
        self.spare_text = raw;
        let streams = chunks.into_iter().map(|chunk| chunk.labels).collect();
        Some(EncodedBlock { rows: PackedColumn::pack(ROWS_CODEC, &rows), text, filter, summary, streams, id_sums })
    }
}

impl ChunkBuilder {
    /// Copies rows of another chunk. Merges of records with event times call this for each record, so only the range is
    /// visited.
    fn append_rows(&mut self, from: &Rows, range: Range<u32>, text: &[u8]) {
        let base = self.rows.count;
        from.runs_in(range.clone()).for_each(|(first, count)| self.rows.push_run(first, count));
        let nanos = from.nanos_in(range.clone()).iter();
        self.rows.nanos.extend(nanos.map(|(row, nanos)| (row - range.start + base, *nanos)));
        for (row, bits) in from.flags.range(range.clone()) {
            self.rows.flags.push(row - range.start + base, bits);
        }
        if from.lines.is_some() && self.rows.lines.is_none() {
            self.rows.lines = Some(vec![1; base as usize]);
        }
        if let Some(lines) = &mut self.rows.lines {
            match &from.lines {
                Some(given) => lines.extend(given.get(range.start as usize..range.end as usize).unwrap_or_default()),
                None => lines.resize(lines.len() + range.len(), 1),
            }
        }
        if !from.attributes.is_empty() {
            self.rows.attributes.append(base, &from.attributes, range);
        }
        self.rows.accepted = self.rows.accepted.max(from.accepted);
        self.text.extend_from_slice(text);
    }
}

fn encode_chunk(chunk: &ChunkBuilder, out: &mut Vec<u8>) {
    let rows = &chunk.rows;
    let mut labels = Vec::new();
    chunk.labels.encode(&mut labels);
    put_varint(out, labels.len() as u64);
    out.extend_from_slice(&labels);
    put_varint(out, u64::from(rows.count));
    put_varint(out, chunk.text.len() as u64);
    put_varint(out, rows.accepted.0);
    put_varint(out, rows.runs.len() as u64);
    let mut ms = 0;
    let mut producers: HashMap<Producer, (u64, u64)> = HashMap::new();
    for run in &rows.runs {
        put_varint(out, u64::from(run.count));
        put_delta(out, ms, run.first_id.time().0);
        ms = run.first_id.time().0;
        let known = producers.len() as u64;
        let (number, next) = producers.entry(run.first_id.producer()).or_insert((known, 0));
        put_varint(out, *number);
        if *number == known {
            put_varint(out, run.first_id.producer().bits());
        }
        put_delta(out, *next, u64::from(run.first_id.sequence()));
        *next = u64::from(run.last().sequence()) + 1;
    }
    put_varint(out, rows.nanos.len() as u64);
    let mut before = 0;
    for (row, nanos) in &rows.nanos {
        put_varint(out, u64::from(row - before));
        put_varint(out, u64::from(*nanos));
        before = *row;
    }
    out.push(u8::from(rows.lines.is_some()));
    if let Some(lines) = &rows.lines {
        lines.iter().for_each(|lines| put_varint(out, u64::from(*lines)));
        encode_attributes(&rows.attributes, out);
    }
    encode_flags(&rows.flags, out);
}

/// A decoded block.
#[derive(Clone, Debug)]
pub struct Block {
    slices: Vec<StreamSlice>,
    text: Vec<u8>,
}

/// The rows of one stream, and the range of their text in the block.
#[derive(Clone, Debug)]
pub struct StreamSlice {
    /// The stream.
    pub labels: Labels,
    /// Its rows.
    pub rows: Arc<Rows>,
    /// Bytes of the block's text.
    pub range: Range<usize>,
}

impl Block {
    /// The records, stream by stream.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        self.slices.iter().map(|slice| Chunk {
            labels: &slice.labels,
            rows: Arc::clone(&slice.rows),
            text: self.text.get(slice.range.clone()).unwrap_or_default(),
        })
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        slices_memory(&self.slices) + self.text.capacity()
    }

    /// The text and the slices of all streams, in the order of [`Self::chunks`].
    pub fn into_parts(self) -> (Vec<u8>, Vec<StreamSlice>) {
        (self.text, self.slices)
    }

    /// Combines the slices of all streams with their text; `None` if they do not match.
    pub fn from_parts(text: Vec<u8>, slices: Vec<StreamSlice>) -> Option<Self> {
        let fits = slices.iter().all(|StreamSlice { rows, range, .. }| {
            let part = text.get(range.clone());
            part.is_some_and(|part| is_text_of_rows(part, rows.lines.as_deref(), rows.count))
        });
        let end = slices.last().map_or(0, |last| last.range.end);
        (fits && end == text.len()).then_some(Self { slices, text })
    }
}

/// The number of rows in all chunks. A record of several lines is one row.
impl SearchBlock for Block {
    fn row_count(&self) -> usize {
        self.slices.iter().map(|slice| slice.rows.count as usize).sum()
    }

    fn visit_rows(
        &self,
        rows: impl Iterator<Item = usize>,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        let mut records = self.chunks().flat_map(|chunk| {
            let mut at = 0;
            let text = chunk.text;
            chunk.records().map(move |record| {
                let range = at..at + record.len() + 1;
                at = range.end;
                text.get(range)
            })
        });
        let mut next = 0;
        for row in rows {
            let record = records.nth(row.checked_sub(next)?)??;
            next = row + 1;
            if visit(record).is_break() {
                break;
            }
        }
        Some(())
    }
}

/// A block that is searched as columns, without its text.
#[derive(Debug)]
pub struct ColumnarBlock {
    /// The slices of all streams.
    pub slices: Vec<StreamSlice>,
    /// The lines of all slices.
    pub columns: bucksaw_columns::ColumnBlock,
    /// The ASCII bytes that lines may write as an escape of JSON: all, or those that the filter of the block knows.
    pub escaped_bytes: AsciiSet,
    /// Which lines are which record.
    map: RecordMap,
}

impl ColumnarBlock {
    /// Approximate bytes of memory; grows with what a search decodes.
    pub(crate) fn memory(&self) -> usize {
        slices_memory(&self.slices) + self.columns.memory() + self.map.memory()
    }

    /// The records of all slices; `None` never happens in a block that was opened.
    pub fn records(&self) -> Option<RecordBlock<'_, bucksaw_columns::ColumnBlock>> {
        Some(RecordBlock::new(&self.columns, &self.map)?.with_escaped_bytes(self.escaped_bytes))
    }

    /// Opens compressed columns; `None` if they are damaged.
    pub(crate) fn open(slices: Vec<StreamSlice>, packed: Vec<u8>, raw_len: usize) -> Option<Self> {
        let map = RecordMap::of(slices.iter().map(|slice| &*slice.rows))?;
        let columns = bucksaw_columns::ColumnBlock::open(packed, map.line_count(), raw_len)?;
        Some(Self { slices, columns, escaped_bytes: AsciiSet::ALL, map })
    }
}

fn slices_memory(slices: &[StreamSlice]) -> usize {
    slices.iter().map(|slice| size_of::<StreamSlice>() + slice.rows.memory()).sum()
}

/// Decodes the rows column; `None` if it is damaged.
pub(crate) fn decode_slices(rows: &[u8]) -> Option<Vec<StreamSlice>> {
    let mut reader = ByteReader(rows);
    let mut slices = Vec::new();
    let mut at = 0_usize;
    for _ in 0..reader.varint()? {
        let (labels, rows, text_len) = decode_chunk(&mut reader)?;
        let range = at..at.checked_add(text_len)?;
        if !rows.is_sorted() {
            return None;
        }
        at = range.end;
        slices.push(StreamSlice { labels, rows: Arc::new(rows), range });
    }
    reader.is_empty().then_some(slices)
}

fn decode_chunk(reader: &mut ByteReader<'_>) -> Option<(Labels, Rows, usize)> {
    let labels_len = usize::try_from(reader.varint()?).ok()?;
    let labels = Labels::decode(reader.bytes(labels_len)?).ok()?;
    let count = reader.varint_u32()?;
    let text_len = usize::try_from(reader.varint()?).ok()?;
    let mut rows = Rows { accepted: Millis(reader.varint()?), ..Rows::default() };
    let mut ms = 0;
    let mut producers: Vec<(Producer, u64)> = Vec::new();
    for _ in 0..reader.varint()? {
        let run_rows = reader.varint_u32().filter(|run_rows| *run_rows > 0)?;
        ms = reader.delta(ms).filter(|ms| *ms <= Millis::MAX.0)?;
        let number = usize::try_from(reader.varint()?).ok()?;
        if number == producers.len() {
            producers.push((Producer::new(reader.varint()?), 0));
        }
        let (producer, next) = producers.get_mut(number)?;
        let sequence = u32::try_from(reader.delta(*next)?).ok()?;
        let first = Id::new(Millis(ms), *producer, sequence);
        *next = u64::from(first.checked_add(run_rows - 1)?.sequence()) + 1;
        rows.count.checked_add(run_rows).filter(|rows| *rows <= count)?;
        rows.push_run(first, run_rows);
    }
    let mut row = 0_u32;
    for at in 0..reader.varint()? {
        let step = reader.varint_u32().filter(|step| at == 0 || *step > 0)?;
        row = row.checked_add(step).filter(|row| *row < count)?;
        rows.nanos.push((row, reader.varint_u32()?));
    }
    if reader.u8()? == 1 {
        let lines: Option<Vec<u32>> = (0..count).map(|_| reader.varint_u32().filter(|lines| *lines > 0)).collect();
        let lines = lines?;
        rows.attributes = decode_attributes(reader, count, Some(&lines))?;
        rows.lines = Some(lines);
    }
    rows.flags = decode_flags(reader, count)?;
    (rows.count == count && count > 0).then_some((labels, rows, text_len))
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
