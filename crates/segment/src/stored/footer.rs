//! The footer of a stored segment: what each block contains, so that a query opens only blocks that it needs. Format:
//! `docs/format.md`, "Footer".

use std::path::Path;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use crate::encryption::{DecryptError, Decryptor, SegmentPart};
use crate::{Codec, FileHeader, ReadError, RecordSummary, zstd_context};

/// Minimum bytes of an id, of a block and of a block's stream in a footer. They bound the memory that a count can cause.
const ID_BYTES: usize = 16;
const BLOCK_BYTES_MIN: usize = 45;
const BLOCK_STREAM_BYTES_MIN: usize = 1;

/// The content of a stored segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footer {
    /// Every stream of the segment, once.
    pub streams: Vec<Labels>,
    /// The queue segments that were gathered into this one. An answer with this segment must not read them too.
    pub sources: Vec<Id>,
    /// The merge that wrote this segment, if it is the output of one.
    pub merge: Option<MergeInfo>,
    /// The blocks, by lowest id.
    pub blocks: Vec<BlockEntry>,
}

/// A merge. Its outputs replace its inputs once all outputs exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeInfo {
    /// The same in all outputs.
    pub id: Id,
    /// Number of outputs.
    pub output_count: u32,
    /// The segments that it merged.
    pub inputs: Vec<Id>,
}

/// The position and content of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockEntry {
    /// Offset in the file.
    pub offset: u64,
    /// The rows column.
    pub(crate) rows: ColumnEntry,
    /// The text column.
    pub(crate) text: ColumnEntry,
    /// CRC-32C over both packed columns.
    pub(crate) crc: u32,
    /// Bytes of the filter; 0 if the block has none.
    pub(crate) filter_len: u32,
    /// CRC-32C over the filter.
    pub(crate) filter_crc: u32,
    /// The summary of its records.
    pub summary: RecordSummary,
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
    /// Bytes of the block in the file.
    pub fn packed_bytes(&self) -> u64 {
        self.columns_bytes() + u64::from(self.filter_len)
    }

    /// Bytes that [`Reader::rows`](super::Reader::rows) reads.
    pub fn rows_bytes(&self) -> u64 {
        u64::from(self.rows.packed_len)
    }

    /// The codec of the text, without its level.
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
        put_varint(out, u64::from(self.packed_len));
        put_varint(out, u64::from(self.raw_len));
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        let codec = reader.u8().filter(|byte| Codec::from_byte(*byte).is_some())?;
        let entry = Self { codec, packed_len: reader.varint_u32()?, raw_len: reader.varint_u32()? };
        let bounded = |length: u32| length as usize <= super::COLUMN_BYTES_MAX;
        (bounded(entry.packed_len) && bounded(entry.raw_len)).then_some(entry)
    }
}

impl Footer {
    /// The summary of the whole segment.
    pub fn summary(&self) -> RecordSummary {
        let mut summary = RecordSummary::default();
        self.blocks.iter().for_each(|block| summary.merge(&block.summary));
        summary
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        let streams = allocation_size(self.streams.capacity() * size_of::<Labels>());
        let labels = self.streams.iter().map(labels_memory);
        let ids = self.sources.capacity() + self.merge.as_ref().map_or(0, |merge| merge.inputs.capacity());
        let blocks = allocation_size(self.blocks.capacity() * size_of::<BlockEntry>());
        let of_block = |block: &BlockEntry| {
            allocation_size(block.streams.capacity() * size_of::<u32>()) + allocation_size(block.summary.memory())
        };
        let of_blocks: usize = self.blocks.iter().map(of_block).sum();
        streams + labels.sum::<usize>() + allocation_size(ids * ID_BYTES) + blocks + of_blocks
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.streams.len() as u64);
        for labels in &self.streams {
            let mut bytes = Vec::new();
            labels.encode(&mut bytes);
            put_varint(&mut out, bytes.len() as u64);
            out.extend_from_slice(&bytes);
        }
        put_varint(&mut out, self.sources.len() as u64);
        self.sources.iter().for_each(|source| out.extend_from_slice(&source.bits().to_le_bytes()));
        out.push(u8::from(self.merge.is_some()));
        if let Some(merge) = &self.merge {
            out.extend_from_slice(&merge.id.bits().to_le_bytes());
            put_varint(&mut out, u64::from(merge.output_count));
            put_varint(&mut out, merge.inputs.len() as u64);
            merge.inputs.iter().for_each(|input| out.extend_from_slice(&input.bits().to_le_bytes()));
        }
        put_varint(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            put_varint(&mut out, block.offset);
            block.rows.encode(&mut out);
            block.text.encode(&mut out);
            out.extend_from_slice(&block.crc.to_le_bytes());
            put_varint(&mut out, u64::from(block.filter_len));
            out.extend_from_slice(&block.filter_crc.to_le_bytes());
            block.summary.encode(&mut out);
            put_varint(&mut out, block.streams.len() as u64);
            block.streams.iter().for_each(|stream| put_varint(&mut out, u64::from(*stream)));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(bytes);
        let mut footer = Self::default();
        for _ in 0..reader.varint()? {
            let length = usize::try_from(reader.varint()?).ok()?;
            footer.streams.push(Labels::decode(reader.bytes(length)?).ok()?);
        }
        footer.streams.shrink_to_fit();
        let count = reader.varint()?;
        footer.sources = bounded_vec(&reader, count, ID_BYTES);
        for _ in 0..count {
            footer.sources.push(Id::from_bits(reader.u128()?));
        }
        footer.merge = Self::decode_merge(&mut reader)?;
        let count = reader.varint()?;
        footer.blocks = bounded_vec(&reader, count, BLOCK_BYTES_MIN);
        for _ in 0..count {
            let block = Self::decode_block(&mut reader, footer.streams.len())?;
            footer.blocks.push(block);
        }
        reader.is_empty().then_some(footer)
    }

    fn decode_merge(reader: &mut ByteReader<'_>) -> Option<Option<MergeInfo>> {
        if reader.u8()? == 0 {
            return Some(None);
        }
        let mut merge =
            MergeInfo { id: Id::from_bits(reader.u128()?), output_count: reader.varint_u32()?, inputs: Vec::new() };
        let count = reader.varint()?;
        merge.inputs = bounded_vec(reader, count, ID_BYTES);
        for _ in 0..count {
            merge.inputs.push(Id::from_bits(reader.u128()?));
        }
        Some(Some(merge))
    }

    fn decode_block(reader: &mut ByteReader<'_>, streams_known: usize) -> Option<BlockEntry> {
        let offset = reader.varint()?;
        let rows = ColumnEntry::decode(reader)?;
        let text = ColumnEntry::decode(reader)?;
        let crc = reader.u32()?;
        let filter_len = reader.varint_u32().filter(|len| *len as usize <= super::FILTER_BYTES_MAX)?;
        let filter_crc = reader.u32()?;
        let summary = RecordSummary::decode(reader)?;
        let count = reader.varint()?;
        let mut streams = bounded_vec(reader, count, BLOCK_STREAM_BYTES_MIN);
        for _ in 0..count {
            streams.push(reader.varint_u32().filter(|stream| (*stream as usize) < streams_known)?);
        }
        Some(BlockEntry { offset, rows, text, crc, filter_len, filter_crc, summary, streams })
    }
}

/// The position of a packed footer, as the trailer after it states it.
pub(super) struct FooterLocation {
    pub(super) offset: u64,
    pub(super) packed_len: u32,
    pub(super) raw_len: u32,
    pub(super) crc: u32,
}

/// A footer, and what decrypts the blocks of its file if they are encrypted.
pub(super) type OpenedFooter = (Footer, Option<Decryptor>);

impl FooterLocation {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        for field in [self.packed_len, self.raw_len, self.crc] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self { offset: reader.u64()?, packed_len: reader.u32()?, raw_len: reader.u32()?, crc: reader.u32()? })
    }

    /// Whether the footer ends at `at` and its size is within bounds.
    pub(super) fn ends_at(&self, at: u64) -> bool {
        self.offset.checked_add(u64::from(self.packed_len)) == Some(at)
            && self.raw_len as usize <= super::COLUMN_BYTES_MAX
    }

    /// Reads the footer of the segment with this header. Returns what decrypts its other parts, if it is encrypted.
    pub(super) fn read_footer(
        &self,
        file: &dyn File,
        path: &Path,
        header: FileHeader,
    ) -> Result<OpenedFooter, ReadError> {
        let mut packed = file.read_bytes(self.offset, self.packed_len as usize).map_err(ReadError::io(path))?;
        if crc32c::crc32c(&packed) != self.crc {
            return Err(ReadError::damaged(path, self.offset, "the checksum of the footer is wrong"));
        }
        let decryptor = header.is_encrypted().then(|| Decryptor::new(file, &super::KIND, header.id));
        if let Some(decryptor) = &decryptor {
            let decrypted = decryptor.decrypt(&SegmentPart::Footer.context(), packed);
            packed = decrypted.map_err(|error| match error {
                DecryptError::NoKey(key) => ReadError::MissingKey { path: path.to_owned(), key },
                DecryptError::Changed => ReadError::damaged(path, self.offset, "the footer does not decrypt"),
            })?;
        }
        let raw = zstd_context::decompress(&packed, self.raw_len as usize);
        let footer = raw.and_then(|raw| Footer::decode(&raw));
        let footer = footer.ok_or_else(|| ReadError::damaged(path, self.offset, "the footer cannot be decoded"))?;
        Ok((footer, decryptor))
    }
}

/// An empty list with capacity for `count` values, but no more than the remaining bytes can contain.
fn bounded_vec<T>(reader: &ByteReader<'_>, count: u64, bytes_min: usize) -> Vec<T> {
    Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX).min(reader.len() / bytes_min))
}

/// Memory of the labels of a stream. Each name and each value is an allocation.
fn labels_memory(labels: &Labels) -> usize {
    const COUNTS: usize = 2 * size_of::<usize>();
    let pairs = labels.iter().count() * size_of::<(Box<str>, Box<str>)>();
    allocation_size(COUNTS + pairs)
        + labels.iter().map(|(name, value)| allocation_size(name.len()) + allocation_size(value.len())).sum::<usize>()
}

/// Memory of an allocation of this size, as in glibc.
fn allocation_size(bytes: usize) -> usize {
    const HEAD: usize = 8;
    const STEP: usize = 16;
    const LEAST: usize = 32;
    if bytes == 0 { 0 } else { (bytes + HEAD).next_multiple_of(STEP).max(LEAST) }
}
