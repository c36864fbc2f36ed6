//! The columns beside a frame's text: what cannot be said once for all of its rows.
//!
//! ```text
//!   flag      column   for each row (times, lengths), or for each marked row (marks)
//!   1 TIMES   times    zigzag varint: ms − ms of the row before (of the first id for row 0); varint: ns below the ms
//!   2 LENGTHS lengths  varint: bytes of the record, its LF not counted
//!   4 MARKS   marks    varint: rows since the marked row before; a byte: the marks      (a varint before: how many)
//! ```
//! A column is there only when its flag is set; they follow each other in this order and fill the space exactly.

use bucksaw_record::{Id, Marks, Millis};

use crate::varint::{Reader, put, put_step};
use crate::{Rows, Run};

const TIMES: u8 = 1;
const LENGTHS: u8 = 2;
const MARKS: u8 = 4;

/// Nanoseconds in a millisecond; what is stated below the millisecond is less.
const NANOS: u64 = 1_000_000;

/// What is said of single rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// The time of every row and its nanoseconds below the millisecond; `None` when all have the time of the first id.
    pub times: Option<Vec<(Millis, u32)>>,
    /// The length of every record; `None` when each line is a record.
    pub lengths: Option<Vec<u32>>,
    /// Rows that were cut or came without a line end.
    pub marks: Marks,
}

impl Sides {
    /// Sides that only mark rows.
    #[must_use]
    pub fn marked(marks: Marks) -> Self {
        Self { marks, ..Self::default() }
    }

    /// Appends the columns and returns their flags. `base` is the time in the frame's first id.
    pub fn encode(&self, base: Millis, out: &mut Vec<u8>) -> u8 {
        let mut flags = 0;
        if let Some(times) = &self.times {
            flags |= TIMES;
            let mut before = base;
            for (at, nanos) in times {
                put_step(out, before.0, at.0);
                put(out, u64::from(*nanos));
                before = *at;
            }
        }
        if let Some(lengths) = &self.lengths {
            flags |= LENGTHS;
            for length in lengths {
                put(out, u64::from(*length));
            }
        }
        if !self.marks.is_empty() {
            flags |= MARKS;
            encode_marks(&self.marks, out);
        }
        flags
    }

    /// The columns that [`Self::encode`] wrote for `count` rows; `None` when the bytes are damaged.
    #[must_use]
    pub fn decode(flags: u8, bytes: &[u8], base: Millis, count: u32) -> Option<Self> {
        if flags & !(TIMES | LENGTHS | MARKS) != 0 {
            return None;
        }
        let mut reader = Reader(bytes);
        let mut sides = Self::default();
        if flags & TIMES != 0 {
            let mut times = Vec::with_capacity(reader.len().min(count as usize));
            let mut before = base.0;
            for _ in 0..count {
                before = reader.step(before).filter(|ms| *ms <= Millis::MAX.0)?;
                let nanos = reader.varint().filter(|nanos| *nanos < NANOS)?;
                times.push((Millis(before), nanos as u32));
            }
            sides.times = Some(times);
        }
        if flags & LENGTHS != 0 {
            let mut lengths = Vec::with_capacity(reader.len().min(count as usize));
            for _ in 0..count {
                lengths.push(reader.varint_u32()?);
            }
            sides.lengths = Some(lengths);
        }
        if flags & MARKS != 0 {
            sides.marks = decode_marks(&mut reader, count)?;
        }
        reader.is_empty().then_some(sides)
    }

    /// The rows that these sides and the first id describe. `None` when the sequence numbers would overflow.
    #[must_use]
    pub fn into_rows(self, first: Id, count: u32, accepted: Millis) -> Option<Rows> {
        first.step(count.checked_sub(1)?)?;
        let mut rows = Rows { marks: self.marks, lengths: self.lengths, accepted, ..Rows::default() };
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
        debug_assert_eq!(rows.runs.iter().map(|run: &Run| run.count).sum::<u32>(), count);
        Some(rows)
    }
}

pub(crate) fn encode_marks(marks: &Marks, out: &mut Vec<u8>) {
    put(out, marks.len() as u64);
    let mut before = 0;
    for (row, bits) in marks.iter() {
        put(out, u64::from(row - before));
        out.push(bits);
        before = row;
    }
}

pub(crate) fn decode_marks(reader: &mut Reader<'_>, count: u32) -> Option<Marks> {
    let mut marks = Marks::none();
    let mut row = 0_u32;
    let marked = reader.varint_u32()?;
    for at in 0..marked {
        let step = reader.varint_u32()?;
        if at > 0 && step == 0 {
            return None;
        }
        row = row.checked_add(step).filter(|row| *row < count)?;
        marks.push(row, reader.u8()?);
    }
    Some(marks)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bucksaw_record::Producer;
    use proptest::prelude::*;

    prop_compose! {
        /// Sides for `1..20` rows, with their count.
        pub(crate) fn any_sides()(count in 1_u32..20)(
            count in Just(count),
            times in prop::option::of(prop::collection::vec((0..=Millis::MAX.0, 0_u32..NANOS as u32), count as usize)),
            lengths in prop::option::of(prop::collection::vec(any::<u32>(), count as usize)),
            marked in prop::collection::btree_map(0..count, 1_u8..4, 0..4),
        ) -> (u32, Sides) {
            let mut marks = Marks::none();
            marked.into_iter().for_each(|(row, bits)| marks.push(row, bits));
            let times = times.map(|times| times.into_iter().map(|(ms, nanos)| (Millis(ms), nanos)).collect());
            (count, Sides { times, lengths, marks })
        }
    }

    proptest! {
        #[test]
        fn columns_come_back((count, sides) in any_sides(), base in 0..=Millis::MAX.0) {
            let mut out = Vec::new();
            let flags = sides.encode(Millis(base), &mut out);
            prop_assert_eq!(Sides::decode(flags, &out, Millis(base), count), Some(sides.clone()));
            out.push(0);
            prop_assert_eq!(Sides::decode(flags, &out, Millis(base), count), None);
        }

        #[test]
        fn any_bytes_decode_or_fail(flags: u8, bytes in prop::collection::vec(any::<u8>(), 0..64), count: u32) {
            let _ = Sides::decode(flags, &bytes, Millis(0), count);
        }

        #[test]
        fn rows_have_the_stated_times((count, sides) in any_sides()) {
            let first = Id::new(Millis(77), Producer::new(3), 5);
            let rows = sides.clone().into_rows(first, count, Millis(80)).unwrap();
            prop_assert_eq!(rows.count, count);
            for row in 0..count {
                let (at, nanos) = sides.times.as_ref().map_or((Millis(77), 0), |times| times[row as usize]);
                prop_assert_eq!(rows.id(row), Some(Id::new(at, first.producer(), 5 + row)));
                prop_assert_eq!(rows.nanos(row), nanos);
            }
        }
    }

    #[test]
    fn sequence_numbers_do_not_overflow() {
        let first = Id::new(Millis(1), Producer::new(1), u32::MAX);
        assert!(Sides::default().into_rows(first, 1, Millis(1)).is_some());
        assert!(Sides::default().into_rows(first, 2, Millis(1)).is_none());
        assert!(Sides::default().into_rows(first, 0, Millis(1)).is_none());
    }
}
