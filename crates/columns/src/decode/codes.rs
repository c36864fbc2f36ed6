//! Dictionary codes and table ids in as few bytes as they need.
//!
//! Most dictionaries have fewer than 256 values. Codes of one byte are read in the unpacked frame, without widening:
//! building a tenth of the rows is bound by memory, and a cache line holds four times as many bytes as words.
#![deny(clippy::indexing_slicing)]

use crate::decode::column_tree::{CodePlanesRef, Payload};

/// The codes of a column.
#[derive(Debug)]
pub(crate) enum DecodedCodes {
    /// One byte each, read from the frame.
    Packed(Payload),
    Bytes(Vec<u8>),
    Pairs(Vec<u16>),
    Words(Vec<u32>),
}

/// A view of the codes of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CodesRef<'b> {
    Bytes(&'b [u8]),
    Pairs(&'b [u16]),
    Words(&'b [u32]),
}

impl CodesRef<'_> {
    #[inline]
    pub(crate) fn get(self, at: usize) -> Option<usize> {
        match self {
            Self::Bytes(ids) => ids.get(at).map(|id| *id as usize),
            Self::Pairs(ids) => ids.get(at).map(|id| *id as usize),
            Self::Words(ids) => ids.get(at).map(|id| *id as usize),
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bytes(ids) => ids.len(),
            Self::Pairs(ids) => ids.len(),
            Self::Words(ids) => ids.len(),
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let (bytes, pairs, words): (&[u8], &[u16], &[u32]) = match self {
            Self::Bytes(ids) => (ids, &[], &[]),
            Self::Pairs(ids) => (&[], ids, &[]),
            Self::Words(ids) => (&[], &[], ids),
        };
        let pairs = pairs.iter().map(|id| *id as usize);
        bytes.iter().map(|id| *id as usize).chain(pairs).chain(words.iter().map(|id| *id as usize))
    }
}

impl DecodedCodes {
    /// Reads codes; `None` if one is not below the bound.
    pub(crate) fn read(planes: &[u8], ids: &CodePlanesRef) -> Option<Self> {
        if ids.width == 1 {
            let below = planes.iter().all(|id| u32::from(*id) < ids.bound);
            return below.then_some(Self::Packed(ids.planes));
        }
        let count = planes.len() / ids.width as usize;
        if ids.width == 2 {
            let (low, high) = planes.split_at_checked(count)?;
            let pairs: Vec<u16> = low.iter().zip(high).map(|(low, high)| u16::from_le_bytes([*low, *high])).collect();
            return pairs.iter().all(|id| u32::from(*id) < ids.bound).then_some(Self::Pairs(pairs));
        }
        let mut out: Vec<u32> = planes.iter().take(count).map(|byte| u32::from(*byte)).collect();
        for (at, plane) in planes.chunks_exact(count.max(1)).enumerate().skip(1) {
            out.iter_mut().zip(plane).for_each(|(id, byte)| *id |= u32::from(*byte) << (at * 8));
        }
        out.iter().all(|id| *id < ids.bound).then_some(Self::Words(out))
    }

    /// Maps each code; `None` if a code has no mapping.
    pub(crate) fn mapped(ids: CodesRef<'_>, map: CodesRef<'_>) -> Option<Self> {
        match map {
            CodesRef::Bytes(map) => map_all(ids, |id| map.get(id).copied()).map(Self::Bytes),
            CodesRef::Pairs(map) => map_all(ids, |id| map.get(id).copied()).map(Self::Pairs),
            CodesRef::Words(map) => map_all(ids, |id| map.get(id).copied()).map(Self::Words),
        }
    }

    /// Memory in bytes, without the frames.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Packed(_) => 0,
            Self::Bytes(ids) => ids.len(),
            Self::Pairs(ids) => ids.len() * 2,
            Self::Words(ids) => ids.len() * 4,
        }
    }
}

/// All codes mapped, in memory that is taken once; `None` if a code has no mapping.
fn map_all<C>(codes: CodesRef<'_>, map: impl Fn(usize) -> Option<C>) -> Option<Vec<C>> {
    let mut mapped = Vec::with_capacity(codes.len());
    for code in codes.iter() {
        mapped.push(map(code)?);
    }
    Some(mapped)
}
