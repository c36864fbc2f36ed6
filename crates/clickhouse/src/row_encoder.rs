//! Records as rows in ClickHouse's `RowBinary` format, in the order of [`COLUMNS`](crate::table::COLUMNS).
//!
//! Format: <https://clickhouse.com/docs/interfaces/formats/RowBinary>. Integers are little-endian; strings, arrays and maps start with
//! their length as a varint (LEB128).

use bucksaw_record::{Id, RecordView};
use bucksaw_segment::Chunk;

/// The latest time that the column `time` can hold, in milliseconds: 2262. The id has the exact time.
const TIME_MS_MAX: u64 = 9_223_372_036_000;

/// Encodes the records of chunks.
#[derive(Debug, Default)]
pub(crate) struct RowEncoder {
    /// The rows so far.
    pub(crate) bytes: Vec<u8>,
    /// Their number.
    pub(crate) rows: u64,
    labels: Vec<u8>,
}

impl RowEncoder {
    /// Adds the records of a chunk. Calls `on_full` whenever the rows have reached `bytes_max`; it takes them.
    pub(crate) fn add<E>(
        &mut self,
        chunk: &Chunk<'_>,
        bytes_max: usize,
        on_full: &mut dyn FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.labels.clear();
        put_varint(&mut self.labels, chunk.labels.iter().count() as u64);
        for (name, value) in chunk.labels.iter() {
            put_text(&mut self.labels, name.as_bytes());
            put_text(&mut self.labels, value.as_bytes());
        }
        let accepted = chunk.rows.accepted.0.min(TIME_MS_MAX);
        let ids = chunk
            .rows
            .runs
            .iter()
            .flat_map(|run| (0..run.count).map(move |step| Id::from_bits(run.first_id.bits() + u128::from(step))));
        for ((row, text), id) in (0..).zip(chunk.records()).zip(ids) {
            let view = RecordView::new(text, chunk.rows.attributes(row));
            self.add_row(id, view, accepted, chunk.rows.nanos(row), chunk.rows.flags.get(row));
            if self.bytes.len() >= bytes_max {
                on_full(self)?;
            }
        }
        Ok(())
    }

    fn add_row(&mut self, id: Id, record: RecordView<'_>, accepted: u64, nanos: u32, flags: u8) {
        let out = &mut self.bytes;
        out.extend_from_slice(&id.bits().to_le_bytes());
        let ms = id.time().0.min(TIME_MS_MAX);
        out.extend_from_slice(&(ms * 1_000_000 + u64::from(nanos)).to_le_bytes());
        out.extend_from_slice(&accepted.to_le_bytes());
        out.extend_from_slice(&nanos.to_le_bytes());
        out.push(flags);
        out.extend_from_slice(&self.labels);
        let attributes = record.attributes();
        put_varint(out, attributes.len() as u64);
        attributes.iter().for_each(|(name, _)| put_text(out, name.as_bytes()));
        put_varint(out, attributes.len() as u64);
        attributes.iter().for_each(|(_, value)| put_text(out, value));
        put_text(out, record.line());
        self.rows += 1;
    }

    /// The rows; this is empty afterwards.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.rows = 0;
        std::mem::take(&mut self.bytes)
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
