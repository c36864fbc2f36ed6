//! Record batches between nodes: text, and tables that describe it. Integers are little-endian.
//!
//! ```text
//!   flags     1           bit 0: nanoseconds follow, 1: record flags follow, 2: descending, 3: attributes follow
//!   counts    4 × 3       of records, streams, runs
//!   streams   4 + n each  length of the labels, the labels
//!   runs      24 each     first id (16), records (4), stream (31 bits) and whether the records are stored (top bit)
//!   lengths   4 each      bytes of a record with its attributes, without the last LF
//!   nanos     4 each      if flagged
//!   flags     1 each      if flagged
//!   attributes            if flagged: their length (4), and `bucksaw_segment::encode_attributes`
//!   text                  the rest; an LF follows each record
//! ```
//! A run has one stream, and ids that ascend by one, or descend. Most records cost the four bytes of their length.
//!
//! A batch with attributes is a message of another kind. A node sends it only if the request allows attributes.
//!
//! Invariant: the ids of a batch ascend, or descend, and are distinct; the decoder checks it.

use std::sync::Arc;

use bucksaw_binary::ByteReader;
use bucksaw_record::{Id, Labels, RecordView, RowAttributes};
use bucksaw_segment::{decode_attributes, encode_attributes};
use bytes::Bytes;
use memchr::memchr_iter;

use super::message::MessageKind;
use crate::match_buffer::{RecordRef, RecordRun};
use crate::request::Order;
use bucksaw_rpc::{MalformedMessage, stream_header};

const HAS_NANOS: u8 = 1;
const HAS_FLAGS: u8 = 2;
const IS_DESCENDING: u8 = 4;
const HAS_ATTRIBUTES: u8 = 8;

/// An unknown bit announces an unknown table; the tables behind it cannot be found.
const KNOWN_BITS: u8 = HAS_NANOS | HAS_FLAGS | IS_DESCENDING | HAS_ATTRIBUTES;

/// The bit of a run's stream that marks stored records.
const STORED_BIT: u32 = 1 << 31;

const TOO_SHORT: MalformedMessage = MalformedMessage::TOO_SHORT;

/// Length from which memory for a record is reserved exactly.
const LONG_BYTES: usize = 64 << 10;

/// Maximum records of a batch.
const RECORDS_MAX: usize = 1 << 16;

/// Which content the requester of a batch can decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BatchContent {
    /// The lines of records.
    Lines,
    /// Their attributes too.
    #[default]
    LinesAndAttributes,
}

/// Builds a batch.
#[derive(Debug, Default)]
pub(crate) struct RecordBatchBuilder {
    order: Order,
    content: BatchContent,
    streams: Vec<Labels>,
    /// First id, last id, number of records, stream.
    runs: Vec<(Id, Id, u32, u32)>,
    lengths: Vec<u32>,
    nanos: Vec<u32>,
    flags: Vec<u8>,
    attributes: RowAttributes,
    text: Vec<u8>,
}

impl RecordBatchBuilder {
    pub(crate) fn new(order: Order, content: BatchContent) -> Self {
        Self { order, content, ..Self::default() }
    }

    /// Bytes of text and attributes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.attributes.memory()
    }

    pub(crate) fn records(&self) -> usize {
        self.lengths.len()
    }

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: RecordRef<'_>) {
        let stream = self.stream(record.labels) | if record.is_stored { STORED_BIT } else { 0 };
        match self.runs.last_mut() {
            Some((_, last, count, same)) if *same == stream && follows(self.order, *last, record.id) => {
                (*last, *count) = (record.id, *count + 1);
            }
            _ => self.runs.push((record.id, record.id, 1, stream)),
        }
        let view = match self.content {
            BatchContent::Lines => RecordView::line_only(record.view.line()),
            BatchContent::LinesAndAttributes => record.view,
        };
        let text = view.text();
        if let Some(shape) = view.shape() {
            let row = self.lengths.len() as u32;
            self.attributes.push_row(row, shape);
        }
        self.lengths.push(text.len() as u32);
        if record.nanos != 0 {
            self.nanos.resize(self.lengths.len() - 1, 0);
            self.nanos.push(record.nanos);
        }
        if record.flags != 0 {
            self.flags.resize(self.lengths.len() - 1, 0);
            self.flags.push(record.flags);
        }
        // A growing vector doubles: the LF of a long record would double its memory.
        let length = text.len() + 1;
        if length >= LONG_BYTES {
            self.text.reserve_exact(length);
        }
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
    }

    fn stream(&mut self, labels: &Labels) -> u32 {
        // Records of one stream are often adjacent, or a few streams alternate.
        let at = self.streams.iter().rev().take(64).position(|have| have == labels);
        let at = at.map_or(self.streams.len(), |from_end| self.streams.len() - 1 - from_end);
        if at == self.streams.len() {
            self.streams.push(labels.clone());
        }
        at as u32
    }

    /// The message, in two pieces.
    pub(crate) fn finish(mut self) -> [Bytes; 2] {
        let (nanos, flags) = (!self.nanos.is_empty(), !self.flags.is_empty());
        let descending = if self.order == Order::Descending { IS_DESCENDING } else { 0 };
        let attributes = if self.attributes.is_empty() { 0 } else { HAS_ATTRIBUTES };
        let mut tables = vec![(u8::from(nanos) * HAS_NANOS) | (u8::from(flags) * HAS_FLAGS) | descending | attributes];
        for count in [self.lengths.len(), self.streams.len(), self.runs.len()] {
            tables.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for labels in &self.streams {
            put_with_length(&mut tables, |out| labels.encode(out));
        }
        for (first, _, count, stream) in &self.runs {
            tables.extend_from_slice(&first.bits().to_le_bytes());
            tables.extend_from_slice(&count.to_le_bytes());
            tables.extend_from_slice(&stream.to_le_bytes());
        }
        tables.extend(self.lengths.iter().flat_map(|length| length.to_le_bytes()));
        if nanos {
            self.nanos.resize(self.lengths.len(), 0);
            tables.extend(self.nanos.iter().flat_map(|nanos| nanos.to_le_bytes()));
        }
        if flags {
            self.flags.resize(self.lengths.len(), 0);
            tables.extend_from_slice(&self.flags);
        }
        if attributes != 0 {
            put_with_length(&mut tables, |out| encode_attributes(&self.attributes, out));
        }
        let kind = if attributes == 0 { MessageKind::Batch } else { MessageKind::AttributedBatch };
        let mut first = stream_header(kind, &[&tables, &self.text]).to_vec();
        first.extend_from_slice(&tables);
        [first.into(), self.text.into()]
    }
}

/// Appends the length of what `put` appends, in four bytes, and that.
fn put_with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = (out.len() - at - 4) as u32;
    if let Some(field) = out.get_mut(at..at + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

fn follows(order: Order, last: Id, next: Id) -> bool {
    match order {
        Order::Ascending => last.bits().checked_add(1) == Some(next.bits()),
        Order::Descending => last.bits().checked_sub(1) == Some(next.bits()),
    }
}

/// A received batch.
#[derive(Debug)]
pub(crate) struct RecordBatch {
    pub(crate) order: Order,
    streams: Vec<Labels>,
    pub(crate) ids: Vec<Id>,
    /// The stream of each record, as in a run.
    stream_of: Vec<u32>,
    /// The end of each record's text, after its LF.
    ends: Vec<u32>,
    /// Empty where no record has any.
    nanos: Vec<u32>,
    /// Empty where no record has any.
    flags: Vec<u8>,
    attributes: RowAttributes,
    text: Bytes,
}

impl RecordBatch {
    /// Decodes a message. The batch has at least one record.
    pub(crate) fn decode(content: &Bytes) -> Result<Self, MalformedMessage> {
        let mut rest = ByteReader(content);
        let layout_bits = rest.u8().ok_or(TOO_SHORT)?;
        if layout_bits & !KNOWN_BITS != 0 {
            return Err(MalformedMessage("a batch has tables that a later version has added"));
        }
        let order = if layout_bits & IS_DESCENDING == 0 { Order::Ascending } else { Order::Descending };
        let mut count = || rest.u32().map(|count| count as usize).ok_or(TOO_SHORT);
        let [records, streams, runs] = [count()?, count()?, count()?];
        if records == 0 || records > RECORDS_MAX || streams > records || runs > records {
            return Err(MalformedMessage("a batch has too few records, or too many"));
        }
        let mut labels = Vec::with_capacity(streams);
        for _ in 0..streams {
            let bytes = rest.u32().and_then(|length| rest.bytes(length as usize)).ok_or(TOO_SHORT)?;
            labels.push(Labels::decode(bytes).map_err(|_| MalformedMessage("labels are damaged"))?);
        }
        let (mut ids, mut stream_of) = (Vec::with_capacity(records), Vec::with_capacity(records));
        for _ in 0..runs {
            let mut run = || Some((rest.u128()?, rest.u32()?, rest.u32()?));
            let (first, count, stream) = run().ok_or(TOO_SHORT)?;
            if count as usize > records - ids.len() || (stream & !STORED_BIT) as usize >= streams {
                return Err(MalformedMessage("a run of a batch is damaged"));
            }
            for step in 0..u128::from(count) {
                let id = match order {
                    Order::Ascending => first.checked_add(step),
                    Order::Descending => first.checked_sub(step),
                };
                let id = Id::from_bits(id.ok_or(MalformedMessage("a run of a batch is damaged"))?);
                if ids.last().is_some_and(|last| order.key(*last) >= order.key(id)) {
                    return Err(MalformedMessage("the records of a batch are out of order"));
                }
                ids.push(id);
                stream_of.push(stream);
            }
        }
        if ids.len() != records {
            return Err(MalformedMessage("a batch has fewer ids than records"));
        }
        let mut ends = u32s(&mut rest, records).ok_or(TOO_SHORT)?;
        let nanos =
            if layout_bits & HAS_NANOS == 0 { Vec::new() } else { u32s(&mut rest, records).ok_or(TOO_SHORT)? };
        let flags =
            if layout_bits & HAS_FLAGS == 0 { Vec::new() } else { rest.bytes(records).ok_or(TOO_SHORT)?.to_vec() };
        if nanos.iter().any(|nanos| *nanos >= 1_000_000) {
            return Err(MalformedMessage("nanoseconds exceed a millisecond"));
        }
        let encoded = match layout_bits & HAS_ATTRIBUTES {
            0 => None,
            _ => Some(rest.u32().and_then(|length| rest.bytes(length as usize)).ok_or(TOO_SHORT)?),
        };
        let text = content.slice_ref(rest.0);
        let mut end = 0_u32;
        for length_or_end in &mut ends {
            let next = end.checked_add(*length_or_end).and_then(|end| end.checked_add(1));
            end = next.ok_or(MalformedMessage("a record is too long"))?;
            if text.get(end as usize - 1) != Some(&b'\n') {
                return Err(MalformedMessage("a record does not end where it should"));
            }
            *length_or_end = end;
        }
        if end as usize != text.len() {
            return Err(MalformedMessage("there is more text than records"));
        }
        let attributes = match encoded {
            None => RowAttributes::empty(),
            Some(encoded) => decode_batch_attributes(encoded, &ends, &text)?,
        };
        Ok(Self { order, streams: labels, ids, stream_of, ends, nanos, flags, attributes, text })
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, at: usize) -> Option<Id> {
        self.ids.get(at).copied()
    }

    /// Whether the record is from a store.
    pub(crate) fn is_stored(&self, at: usize) -> bool {
        self.stream_of.get(at).is_some_and(|stream| stream & STORED_BIT != 0)
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize)
    }

    fn record(&self, at: usize) -> Option<RecordRef<'_>> {
        let (start, end) = (self.start(at), *self.ends.get(at)? as usize);
        let stream = *self.stream_of.get(at)?;
        Some(RecordRef {
            id: self.id(at)?,
            nanos: self.nanos.get(at).copied().unwrap_or_default(),
            flags: self.flags.get(at).copied().unwrap_or_default(),
            labels: self.streams.get((stream & !STORED_BIT) as usize)?,
            view: RecordView::new(self.text.get(start..end - 1)?, self.attributes.get(at as u32)),
            is_stored: stream & STORED_BIT != 0,
        })
    }
}

/// The attributes of records that end at `ends` in `text`.
fn decode_batch_attributes(encoded: &[u8], ends: &[u32], text: &[u8]) -> Result<RowAttributes, MalformedMessage> {
    let mut start = 0;
    let count_lines = |end: &u32| {
        let record = text.get(start..*end as usize).unwrap_or_default();
        start = *end as usize;
        memchr_iter(b'\n', record).count() as u32
    };
    let lines: Vec<u32> = ends.iter().map(count_lines).collect();
    let mut reader = ByteReader(encoded);
    let decoded = decode_attributes(&mut reader, ends.len() as u32, Some(&lines));
    decoded.filter(|_| reader.is_empty()).ok_or(MalformedMessage("the attributes of a batch are damaged"))
}

/// The next `count` integers.
fn u32s(bytes: &mut ByteReader<'_>, count: usize) -> Option<Vec<u32>> {
    let (integers, _) = bytes.bytes(count.saturating_mul(4))?.as_chunks::<4>();
    Some(integers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

/// Adjacent records of a batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchSlice {
    batch: Arc<RecordBatch>,
    from: usize,
    to: usize,
}

impl BatchSlice {
    pub(crate) fn new(batch: &Arc<RecordBatch>, from: usize, to: usize) -> Self {
        Self { batch: Arc::clone(batch), from, to: to.min(batch.len()) }
    }

    /// The records of a batch that `is_wanted` selects, adjacent ones in one slice.
    pub(crate) fn select(batch: &Arc<RecordBatch>, mut is_wanted: impl FnMut(Id) -> bool) -> Vec<Self> {
        let mut selected: Vec<Self> = Vec::new();
        for at in batch.ids.iter().enumerate().filter(|(_, id)| is_wanted(**id)).map(|(at, _)| at) {
            Self::new(batch, at, at + 1).append_to(&mut selected);
        }
        selected
    }

    /// Appends this slice, or extends the last one if both are adjacent.
    pub(crate) fn append_to(self, slices: &mut Vec<Self>) {
        match slices.last_mut() {
            Some(last) if Arc::ptr_eq(&last.batch, &self.batch) && last.to == self.from => last.to = self.to,
            _ => slices.push(self),
        }
    }

    /// Number of records, at least one.
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    /// The first record, and the rest if any.
    pub(crate) fn split_first(&self) -> (Self, Option<Self>) {
        let next = self.from + 1;
        (Self::new(&self.batch, self.from, next), (next < self.to).then(|| Self::new(&self.batch, next, self.to)))
    }

    /// Bytes of the records, including an LF each.
    pub(crate) fn bytes(&self) -> usize {
        self.batch.start(self.to) - self.batch.start(self.from)
    }

    /// The records, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = RecordRef<'_>> {
        (self.from..self.to).filter_map(|at| self.batch.record(at))
    }

    /// Passes on records as received, adjacent ones together: any number without flags and attributes, or one with them.
    pub(crate) fn visit_runs(&self, visit: &mut dyn FnMut(RecordRun<'_>)) {
        let batch = &*self.batch;
        let mut from = self.from;
        while from < self.to {
            let flags = batch.flags.get(from).copied().unwrap_or_default();
            if let Some(record) = batch.record(from).filter(|record| record.view.shape().is_some()) {
                visit(RecordRun::line_of(record.id, flags, record.view, &batch.text));
                from += 1;
                continue;
            }
            let has_flags = |at: &usize| batch.flags.get(*at).is_some_and(|flags| *flags != 0);
            let stands_alone = |at: &usize| has_flags(at) || batch.attributes.get(*at as u32).is_some();
            let to = match has_flags(&from) {
                true => from + 1,
                false if batch.flags.is_empty() && batch.attributes.is_empty() => self.to,
                false => (from..self.to).find(stands_alone).unwrap_or(self.to),
            };
            let lines = batch.text.get(batch.start(from)..batch.start(to)).unwrap_or_default();
            if let (Some(first), Some(last)) = (batch.id(from), batch.id(to - 1)) {
                visit(RecordRun { first, last, flags, records: to - from, lines, buffer: &batch.text });
            }
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{AttributeNames, AttributeShape, Millis, Producer};
    use proptest::prelude::*;

    use super::*;
    use crate::match_buffer::OwnedRecord;
    use bucksaw_rpc::MessageReader;

    #[test]
    fn a_long_record_takes_its_memory_once() {
        let (labels, text) = (Labels::default(), vec![b'a'; 1 << 20]);
        let mut builder = RecordBatchBuilder::new(Order::Ascending, BatchContent::LinesAndAttributes);
        for (number, text) in [(1, &b"short"[..]), (2, &text), (3, b"short")] {
            builder.push(RecordRef {
                id: Id::from_bits(number),
                nanos: 0,
                flags: 0,
                labels: &labels,
                view: RecordView::line_only(text),
                is_stored: false,
            });
        }
        let [_, text] = builder.finish();
        assert_eq!(text.len(), (1 << 20) + 13);
        let mut builder = RecordBatchBuilder::new(Order::Ascending, BatchContent::LinesAndAttributes);
        builder.push(RecordRef {
            id: Id::MIN,
            nanos: 0,
            flags: 0,
            labels: &labels,
            view: RecordView::line_only(&text),
            is_stored: false,
        });
        assert!(builder.text.capacity() < text.len() + 100, "{}", builder.text.capacity());
    }

    fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
        let text = ("[a\n]{0,6}", prop::collection::vec("[b\n]{0,3}", 0..3));
        let record = (0_u64..4, 0_u64..2, 0_u32..30, 0_u32..3, 0_u8..4, 0_usize..3, any::<bool>(), text);
        prop::collection::vec(record, 1..40).prop_map(|all| {
            let record = |(ms, producer, sequence, nanos, flags, stream, is_stored, (line, values)): (
                _,
                _,
                _,
                _,
                _,
                usize,
                _,
                (String, Vec<String>),
            )| {
                let (text, attributes) = with_attributes(line, &values);
                OwnedRecord {
                    id: Id::new(Millis(ms), Producer::new(producer), sequence),
                    nanos: if nanos == 0 { 999_999 } else { 0 },
                    flags: if flags == 3 { 1 } else { 0 },
                    labels: Labels::parse(["", "app=a", "app=b,x=y"][stream]).unwrap(),
                    text,
                    attributes,
                    is_stored,
                }
            };
            all.into_iter().map(record).collect()
        })
    }

    /// The text of a record with these values, and its attributes.
    fn with_attributes(line: String, values: &[String]) -> (Vec<u8>, RowAttributes) {
        let (mut text, mut attributes) = (line, RowAttributes::empty());
        let names = ["trace_id", "pod"].into_iter().take(values.len());
        if let Ok(names) = AttributeNames::new(names) {
            let value_lines: Vec<u32> = values.iter().map(|value| 1 + value.matches('\n').count() as u32).collect();
            attributes.push_row(0, AttributeShape { names: &names, value_lines: &value_lines });
        }
        values.iter().for_each(|value| text.extend(["\n", value]));
        (text.into_bytes(), attributes)
    }

    fn encode(order: Order, records: &[OwnedRecord]) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(order, BatchContent::LinesAndAttributes);
        records.iter().for_each(|record| builder.push(record.as_ref()));
        builder.finish().concat()
    }

    fn decode(bytes: &[u8]) -> Result<RecordBatch, MalformedMessage> {
        let mut messages = MessageReader::default();
        messages.push(bytes);
        RecordBatch::decode(&messages.next_message::<MessageKind>().unwrap().unwrap().1)
    }

    proptest! {
        #[test]
        fn batches_round_trip(mut records in records(), is_descending in any::<bool>()) {
            let order = if is_descending { Order::Descending } else { Order::Ascending };
            records.sort_by_key(|record| order.key(record.id));
            records.dedup_by_key(|record| record.id);
            let batch = Arc::new(decode(&encode(order, &records)).unwrap());
            prop_assert_eq!((batch.order, batch.len()), (order, records.len()));
            let slice = BatchSlice::new(&batch, 0, batch.len());
            let decoded: Vec<OwnedRecord> = slice.records().map(RecordRef::to_owned_record).collect();
            prop_assert_eq!(format!("{decoded:?}"), format!("{records:?}"));
            let (mut lines, mut count) = (Vec::new(), 0);
            slice.visit_runs(&mut |run| {
                assert!(run.flags == 0 || run.records == 1);
                assert_eq!(run.share_lines(), run.lines);
                lines.extend_from_slice(run.lines);
                count += run.records;
            });
            let want: Vec<u8> = records.iter().flat_map(|record| [record.as_ref().view.line(), b"\n"].concat()).collect();
            prop_assert_eq!((lines, count), (want, records.len()));
            prop_assert_eq!(slice.bytes(), batch.text.len());
        }

        #[test]
        fn an_older_requester_gets_the_lines(mut records in records()) {
            records.sort_by_key(|record| record.id);
            records.dedup_by_key(|record| record.id);
            let mut builder = RecordBatchBuilder::new(Order::Ascending, BatchContent::Lines);
            records.iter().for_each(|record| builder.push(record.as_ref()));
            let bytes = builder.finish().concat();
            prop_assert_eq!(bytes[0], MessageKind::Batch as u8);
            let batch = Arc::new(decode(&bytes).unwrap());
            let decoded = BatchSlice::new(&batch, 0, batch.len());
            for (decoded, record) in decoded.records().zip(&records) {
                prop_assert_eq!(decoded.view.text(), record.as_ref().view.line());
            }
        }

        #[test]
        fn changed_bytes_are_rejected_or_valid(mut records in records(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            records.sort_by_key(|record| record.id);
            records.dedup_by_key(|record| record.id);
            let bytes = encode(Order::Ascending, &records);
            let mut content = bytes[9..].to_vec();
            let at = at.index(content.len());
            content[at] = byte;
            if let Ok(batch) = RecordBatch::decode(&content.into()) {
                let batch = Arc::new(batch);
                prop_assert!(batch.ids.is_sorted_by_key(|id| batch.order.key(*id)));
                prop_assert_eq!(BatchSlice::new(&batch, 0, batch.len()).records().count(), batch.len());
            }
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = RecordBatch::decode(&bytes.into());
        }
    }

    #[test]
    fn records_out_of_order_are_rejected() {
        let record = |sequence| OwnedRecord {
            id: Id::new(Millis(1), Producer::new(1), sequence),
            nanos: 0,
            flags: 0,
            labels: Labels::default(),
            text: b"x".to_vec(),
            attributes: RowAttributes::empty(),
            is_stored: true,
        };
        assert!(decode(&encode(Order::Ascending, &[record(1), record(3)])).is_ok());
        assert_eq!(
            decode(&encode(Order::Ascending, &[record(3), record(1)])).err(),
            Some(MalformedMessage("the records of a batch are out of order"))
        );
        assert!(decode(&encode(Order::Descending, &[record(1), record(1)])).is_err());
    }
}
