//! Records on their way between nodes: their text in one piece, an LF behind each, and tables of what is said of them.
//!
//! ```text
//!   flags     1           1 nanoseconds are told of, 2 marks are told of, 4 the newest comes first
//!   counts    4 × 3       of records, streams, runs
//!   streams   4 + n each  bytes of the labels, the labels
//!   runs      24 each     first id (16), records (4), stream (31 bits) and whether they are on a store (top bit)
//!   lengths   4 each      bytes of a record, without its LF
//!   nanos     4 each      when told of
//!   marks     1 each      when told of
//!   text                  the rest
//! ```
//! A run is of one stream, with ids that rise by one, or fall where the newest comes first: most records cost the four
//! bytes of their length.
//!
//! Invariant: the ids of a batch only rise, or only fall, and each occurs once; who decodes checks it.

use std::sync::Arc;

use bucksaw_record::{Id, Labels};
use bytes::Bytes;

use super::message::MessageKind;
use crate::match_buffer::{RecordRef, RecordRun};
use crate::request::Order;
use bucksaw_rpc::{ByteCursor, MalformedMessage, stream_header};

const HAS_NANOS: u8 = 1;
const HAS_FLAGS: u8 = 2;
const IS_DESCENDING: u8 = 4;

/// All that are known. One more would be a table more, and where the others lie would not be known.
const KNOWN_BITS: u8 = HAS_NANOS | HAS_FLAGS | IS_DESCENDING;

/// The bit of a run's stream that says that its records are on a store.
const STORED_BIT: u32 = 1 << 31;

/// Bytes of a record from which on exactly its memory is reserved.
const LONG_BYTES: usize = 64 << 10;

/// Records of a batch.
const RECORDS_MAX: usize = 1 << 16;

/// Puts records together, to be sent.
#[derive(Debug, Default)]
pub(crate) struct RecordBatchBuilder {
    order: Order,
    streams: Vec<Labels>,
    /// First and last id, records, stream.
    runs: Vec<(Id, Id, u32, u32)>,
    lengths: Vec<u32>,
    nanos: Vec<u32>,
    flags: Vec<u8>,
    text: Vec<u8>,
}

impl RecordBatchBuilder {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, ..Self::default() }
    }

    /// Bytes of text.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// How many records.
    pub(crate) fn records(&self) -> usize {
        self.lengths.len()
    }

    /// Adds the next record.
    pub(crate) fn push(&mut self, record: RecordRef<'_>) {
        let stream = self.stream(record.labels) | if record.is_stored { STORED_BIT } else { 0 };
        match self.runs.last_mut() {
            Some((_, last, count, of)) if *of == stream && follows(self.order, *last, record.id) => {
                (*last, *count) = (record.id, *count + 1);
            }
            _ => self.runs.push((record.id, record.id, 1, stream)),
        }
        self.lengths.push(record.text.len() as u32);
        if record.nanos != 0 {
            self.nanos.resize(self.lengths.len() - 1, 0);
            self.nanos.push(record.nanos);
        }
        if record.flags != 0 {
            self.flags.resize(self.lengths.len() - 1, 0);
            self.flags.push(record.flags);
        }
        // A vector that grows by itself doubles: for its line feed a long record would take its memory twice.
        let length = record.text.len() + 1;
        if length >= LONG_BYTES {
            self.text.reserve_exact(length);
        }
        self.text.extend_from_slice(record.text);
        self.text.push(b'\n');
    }

    fn stream(&mut self, labels: &Labels) -> u32 {
        // Records of one stream most often follow each other, or those of a few take turns.
        let at = self.streams.iter().rev().take(64).position(|have| have == labels);
        let at = at.map_or(self.streams.len(), |behind| self.streams.len() - 1 - behind);
        if at == self.streams.len() {
            self.streams.push(labels.clone());
        }
        at as u32
    }

    /// A message, in two pieces.
    pub(crate) fn finish(mut self) -> [Bytes; 2] {
        let (nanos, flags) = (!self.nanos.is_empty(), !self.flags.is_empty());
        let descending = if self.order == Order::Descending { IS_DESCENDING } else { 0 };
        let mut tables = vec![(u8::from(nanos) * HAS_NANOS) | (u8::from(flags) * HAS_FLAGS) | descending];
        for count in [self.lengths.len(), self.streams.len(), self.runs.len()] {
            tables.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for labels in &self.streams {
            let at = tables.len();
            tables.extend_from_slice(&[0; 4]);
            labels.encode(&mut tables);
            let length = (tables.len() - at - 4) as u32;
            if let Some(place) = tables.get_mut(at..at + 4) {
                place.copy_from_slice(&length.to_le_bytes());
            }
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
        let mut first = stream_header(MessageKind::Batch, &[&tables, &self.text]).to_vec();
        first.extend_from_slice(&tables);
        [first.into(), self.text.into()]
    }
}

fn follows(order: Order, last: Id, next: Id) -> bool {
    match order {
        Order::Ascending => last.bits().checked_add(1) == Some(next.bits()),
        Order::Descending => last.bits().checked_sub(1) == Some(next.bits()),
    }
}

/// Records that came from a node.
#[derive(Debug)]
pub(crate) struct RecordBatch {
    order: Order,
    streams: Vec<Labels>,
    ids: Vec<Id>,
    /// Of each record, as in a run.
    stream_of: Vec<u32>,
    /// Where each record's text ends, its LF counted.
    ends: Vec<u32>,
    /// Empty where no record has any.
    nanos: Vec<u32>,
    /// Empty where no record has any.
    flags: Vec<u8>,
    text: Bytes,
}

impl RecordBatch {
    /// What a message brought. It has a record.
    ///
    /// # Errors
    /// [`Broken`].
    pub(crate) fn decode(content: &Bytes) -> Result<Self, MalformedMessage> {
        let mut rest = ByteCursor(content);
        let layout_bits = rest.u8()?;
        if layout_bits & !KNOWN_BITS != 0 {
            return Err(MalformedMessage("a batch has tables that a later version has added"));
        }
        let order = if layout_bits & IS_DESCENDING == 0 { Order::Ascending } else { Order::Descending };
        let [records, streams, runs] = [rest.u32()? as usize, rest.u32()? as usize, rest.u32()? as usize];
        if records == 0 || records > RECORDS_MAX || streams > records || runs > records {
            return Err(MalformedMessage("a batch has too few records, or too many"));
        }
        let mut labels = Vec::with_capacity(streams);
        for _ in 0..streams {
            let length = rest.u32()? as usize;
            labels.push(Labels::decode(rest.take(length)?).map_err(|_| MalformedMessage("labels are damaged"))?);
        }
        let (mut ids, mut of) = (Vec::with_capacity(records), Vec::with_capacity(records));
        for _ in 0..runs {
            let (first, count, stream) = (rest.u128()?, rest.u32()?, rest.u32()?);
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
                of.push(stream);
            }
        }
        if ids.len() != records {
            return Err(MalformedMessage("a batch has fewer ids than records"));
        }
        let mut ends = rest.u32s(records)?;
        let nanos = if layout_bits & HAS_NANOS == 0 { Vec::new() } else { rest.u32s(records)? };
        let flags = if layout_bits & HAS_FLAGS == 0 { Vec::new() } else { rest.take(records)?.to_vec() };
        if nanos.iter().any(|nanos| *nanos >= 1_000_000) {
            return Err(MalformedMessage("nanoseconds are too many"));
        }
        let text = content.slice_ref(rest.0);
        let mut end = 0_u32;
        for place in &mut ends {
            end = end
                .checked_add(*place)
                .and_then(|end| end.checked_add(1))
                .ok_or(MalformedMessage("a record is too long"))?;
            if text.get(end as usize - 1) != Some(&b'\n') {
                return Err(MalformedMessage("a record does not end where it should"));
            }
            *place = end;
        }
        if end as usize != text.len() {
            return Err(MalformedMessage("there is more text than records"));
        }
        Ok(Self { order, streams: labels, ids, stream_of: of, ends, nanos, flags, text })
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The id of a record.
    pub(crate) fn id(&self, at: usize) -> Option<Id> {
        self.ids.get(at).copied()
    }

    pub(crate) fn ids(&self) -> &[Id] {
        &self.ids
    }

    /// Whether a record was on a store.
    pub(crate) fn is_stored(&self, at: usize) -> bool {
        self.stream_of.get(at).is_some_and(|of| of & STORED_BIT != 0)
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize)
    }

    fn record(&self, at: usize) -> Option<RecordRef<'_>> {
        let (start, end) = (self.start(at), *self.ends.get(at)? as usize);
        let of = *self.stream_of.get(at)?;
        Some(RecordRef {
            id: self.id(at)?,
            nanos: self.nanos.get(at).copied().unwrap_or_default(),
            flags: self.flags.get(at).copied().unwrap_or_default(),
            labels: self.streams.get((of & !STORED_BIT) as usize)?,
            text: self.text.get(start..end - 1)?,
            is_stored: of & STORED_BIT != 0,
        })
    }
}

/// Some records of an answer, one behind the other.
#[derive(Clone, Debug)]
pub struct BatchSlice {
    batch: Arc<RecordBatch>,
    from: usize,
    to: usize,
}

impl BatchSlice {
    pub(crate) fn new(batch: &Arc<RecordBatch>, from: usize, to: usize) -> Self {
        Self { batch: Arc::clone(batch), from, to: to.min(batch.len()) }
    }

    /// Whether another one begins where this ends.
    pub(crate) fn is_adjacent_to(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.batch, &next.batch) && self.to == next.from
    }

    pub(crate) fn extend(&mut self, next: &Self) {
        self.to = next.to;
    }

    /// How many records; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// The first record, and the rest if there is more.
    pub(crate) fn split_first(&self) -> (Self, Option<Self>) {
        let next = self.from + 1;
        (Self::new(&self.batch, self.from, next), (next < self.to).then(|| Self::new(&self.batch, next, self.to)))
    }

    /// The records one by one, each as a stretch.
    pub(crate) fn split_records(&self) -> impl Iterator<Item = Self> {
        (self.from..self.to).map(|at| Self::new(&self.batch, at, at + 1))
    }

    /// Bytes of the records, an LF behind each.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.batch.start(self.to) - self.batch.start(self.from)
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = RecordRef<'_>> {
        (self.from..self.to).filter_map(|at| self.batch.record(at))
    }

    /// Shows the records as they came in: as many at once as there are without marks, or one with marks.
    pub fn visit_runs(&self, see: &mut dyn FnMut(RecordRun<'_>)) {
        let batch = &*self.batch;
        let mut from = self.from;
        while from < self.to {
            let marked = |at: &usize| batch.flags.get(*at).is_some_and(|marks| *marks != 0);
            let to = if batch.flags.is_empty() {
                self.to
            } else if marked(&from) {
                from + 1
            } else {
                (from..self.to).find(marked).unwrap_or(self.to)
            };
            let lines = batch.text.get(batch.start(from)..batch.start(to)).unwrap_or_default();
            if let (Some(first), Some(last)) = (batch.id(from), batch.id(to - 1)) {
                let flags = batch.flags.get(from).copied().unwrap_or_default();
                see(RecordRun { first, last, flags, records: to - from, lines, buffer: &batch.text });
            }
            from = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    #[test]
    fn a_long_record_takes_its_memory_once() {
        let (labels, text) = (Labels::default(), vec![b'a'; 1 << 20]);
        let mut builder = RecordBatchBuilder::new(Order::Ascending);
        for (number, text) in [(1, &b"short"[..]), (2, &text), (3, b"short")] {
            builder.push(RecordRef {
                id: Id::from_bits(number),
                nanos: 0,
                flags: 0,
                labels: &labels,
                text,
                is_stored: false,
            });
        }
        let [_, text] = builder.finish();
        assert_eq!(text.len(), (1 << 20) + 13);
        let mut builder = RecordBatchBuilder::new(Order::Ascending);
        builder.push(RecordRef { id: Id::MIN, nanos: 0, flags: 0, labels: &labels, text: &text, is_stored: false });
        assert!(builder.text.capacity() < text.len() + 100, "{}", builder.text.capacity());
    }

    use super::*;
    use crate::match_buffer::OwnedRecord;
    use bucksaw_rpc::MessageReader;

    fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
        let record = (0_u64..4, 0_u64..2, 0_u32..30, 0_u32..3, 0_u8..4, 0_usize..3, any::<bool>(), "[a\n]{0,6}");
        prop::collection::vec(record, 1..40).prop_map(|all| {
            let record =
                |(at, producer, sequence, nanos, marks, stream, stored, text): (_, _, _, _, _, usize, _, String)| {
                    OwnedRecord {
                        id: Id::new(Millis(at), Producer::new(producer), sequence),
                        nanos: if nanos == 0 { 999_999 } else { 0 },
                        flags: if marks == 3 { 1 } else { 0 },
                        labels: Labels::parse(["", "app=a", "app=b,x=y"][stream]).unwrap(),
                        text: text.into_bytes(),
                        is_stored: stored,
                    }
                };
            all.into_iter().map(record).collect()
        })
    }

    fn encode(order: Order, records: &[OwnedRecord]) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(order);
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
        fn batches_come_back(mut records in records(), down in any::<bool>()) {
            let order = if down { Order::Descending } else { Order::Ascending };
            records.sort_by_key(|record| order.key(record.id));
            records.dedup_by_key(|record| record.id);
            let batch = Arc::new(decode(&encode(order, &records)).unwrap());
            prop_assert_eq!((batch.order(), batch.len()), (order, records.len()));
            let stretch = BatchSlice::new(&batch, 0, batch.len());
            let back: Vec<OwnedRecord> = stretch.records().map(RecordRef::to_owned_record).collect();
            prop_assert_eq!(format!("{back:?}"), format!("{records:?}"));
            let (mut lines, mut count) = (Vec::new(), 0);
            stretch.visit_runs(&mut |run| {
                assert!(run.flags == 0 || run.records == 1);
                assert_eq!(run.share_lines(), run.lines);
                lines.extend_from_slice(run.lines);
                count += run.records;
            });
            let want: Vec<u8> = records.iter().flat_map(|record| [&record.text[..], b"\n"].concat()).collect();
            prop_assert_eq!((lines, count), (want, records.len()));
            prop_assert_eq!(stretch.bytes(), batch.text.len());
        }

        #[test]
        fn other_bytes_are_refused_or_hold(mut records in records(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            records.sort_by_key(|record| record.id);
            records.dedup_by_key(|record| record.id);
            let bytes = encode(Order::Ascending, &records);
            let mut content = bytes[9..].to_vec();
            let at = at.index(content.len());
            content[at] = byte;
            if let Ok(batch) = RecordBatch::decode(&content.into()) {
                let batch = Arc::new(batch);
                prop_assert!(batch.ids().is_sorted_by_key(|id| batch.order().key(*id)));
                prop_assert_eq!(BatchSlice::new(&batch, 0, batch.len()).records().count(), batch.len());
            }
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = RecordBatch::decode(&bytes.into());
        }
    }

    #[test]
    fn what_is_out_of_order_is_refused() {
        let record = |sequence| OwnedRecord {
            id: Id::new(Millis(1), Producer::new(1), sequence),
            nanos: 0,
            flags: 0,
            labels: Labels::default(),
            text: b"x".to_vec(),
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
