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
    /// Adds a piece and passes the whole rows to `visit` until it returns false.
    pub(crate) fn add(&mut self, piece: &[u8], has_text: bool, visit: &mut dyn FnMut(TableRow<'_>) -> bool) -> bool {
        self.bytes.extend_from_slice(piece);
        let mut fields = RowFields(&self.bytes);
        let mut wanted = true;
        while wanted {
            let before = fields;
            match fields.row(has_text) {
                Some(row) => wanted = visit(row),
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
                buffer.add(piece, true, &mut |row| {
                    let text = row.text.unwrap();
                    assert_eq!(RowFields(row.labels).texts().collect::<Vec<_>>(), [b"app".as_slice(), b"shop"]);
                    assert_eq!((text.accepted_ms, text.nanos, text.flags), (7, 9, 2));
                    assert_eq!(RowFields(text.values).texts().collect::<Vec<_>>(), [b"xy"]);
                    assert_eq!((text.line, text.names), (b"line\n".as_slice(), b"\x01\x01a".as_slice()));
                    ids.push(row.id.bits());
                    true
                });
            }
            assert_eq!((ids.as_slice(), buffer.is_empty()), ([1, 2, 3].as_slice(), true));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), has_text: bool) {
            let mut buffer = RowBuffer::default();
            buffer.add(&bytes, has_text, &mut |_| true);
            prop_assert!(buffer.len() <= bytes.len());
        }
    }
}
