//! Row metadata: columns beside a frame's text for what differs between its rows.
//!
//! ```text
//!   bit       column   for each row (times, lengths), or for each row with flags
//!   1 TIMES   times    zigzag varint: ms − ms of the previous row (of the first id for row 0); varint: ns below the ms
//!   2 LENGTHS lengths  varint: bytes of the record, its LF not counted
//!   4 FLAGS   flags    varint: rows since the previous such row; a byte: the flags      (preceded by a varint: count)
//! ```
//! A column is present if its layout bit is set. The columns are in this order, and fill the space exactly.

use bucksaw_record::{Flags, Id, Millis};

use crate::varint::{Reader, put_delta, put_varint};
use crate::{IdRun, Rows};

const TIMES_BIT: u8 = 1;
const LENGTHS_BIT: u8 = 2;
const FLAGS_BIT: u8 = 4;

/// Nanoseconds per millisecond: an exclusive bound.
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Times, lengths and flags of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMeta {
    /// Time, and nanoseconds below the millisecond, of every row; `None` if all have the time of the first id.
    pub times: Option<Vec<(Millis, u32)>>,
    /// The length of every record; `None` if each line is a record.
    pub lengths: Option<Vec<u32>>,
    /// Rows that were cut or ended without a line end.
    pub flags: Flags,
}

impl RowMeta {
    /// Metadata that has flags only.
    #[must_use]
    pub fn with_flags(flags: Flags) -> Self {
        Self { flags, ..Self::default() }
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
        if let Some(lengths) = &self.lengths {
            layout_bits |= LENGTHS_BIT;
            for length in lengths {
                put_varint(out, u64::from(*length));
            }
        }
        if !self.flags.is_empty() {
            layout_bits |= FLAGS_BIT;
            encode_flags(&self.flags, out);
        }
        layout_bits
    }

    /// Decodes the columns of `count` rows; `None` if the bytes are damaged.
    #[must_use]
    pub fn decode(layout_bits: u8, bytes: &[u8], base: Millis, count: u32) -> Option<Self> {
        if layout_bits & !(TIMES_BIT | LENGTHS_BIT | FLAGS_BIT) != 0 {
            return None;
        }
        let mut reader = Reader(bytes);
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
        if layout_bits & LENGTHS_BIT != 0 {
            let mut lengths = Vec::with_capacity(reader.len().min(count as usize));
            for _ in 0..count {
                lengths.push(reader.varint_u32()?);
            }
            row_meta.lengths = Some(lengths);
        }
        if layout_bits & FLAGS_BIT != 0 {
            row_meta.flags = decode_flags(&mut reader, count)?;
        }
        reader.is_empty().then_some(row_meta)
    }

    /// The rows from the first id on; `None` if the sequence numbers would overflow.
    #[must_use]
    pub fn into_rows(self, first: Id, count: u32, accepted: Millis) -> Option<Rows> {
        first.checked_add(count.checked_sub(1)?)?;
        let mut rows = Rows { flags: self.flags, lengths: self.lengths, accepted, ..Rows::default() };
        match self.times {
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

pub(crate) fn decode_flags(reader: &mut Reader<'_>, count: u32) -> Option<Flags> {
    let mut flags = Flags::empty();
    let mut row = 0_u32;
    let marked = reader.varint_u32()?;
    for at in 0..marked {
        let step = reader.varint_u32()?;
        if at > 0 && step == 0 {
            return None;
        }
        row = row.checked_add(step).filter(|row| *row < count)?;
        flags.push(row, reader.u8()?);
    }
    Some(flags)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bucksaw_record::Producer;
    use proptest::prelude::*;

    prop_compose! {
        /// Row metadata for `1..20` rows, with their count.
        pub(crate) fn any_row_meta()(count in 1_u32..20)(
            count in Just(count),
            times in prop::option::of(prop::collection::vec((0..=Millis::MAX.0, 0_u32..NANOS_PER_MILLI as u32), count as usize)),
            lengths in prop::option::of(prop::collection::vec(any::<u32>(), count as usize)),
            flagged in prop::collection::btree_map(0..count, 1_u8..4, 0..4),
        ) -> (u32, RowMeta) {
            let mut flags = Flags::empty();
            flagged.into_iter().for_each(|(row, bits)| flags.push(row, bits));
            let times = times.map(|times| times.into_iter().map(|(ms, nanos)| (Millis(ms), nanos)).collect());
            (count, RowMeta { times, lengths, flags })
        }
    }

    proptest! {
        #[test]
        fn columns_round_trip((count, row_meta) in any_row_meta(), base in 0..=Millis::MAX.0) {
            let mut out = Vec::new();
            let layout_bits = row_meta.encode(Millis(base), &mut out);
            prop_assert_eq!(RowMeta::decode(layout_bits, &out, Millis(base), count), Some(row_meta.clone()));
            out.push(0);
            prop_assert_eq!(RowMeta::decode(layout_bits, &out, Millis(base), count), None);
        }

        #[test]
        fn any_bytes_decode_or_fail(flags: u8, bytes in prop::collection::vec(any::<u8>(), 0..64), count: u32) {
            let _ = RowMeta::decode(flags, &bytes, Millis(0), count);
        }

        #[test]
        fn rows_have_the_stated_times((count, row_meta) in any_row_meta()) {
            let first = Id::new(Millis(77), Producer::new(3), 5);
            let rows = row_meta.clone().into_rows(first, count, Millis(80)).unwrap();
            prop_assert_eq!(rows.count, count);
            for row in 0..count {
                let (at, nanos) = row_meta.times.as_ref().map_or((Millis(77), 0), |times| times[row as usize]);
                prop_assert_eq!(rows.id(row), Some(Id::new(at, first.producer(), 5 + row)));
                prop_assert_eq!(rows.nanos(row), nanos);
            }
        }
    }

    #[test]
    fn sequence_numbers_do_not_overflow() {
        let first = Id::new(Millis(1), Producer::new(1), u32::MAX);
        assert!(RowMeta::default().into_rows(first, 1, Millis(1)).is_some());
        assert!(RowMeta::default().into_rows(first, 2, Millis(1)).is_none());
        assert!(RowMeta::default().into_rows(first, 0, Millis(1)).is_none());
    }
}
