//! Groups rows into chunks: one per stream, in the order in which the rows come.

use std::collections::HashMap;
use std::sync::Arc;

use bucksaw_record::{AttributeNames, AttributeShape, Id, Labels, Millis};
use bucksaw_segment::{Chunk, Rows};
use memchr::memchr_iter;

use crate::row_decoder::{RowFields, RowText, TableRow};

/// Rows of a group; the next one begins a new group.
const GROUP_ROWS_MAX: usize = 4_096;

/// Bytes of text of a group, except for a longer record.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Rows by stream.
#[derive(Debug, Default)]
pub(crate) struct RowsByStream {
    streams: Vec<StreamRows>,
    /// Streams by their encoded labels.
    by_labels: HashMap<Vec<u8>, usize>,
    /// The encoded names of the last row with attributes.
    names: Option<(Vec<u8>, AttributeNames)>,
    rows: usize,
    bytes: usize,
    last_id: Option<Id>,
    /// Rows that are no records, because another program changed the table.
    pub(crate) invalid_rows: u64,
}

#[derive(Debug)]
struct StreamRows {
    labels: Labels,
    rows: Rows,
    text: Vec<u8>,
}

impl RowsByStream {
    /// Adds a row, unless it has the id of the row before, as that of a repeated insert. Returns whether the group is full.
    pub(crate) fn add(&mut self, row: TableRow<'_>) -> bool {
        // Rows come in the order of their ids.
        if self.last_id == Some(row.id) {
            return false;
        }
        if self.add_record(row).is_none() {
            self.invalid_rows += 1;
        }
        self.last_id = Some(row.id);
        self.rows >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX
    }

    fn add_record(&mut self, row: TableRow<'_>) -> Option<()> {
        let names = match row.text.map(|text| text.names) {
            None | Some([0]) => None,
            Some(encoded) => Some(self.attribute_names(encoded)?),
        };
        let stream = self.stream(row.labels)?;
        let (number, before) = (stream.rows.count, stream.text.len());
        if let Some(text) = row.text
            && stream.add_text(number, text, names.as_ref()).is_none()
        {
            stream.text.truncate(before);
            return None;
        }
        stream.rows.push_run(row.id, 1);
        let added = stream.text.len() - before;
        self.bytes += added;
        self.rows += 1;
        Some(())
    }

    fn stream(&mut self, encoded: &[u8]) -> Option<&mut StreamRows> {
        let known = self.by_labels.get(encoded).copied();
        let at = match known {
            Some(at) => at,
            None => {
                let labels = Labels::new(RowFields(encoded).pairs()?).ok()?;
                self.streams.push(StreamRows { labels, rows: Rows::default(), text: Vec::new() });
                self.by_labels.insert(encoded.to_vec(), self.streams.len() - 1);
                self.streams.len() - 1
            }
        };
        self.streams.get_mut(at)
    }

    fn attribute_names(&mut self, encoded: &[u8]) -> Option<AttributeNames> {
        if let Some((known, names)) = &self.names
            && known == encoded
        {
            return Some(names.clone());
        }
        let texts: Option<Vec<&str>> = RowFields(encoded).texts().map(|text| str::from_utf8(text).ok()).collect();
        let names = AttributeNames::new(texts?).ok()?;
        self.names = Some((encoded.to_vec(), names.clone()));
        Some(names)
    }

    /// Passes the chunks to `visit` and begins a new group.
    pub(crate) fn take<R>(&mut self, visit: impl FnOnce(&[Chunk<'_>]) -> R) -> R {
        let streams = std::mem::take(&mut self.streams);
        self.by_labels.clear();
        (self.rows, self.bytes) = (0, 0);
        let (rows, texts): (Vec<_>, Vec<_>) =
            streams.into_iter().map(|StreamRows { labels, rows, text }| ((labels, Arc::new(rows)), text)).unzip();
        let chunks: Vec<Chunk<'_>> = rows
            .iter()
            .zip(&texts)
            .map(|((labels, rows), text)| Chunk { labels, rows: Arc::clone(rows), text })
            .collect();
        visit(&chunks)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl StreamRows {
    /// Appends line and values as the text of the next row; `None` if the row is no record.
    fn add_text(&mut self, number: u32, row: RowText<'_>, names: Option<&AttributeNames>) -> Option<()> {
        self.text.extend_from_slice(row.line);
        self.text.push(b'\n');
        let mut lines = 1 + count_line_ends(row.line);
        let mut value_lines = Vec::new();
        for value in RowFields(row.values).texts() {
            self.text.extend_from_slice(value);
            self.text.push(b'\n');
            value_lines.push(1 + count_line_ends(value));
        }
        if value_lines.len() != names.map_or(0, AttributeNames::len) {
            return None;
        }
        lines += value_lines.iter().sum::<u32>();
        if lines != 1 && self.rows.lines.is_none() {
            self.rows.lines = Some(vec![1; number as usize]);
        }
        if let Some(list) = &mut self.rows.lines {
            list.push(lines);
        }
        if let Some(names) = names {
            self.rows.attributes.push_row(number, AttributeShape { names, value_lines: &value_lines });
        }
        if row.flags != 0 {
            self.rows.flags.push(number, row.flags);
        }
        if (1..1_000_000).contains(&row.nanos) {
            self.rows.nanos.push((number, row.nanos));
        }
        let accepted = Millis(u64::try_from(row.accepted_ms).unwrap_or_default());
        self.rows.accepted = self.rows.accepted.max(accepted);
        Some(())
    }
}

fn count_line_ends(text: &[u8]) -> u32 {
    u32::try_from(memchr_iter(b'\n', text).count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Producer, RecordView};
    use proptest::prelude::*;

    use super::*;
    use crate::row_decoder::RowBuffer;
    use crate::row_encoder::RowEncoder;

    /// What a record has: sequence number, stream, line, values of attributes, flags, nanoseconds.
    type SampleRecord = (u32, bool, Vec<u8>, Vec<Vec<u8>>, u8, u32);

    fn id(sequence: u32) -> Id {
        Id::new(Millis(1_764_000_000_000), Producer::new(7), sequence)
    }

    fn labels(second: bool) -> Labels {
        let quoted = [("app", "a'\"\\`\0{}"), ("path", "/x\n\t")];
        if second { Labels::new(quoted).unwrap() } else { Labels::default() }
    }

    fn names(count: usize) -> AttributeNames {
        AttributeNames::new((0..count).map(|number| format!("n{}", number / 2))).unwrap()
    }

    /// Encodes each record as a chunk of its own.
    fn encode(records: &[SampleRecord]) -> Vec<u8> {
        let mut encoder = RowEncoder::default();
        for (sequence, second, line, values, flags, nanos) in records {
            let mut text = [line.as_slice(), b"\n"].concat();
            values.iter().for_each(|value| text.extend([value.as_slice(), b"\n"].concat()));
            let mut rows = Rows { accepted: Millis(9), ..Rows::default() };
            rows.push_run(id(*sequence), 1);
            let lines_of = |text: &[u8]| 1 + count_line_ends(text);
            rows.lines = Some(vec![lines_of(line) + values.iter().map(|value| lines_of(value)).sum::<u32>()]);
            if !values.is_empty() {
                let value_lines: Vec<u32> = values.iter().map(|value| lines_of(value)).collect();
                rows.attributes.push_row(0, AttributeShape { names: &names(values.len()), value_lines: &value_lines });
            }
            if *flags > 0 {
                rows.flags.push(0, *flags);
            }
            if *nanos > 0 {
                rows.nanos.push((0, *nanos));
            }
            let labels = labels(*second);
            let chunk = Chunk { labels: &labels, rows: Arc::new(rows), text: &text };
            encoder.add(&chunk, usize::MAX, &mut |_| Ok::<(), ()>(())).unwrap();
        }
        encoder.take()
    }

    /// The inserted layout as the read one: ClickHouse is left out.
    fn as_read(inserted: &[u8], count: usize) -> Vec<u8> {
        let (mut out, mut fields) = (Vec::new(), RowFields(inserted));
        for _ in 0..count {
            let id = fields.u128().unwrap().to_le_bytes();
            let _time = fields.u64().unwrap();
            let head = fields.0.get(..13).unwrap();
            fields = RowFields(fields.0.get(13..).unwrap());
            let start = fields;
            let mut probe = RowFields(&[]);
            // A row without head: labels follow the id.
            let with_id = [id.as_slice(), start.0].concat();
            probe.0 = &with_id;
            let labels = probe.row(false).unwrap().labels.len();
            out.extend_from_slice(&id);
            out.extend_from_slice(start.0.get(..labels).unwrap());
            out.extend_from_slice(head);
            let rest = start.0.get(labels..).unwrap();
            let whole = [id.as_slice(), b"\0", head, rest].concat();
            let mut row = RowFields(&whole);
            row.row(true).unwrap();
            let length = whole.len() - row.0.len() - 16 - 1 - 13;
            out.extend_from_slice(rest.get(..length).unwrap());
            fields = RowFields(rest.get(length..).unwrap());
        }
        assert!(fields.0.is_empty());
        out
    }

    type Found = (u128, Labels, Vec<u8>, Vec<(String, Vec<u8>)>, u8, u32);

    fn decode(bytes: &[u8]) -> Vec<Found> {
        let (mut group, mut buffer, mut found) = (RowsByStream::default(), RowBuffer::default(), Vec::new());
        assert!(buffer.add(bytes, &mut |fields| fields.row(true).map(|row| !group.add(row))) && buffer.is_empty());
        assert_eq!(group.invalid_rows, 0);
        group.take(|chunks| {
            for chunk in chunks {
                assert_eq!(chunk.records().count(), chunk.rows.count as usize);
                for (row, text) in (0..).zip(chunk.records()) {
                    let view = RecordView::new(text, chunk.rows.attributes(row));
                    let attributes =
                        view.attributes().into_iter().map(|(name, value)| (name.to_owned(), value.to_vec()));
                    found.push((
                        chunk.rows.id(row).unwrap().bits(),
                        chunk.labels.clone(),
                        view.line().to_vec(),
                        attributes.collect(),
                        chunk.rows.flags.get(row),
                        chunk.rows.nanos(row),
                    ));
                }
            }
        });
        found.sort_by_key(|found| found.0);
        found
    }

    fn want(record: &SampleRecord) -> Found {
        let (sequence, second, line, values, flags, nanos) = record.clone();
        let attributes = values.into_iter().enumerate().map(|(at, value)| (format!("n{}", at / 2), value));
        (id(sequence).bits(), labels(second), line, attributes.collect(), flags, nanos)
    }

    #[test]
    fn equal_ids_are_one_record() {
        let record = |sequence| (sequence, false, b"x".to_vec(), Vec::new(), 0, 0);
        let records = [record(1), record(1), record(2), record(2), record(2)];
        assert_eq!(decode(&as_read(&encode(&records), 5)).len(), 2);
    }

    #[test]
    fn rows_of_another_program_are_counted() {
        let mut group = RowsByStream::default();
        let text = |names, values| RowText { accepted_ms: -1, nanos: 0, flags: 0, names, values, line: b"x" };
        for (at, (labels, text)) in [
            (&b"\x01\x011\x01a"[..], text(&[0][..], &[0][..])),
            (b"\x01\x01\xff\x01a", text(&[0], &[0])),
            (b"\0", text(b"\x01\x01a", &[0])),
            (b"\0", text(b"\x01\0", b"\x01\x01x")),
        ]
        .into_iter()
        .enumerate()
        {
            group.add(TableRow { id: id(at as u32), labels, text: Some(text) });
        }
        assert_eq!((group.invalid_rows, group.is_empty()), (4, true));
        group.take(|chunks| assert!(chunks.iter().all(|chunk| chunk.rows.count == 0 && chunk.text.is_empty())));
    }

    proptest! {
        #[test]
        fn records_survive_the_table(
            drawn in prop::collection::vec((
                any::<bool>(),
                prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..20),
                prop::collection::vec(prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..8), 0..4),
                0..4_u8,
                0..1_000_000_u32,
            ), 1..12)
        ) {
            let records: Vec<SampleRecord> = (0..).zip(drawn)
                .map(|(sequence, (second, line, values, flags, nanos))| (sequence, second, line, values, flags, nanos))
                .collect();
            let found = decode(&as_read(&encode(&records), records.len()));
            prop_assert_eq!(found, records.iter().map(want).collect::<Vec<_>>());
        }
    }
}
