//! The footer of a shelf segment: what each block holds, so that a query opens no block in vain.
//!
//! ```text
//!   varint streams, then for each: varint bytes · the labels
//!   varint sources, then for each: 16 bytes: a queue segment whose records are in here
//!   a byte: 1 when a merge made this; then 16 bytes its id · varint files that it made · varint inputs, for each 16 bytes
//!   varint blocks, then for each:
//!     varint offset
//!     rows column, text column: for each  a byte codec · varint packed bytes · varint unpacked bytes
//!     4 bytes crc32c over the packed columns
//!     varint bytes of the filter · 4 bytes crc32c over it
//!     reach
//!     varint streams, then for each: varint number in the table above
//! ```

use bucksaw_record::{Id, Labels};

use crate::varint::{Reader, put};
use crate::{Codec, Reach};

/// Bytes in a footer that an id, a block and a block's stream have at least: what bounds the room that is made for them.
const ID_BYTES: usize = 16;
const BLOCK_BYTES_MIN: usize = 45;
const BLOCK_STREAM_BYTES_MIN: usize = 1;

/// What a shelf segment holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footer {
    /// Every stream of the segment, once.
    pub streams: Vec<Labels>,
    /// The queue segments that were gathered into this one. Until their own node forgets them, they must not be answered
    /// from beside this.
    pub sources: Vec<Id>,
    /// The merge that made this segment, if one did.
    pub merge: Option<Merge>,
    /// The blocks, by lowest id.
    pub blocks: Vec<BlockEntry>,
}

/// A merge replaces its inputs by what it made, once all of that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The same in all files that the merge made.
    pub id: Id,
    /// How many files it made.
    pub parts: u32,
    /// The segments that it read.
    pub inputs: Vec<Id>,
}

/// Where a block lies and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockEntry {
    /// Offset in the file.
    pub at: u64,
    /// The column that says what is known of the rows.
    pub(crate) rows: ColumnEntry,
    /// The column of the text.
    pub(crate) text: ColumnEntry,
    /// CRC-32C over both packed columns.
    pub(crate) crc: u32,
    /// Bytes of the filter; 0 when there is none.
    pub(crate) filter_len: u32,
    /// CRC-32C over the filter.
    pub(crate) filter_crc: u32,
    /// What the block reaches over.
    pub reach: Reach,
    /// Its streams, by number in the footer.
    pub streams: Vec<u32>,
}

/// The sizes of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnEntry {
    pub(crate) codec: u8,
    pub(crate) packed_len: u32,
    pub(crate) raw_len: u32,
}

impl BlockEntry {
    /// Bytes that the block takes in the file.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        self.columns_bytes() + u64::from(self.filter_len)
    }

    /// Bytes that [`Reader::rows`](super::Reader::rows) reads of the block.
    #[must_use]
    pub fn rows_bytes(&self) -> u64 {
        u64::from(self.rows.packed_len)
    }

    /// How the text is packed, without the level.
    #[must_use]
    pub fn text_codec(&self) -> Option<Codec> {
        Codec::from_byte(self.text.codec)
    }

    /// Bytes of both packed columns.
    pub(crate) fn columns_bytes(&self) -> u64 {
        u64::from(self.rows.packed_len) + u64::from(self.text.packed_len)
    }
}

impl ColumnEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.codec);
        put(out, u64::from(self.packed_len));
        put(out, u64::from(self.raw_len));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let codec = reader.u8().filter(|byte| Codec::from_byte(*byte).is_some())?;
        let entry = Self { codec, packed_len: reader.varint_u32()?, raw_len: reader.varint_u32()? };
        let bounded = |length: u32| length as usize <= super::COLUMN_BYTES_MAX;
        (bounded(entry.packed_len) && bounded(entry.raw_len)).then_some(entry)
    }
}

impl Footer {
    /// What the whole segment reaches over.
    #[must_use]
    pub fn reach(&self) -> Reach {
        let mut reach = Reach::default();
        self.blocks.iter().for_each(|block| reach.join(&block.reach));
        reach
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        let streams = piece(self.streams.capacity() * size_of::<Labels>());
        let labels = self.streams.iter().map(labels_memory);
        let ids = self.sources.capacity() + self.merge.as_ref().map_or(0, |merge| merge.inputs.capacity());
        let blocks = piece(self.blocks.capacity() * size_of::<BlockEntry>());
        let of_block =
            |block: &BlockEntry| piece(block.streams.capacity() * size_of::<u32>()) + piece(block.reach.memory());
        let of_blocks: usize = self.blocks.iter().map(of_block).sum();
        streams + labels.sum::<usize>() + piece(ids * ID_BYTES) + blocks + of_blocks
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.streams.len() as u64);
        for labels in &self.streams {
            let mut bytes = Vec::new();
            labels.encode(&mut bytes);
            put(&mut out, bytes.len() as u64);
            out.extend_from_slice(&bytes);
        }
        put(&mut out, self.sources.len() as u64);
        self.sources.iter().for_each(|source| out.extend_from_slice(&source.bits().to_le_bytes()));
        out.push(u8::from(self.merge.is_some()));
        if let Some(merge) = &self.merge {
            out.extend_from_slice(&merge.id.bits().to_le_bytes());
            put(&mut out, u64::from(merge.parts));
            put(&mut out, merge.inputs.len() as u64);
            merge.inputs.iter().for_each(|input| out.extend_from_slice(&input.bits().to_le_bytes()));
        }
        put(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            put(&mut out, block.at);
            block.rows.encode(&mut out);
            block.text.encode(&mut out);
            out.extend_from_slice(&block.crc.to_le_bytes());
            put(&mut out, u64::from(block.filter_len));
            out.extend_from_slice(&block.filter_crc.to_le_bytes());
            block.reach.encode(&mut out);
            put(&mut out, block.streams.len() as u64);
            block.streams.iter().for_each(|stream| put(&mut out, u64::from(*stream)));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut footer = Self::default();
        for _ in 0..reader.varint()? {
            let length = usize::try_from(reader.varint()?).ok()?;
            footer.streams.push(Labels::decode(reader.bytes(length)?).ok()?);
        }
        footer.streams.shrink_to_fit();
        let count = reader.varint()?;
        footer.sources = room(&reader, count, ID_BYTES);
        for _ in 0..count {
            footer.sources.push(Id::from_bits(reader.u128()?));
        }
        footer.merge = Self::decode_merge(&mut reader)?;
        let count = reader.varint()?;
        footer.blocks = room(&reader, count, BLOCK_BYTES_MIN);
        for _ in 0..count {
            let block = Self::decode_block(&mut reader, footer.streams.len())?;
            footer.blocks.push(block);
        }
        reader.is_empty().then_some(footer)
    }

    fn decode_merge(reader: &mut Reader<'_>) -> Option<Option<Merge>> {
        if reader.u8()? == 0 {
            return Some(None);
        }
        let mut merge = Merge { id: Id::from_bits(reader.u128()?), parts: reader.varint_u32()?, inputs: Vec::new() };
        let count = reader.varint()?;
        merge.inputs = room(reader, count, ID_BYTES);
        for _ in 0..count {
            merge.inputs.push(Id::from_bits(reader.u128()?));
        }
        Some(Some(merge))
    }

    fn decode_block(reader: &mut Reader<'_>, streams_known: usize) -> Option<BlockEntry> {
        let at = reader.varint()?;
        let rows = ColumnEntry::decode(reader)?;
        let text = ColumnEntry::decode(reader)?;
        let crc = reader.u32()?;
        let filter_len = reader.varint_u32().filter(|len| *len as usize <= super::FILTER_BYTES_MAX)?;
        let filter_crc = reader.u32()?;
        let reach = Reach::decode(reader)?;
        let count = reader.varint()?;
        let mut streams = room(reader, count, BLOCK_STREAM_BYTES_MIN);
        for _ in 0..count {
            streams.push(reader.varint_u32().filter(|stream| (*stream as usize) < streams_known)?);
        }
        Some(BlockEntry { at, rows, text, crc, filter_len, filter_crc, reach, streams })
    }
}

/// An empty list with room for exactly what is to come, and for no more than the bytes that are left can hold.
fn room<T>(reader: &Reader<'_>, count: u64, bytes_min: usize) -> Vec<T> {
    Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX).min(reader.len() / bytes_min))
}

/// Memory of the labels of a stream: each name and each value is a piece of its own.
fn labels_memory(labels: &Labels) -> usize {
    const COUNTS: usize = 2 * size_of::<usize>();
    let pairs = labels.iter().count() * size_of::<(Box<str>, Box<str>)>();
    piece(COUNTS + pairs) + labels.iter().map(|(name, value)| piece(name.len()) + piece(value.len())).sum::<usize>()
}

/// Memory of a piece of this number of bytes, as the allocator of glibc gives it.
fn piece(bytes: usize) -> usize {
    const HEAD: usize = 8;
    const STEP: usize = 16;
    const LEAST: usize = 32;
    if bytes == 0 { 0 } else { (bytes + HEAD).next_multiple_of(STEP).max(LEAST) }
}
