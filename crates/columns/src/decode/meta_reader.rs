//! Reads the encoded tree of columns.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

/// A position in the encoded tree.
pub(crate) struct MetaReader<'m> {
    pub(crate) bytes: &'m [u8],
    pub(crate) at: usize,
}

impl MetaReader<'_> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn size(&mut self) -> Option<usize> {
        let size = self.varint()?;
        u32::try_from(size).ok().map(|size| size as usize)
    }

    pub(crate) fn range(&mut self) -> Option<Range<usize>> {
        let len = self.size()?;
        let range = self.at..self.at.checked_add(len)?;
        self.bytes.get(range.clone())?;
        self.at = range.end;
        Some(range)
    }
}
