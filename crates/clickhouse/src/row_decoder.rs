//! Reads rows in ClickHouse's `RowBinary` format out of bytes that arrive in pieces.

use bucksaw_record::Id;

/// RowFields of a row, as they are in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRow<'a> {
    pub(crate) id: Id,
    /// The labels, encoded.
    pub(crate) labels: &'a [u8],
    /// `None` in a read of ids.
    pub(crate) text: Option<RowText<'a>>,
}

/// Ids with one time and producer, of any stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdGroup<'a> {
    /// The id with sequence number 0.
    base: Id,
    /// The lowest and the highest sequence number.
    low: u32,
    high: u32,
    /// The sequence numbers, ascending; none if all from the lowest to the highest are there.
    sequences: &'a [u8],
}

impl IdGroup<'_> {
    /// The ids as runs: the first, and the number of consecutive ones.
    pub(crate) fn runs(&self) -> Vec<(Id, u32)> {
        let id = |sequence: u32| Id::from_bits(self.base.bits() | u128::from(sequence));
        if self.sequences.is_empty() {
            // All 2³² numbers are too many for one run.
            return match self.high.saturating_sub(self.low).checked_add(1) {
                Some(count) => vec![(id(self.low), count)],
                None => vec![(id(0), 1 << 31), (id(1 << 31), 1 << 31)],
            };
        }
        let mut runs: Vec<(Id, u32)> = Vec::new();
        for bytes in self.sequences.as_chunks::<4>().0 {
            let next = id(u32::from_le_bytes(*bytes));
            match runs.last_mut() {
                Some((first, count)) if first.bits() + u128::from(*count) == next.bits() => *count += 1,
                _ => runs.push((next, 1)),
            }
        }
        runs
    }
}

/// What a read of ids leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowText<'a> {
    pub(crate) accepted_ms: i64,
    pub(crate) nanos: u32,
    pub(crate) flags: u8,
    /// The names of the attributes, encoded.
    pub(crate) names: &'a [u8],
    /// Their values, encoded.
    pub(crate) values: &'a [u8],
    pub(crate) line: &'a [u8],
}

/// A position in bytes. A method returns `None` if they end before the value does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowFields<'a>(pub(crate) &'a [u8]);

impl<'a> RowFields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A number of up to 64 bits; more bits are dropped, and make a length that no bytes follow.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..).step_by(7).take(10) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        Some(u64::MAX)
    }

    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The bytes of a list: a number, and `texts` texts for each.
    fn list(&mut self, texts: u64) -> Option<&'a [u8]> {
        let start = self.0;
        let count = self.varint()?;
        for _ in 0..count.checked_mul(texts)? {
            self.text()?;
        }
        start.get(..start.len() - self.0.len())
    }

    /// The texts of a list.
    pub(crate) fn texts(mut self) -> impl Iterator<Item = &'a [u8]> {
        // The number is not needed: the bytes end with the list.
        let _ = self.varint();
        std::iter::from_fn(move || self.text())
    }

    /// A map of texts; `None` also if one is not UTF-8.
    pub(crate) fn pairs(&mut self) -> Option<Vec<(&'a str, &'a str)>> {
        let texts: Option<Vec<&str>> = RowFields(self.list(2)?).texts().map(|text| str::from_utf8(text).ok()).collect();
        Some(texts?.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect())
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A group of ids.
    pub(crate) fn id_group(&mut self) -> Option<IdGroup<'a>> {
        let (stem, producer) = (self.u64()?, self.u32()?);
        let base = Id::from_bits(u128::from(stem) << 64 | u128::from(producer) << 32);
        let (low, high) = (self.u32()?, self.u32()?);
        let count = usize::try_from(self.varint()?).ok()?;
        let sequences = self.take(count.checked_mul(4)?)?;
        Some(IdGroup { base, low, high, sequences })
    }

    /// A row, with or without text.
    pub(crate) fn row(&mut self, has_text: bool) -> Option<TableRow<'a>> {
        let id = Id::from_bits(self.u128()?);
        let labels = self.list(2)?;
        let text = match has_text {
            false => None,
            true => Some(RowText {
                accepted_ms: self.array().map(i64::from_le_bytes)?,
                nanos: self.array().map(u32::from_le_bytes)?,
                flags: self.array().map(u8::from_le_bytes)?,
                names: self.list(1)?,
                values: self.list(1)?,
                line: self.text()?,
            }),
        };
        Some(TableRow { id, labels, text })
    }
}

/// Bytes that have arrived and are no whole row yet.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    bytes: Vec<u8>,
}

impl RowBuffer {
    /// Adds a piece and calls `next` for each row. It reads the row and returns whether another one is wanted; `None` if the bytes
    /// end before the row does.
    pub(crate) fn add(&mut self, piece: &[u8], next: &mut dyn FnMut(&mut RowFields<'_>) -> Option<bool>) -> bool {
        self.bytes.extend_from_slice(piece);
        let mut fields = RowFields(&self.bytes);
        let mut wanted = true;
        while wanted {
            let before = fields;
            match next(&mut fields) {
                Some(goes_on) => wanted = goes_on,
                None => {
                    fields = before;
                    break;
                }
            }
        }
        let read = self.bytes.len() - fields.0.len();
        self.bytes.drain(..read);
        wanted
    }

    /// Whether all bytes were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_read_from_pieces_of_any_size() {
        let mut bytes = Vec::new();
        for id in 1_u128..4 {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(b"\x01\x03app\x04shop");
            bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2]);
            bytes.extend_from_slice(b"\x01\x01a\x01\x02xy\x05line\n");
        }
        for size in 1..bytes.len() {
            let (mut buffer, mut ids) = (RowBuffer::default(), Vec::new());
            for piece in bytes.chunks(size) {
                buffer.add(piece, &mut |fields| {
                    let row = fields.row(true)?;
                    let text = row.text.unwrap();
                    assert_eq!(RowFields(row.labels).texts().collect::<Vec<_>>(), [b"app".as_slice(), b"shop"]);
                    assert_eq!((text.accepted_ms, text.nanos, text.flags), (7, 9, 2));
                    assert_eq!(RowFields(text.values).texts().collect::<Vec<_>>(), [b"xy"]);
                    assert_eq!((text.line, text.names), (b"line\n".as_slice(), b"\x01\x01a".as_slice()));
                    ids.push(row.id.bits());
                    Some(true)
                });
            }
            assert_eq!((ids.as_slice(), buffer.is_empty()), ([1, 2, 3].as_slice(), true));
        }
    }

    /// A group as ClickHouse writes it.
    fn group_bytes(low: u32, high: u32, sequences: &[u32]) -> Vec<u8> {
        let mut bytes = [&7_u64.to_le_bytes()[..], &9_u32.to_le_bytes()].concat();
        bytes.extend([low.to_le_bytes(), high.to_le_bytes()].concat());
        bytes.push(sequences.len() as u8);
        sequences.iter().for_each(|sequence| bytes.extend(sequence.to_le_bytes()));
        bytes
    }

    #[test]
    fn groups_of_ids_are_runs() {
        let check = |low, high, sequences: &[u32], want: &[(u32, u32)]| {
            let bytes = group_bytes(low, high, sequences);
            let mut fields = RowFields(&bytes);
            let runs = fields.id_group().unwrap().runs();
            let want = want.iter().map(|(first, count)| (7 << 64 | 9 << 32 | u128::from(*first), *count));
            assert!(runs.into_iter().map(|(first, count)| (first.bits(), count)).eq(want) && fields.0.is_empty());
        };
        check(5, 5, &[], &[(5, 1)]);
        check(0, 999, &[], &[(0, 1_000)]);
        check(0, u32::MAX, &[], &[(0, 1 << 31), (1 << 31, 1 << 31)]);
        check(2, 9, &[2, 3, 4, 8, 9], &[(2, 3), (8, 2)]);
        check(u32::MAX - 1, u32::MAX, &[], &[(u32::MAX - 1, 2)]);
        check(0, u32::MAX, &[0, u32::MAX], &[(0, 1), (u32::MAX, 1)]);
        let bytes = group_bytes(2, 9, &[2, 9]);
        (0..bytes.len()).for_each(|cut| assert_eq!(RowFields(&bytes[..cut]).id_group(), None));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0..3) {
            let mut buffer = RowBuffer::default();
            buffer.add(&bytes, &mut |fields| match kind {
                0 => fields.row(true).map(|_| true),
                1 => fields.row(false).map(|_| true),
                _ => fields.id_group().map(|group| group.runs().len() < 99),
            });
            prop_assert!(buffer.len() <= bytes.len());
        }
    }
}
