//! Row metadata: columns beside a frame's text for what differs between its rows.
//!
//! ```text
//!   bit          column      for each row (times, lines), each row with flags, or each run of rows (attributes)
//!   1 TIMES      times       zigzag varint: ms − ms of the previous row (of the first id for row 0); varint: ns below the ms
//!   2 LINES      lines       varint: lines of the record, its attributes included
//!   4 FLAGS      flags       varint: rows since the previous such row; a byte: the flags      (preceded by a varint: count)
//!   8 ATTRIBUTES attributes  see `attribute_column.rs`
//! ```
//! A column is present if its layout bit is set. The columns are in this order, and fill the space exactly.

use bucksaw_binary::{ByteReader, put_delta, put_varint};
use bucksaw_record::{Flags, Id, Millis, RowAttributes};

use crate::attribute_column::{decode_attributes, encode_attributes};
use crate::{IdRun, Rows};

const TIMES_BIT: u8 = 1;
const LINES_BIT: u8 = 2;
const FLAGS_BIT: u8 = 4;
const ATTRIBUTES_BIT: u8 = 8;

/// Nanoseconds per millisecond: an exclusive bound.
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Times, lines, flags and attributes of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMeta {
    /// Time, and nanoseconds below the millisecond, of every row; `None` if all have the time of the first id.
    pub times: Option<Vec<(Millis, u32)>>,
    /// The number of lines of every record, its attributes included; `None` if each line is a record.
    pub lines: Option<Vec<u32>>,
    /// Rows that were cut or ended without a line end.
    pub flags: Flags,
    /// The attributes of the rows.
    pub attributes: RowAttributes,
}

impl RowMeta {
    /// Whether frames with these layout bits need version 2 of a file.
    pub fn needs_version_2(layout_bits: u8) -> bool {
        layout_bits & (LINES_BIT | ATTRIBUTES_BIT) != 0
    }

    /// Appends the columns and returns the layout bits. `base` is the time of the frame's first id.
    pub fn encode(&self, base: Millis, out: &mut Vec<u8>) -> u8 {
        let mut layout_bits = 0;
        if let Some(times) = &self.times {
            layout_bits |= TIMES_BIT;
            let mut before = base;
            for (at, nanos) in times {
                put_delta(out, before.0, at.0);
                put_varint(out, u64::from(*nanos));
                before = *at;
            }
        }
        if let Some(lines) = &self.lines {
            layout_bits |= LINES_BIT;
            for lines in lines {
                put_varint(out, u64::from(*lines));
            }
        }
        if !self.flags.is_empty() {
            layout_bits |= FLAGS_BIT;
            encode_flags(&self.flags, out);
        }
        if !self.attributes.is_empty() {
            layout_bits |= ATTRIBUTES_BIT;
            encode_attributes(&self.attributes, out);
        }
        layout_bits
    }

    /// Decodes the columns of `count` rows; `None` if the bytes are damaged.
    pub fn decode(layout_bits: u8, bytes: &[u8], base: Millis, count: u32) -> Option<Self> {
        if layout_bits & !(TIMES_BIT | LINES_BIT | FLAGS_BIT | ATTRIBUTES_BIT) != 0 {
            return None;
        }
        let mut reader = ByteReader(bytes);
        let mut row_meta = Self::default();
        if layout_bits & TIMES_BIT != 0 {
            let mut times = Vec::with_capacity(reader.len().min(count as usize));
            let mut before = base.0;
            for _ in 0..count {
                before = reader.delta(before).filter(|ms| *ms <= Millis::MAX.0)?;
                let nanos = reader.varint().filter(|nanos| *nanos < NANOS_PER_MILLI)?;
                times.push((Millis(before), nanos as u32));
            }
            row_meta.times = Some(times);
        }
        if layout_bits & LINES_BIT != 0 {
            let mut lines = Vec::with_capacity(reader.len().min(count as usize));
            for _ in 0..count {
                lines.push(reader.varint_u32().filter(|lines| *lines > 0)?);
            }
            row_meta.lines = Some(lines);
        }
        if layout_bits & FLAGS_BIT != 0 {
            row_meta.flags = decode_flags(&mut reader, count)?;
        }
        if layout_bits & ATTRIBUTES_BIT != 0 {
            row_meta.attributes = decode_attributes(&mut reader, count, row_meta.lines.as_deref())?;
        }
        reader.is_empty().then_some(row_meta)
    }

    /// The lowest and the highest id of the `count` rows from the first id on, by the encoded columns; `None` if the times are
    /// damaged.
    pub(crate) fn id_range(layout_bits: u8, bytes: &[u8], first: Id, count: u32) -> Option<(Id, Id)> {
        if layout_bits & TIMES_BIT == 0 {
            return Some((first, first.checked_add(count.checked_sub(1)?)?));
        }
        let mut reader = ByteReader(bytes);
        let (mut before, mut range) = (first.time().0, None);
        for row in 0..count {
            before = reader.delta(before).filter(|ms| *ms <= Millis::MAX.0)?;
            reader.varint()?;
            let id = Id::new(Millis(before), first.producer(), first.sequence().checked_add(row)?);
            let (low, high) = range.unwrap_or((id, id));
            range = Some((id.min(low), id.max(high)));
        }
        range
    }

    /// The rows from the first id on; `None` if the sequence numbers would overflow.
    pub fn into_rows(self, first: Id, count: u32, accepted: Millis) -> Option<Rows> {
        first.checked_add(count.checked_sub(1)?)?;
        let Self { times, lines, flags, attributes } = self;
        let mut rows = Rows { flags, lines, attributes, accepted, ..Rows::default() };
        match times {
            None => rows.push_run(first, count),
            Some(times) => {
                for (row, (at, nanos)) in (0..count).zip(times) {
                    rows.push_run(Id::new(at, first.producer(), first.sequence() + row), 1);
                    if nanos != 0 {
                        rows.nanos.push((row, nanos));
                    }
                }
            }
        }
        debug_assert_eq!(rows.runs.iter().map(|run: &IdRun| run.count).sum::<u32>(), count);
        Some(rows)
    }
}

pub(crate) fn encode_flags(flags: &Flags, out: &mut Vec<u8>) {
    put_varint(out, flags.len() as u64);
    let mut before = 0;
    for (row, bits) in flags.iter() {
        put_varint(out, u64::from(row - before));
        out.push(bits);
        before = row;
    }
}

pub(crate) fn decode_flags(reader: &mut ByteReader<'_>, count: u32) -> Option<Flags> {
    let mut flags = Flags::empty();
    let mut row = 0_u32;
    let marked = reader.varint_u32()?;
    for at in 0..marked {
        let step = reader.varint_u32().filter(|step| at == 0 || *step > 0)?;
        row = row.checked_add(step).filter(|row| *row < count)?;
        flags.push(row, reader.u8()?);
    }
    Some(flags)
}

#[cfg(test)]
pub(crate) mod tests;
