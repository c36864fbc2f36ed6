//! Writes a stored segment from front to back.

use std::io;
use std::sync::Arc;

use bucksaw_columns::Encoder;
use bucksaw_env::File;
use bucksaw_record::Id;

use super::footer::{BlockEntry, ColumnEntry, Footer, FooterLocation, MergeInfo};
use super::reader::PackedBlock;
use super::stream_table::StreamTable;
use super::{END_MAGIC, HEADER_LEN, KIND, backup, recovery};
use crate::block::PackedColumn;
use crate::{BlockBuilder, Codec, FileHeader, RecordSummary, zstd_context};

/// A footer is a hundredth of its segment, so a low level is enough.
const FOOTER_LEVEL: i32 = 3;

/// Writes blocks, and finally the footer. A file whose writer is dropped before [`Self::seal`] is invalid.
#[derive(Debug)]
pub struct Writer {
    file: Arc<dyn File>,
    header: FileHeader,
    offset: u64,
    footer: Footer,
    streams: StreamTable,
    encoder: Encoder,
}

/// Where the records of a segment come from.
#[derive(Clone, Debug, Default)]
pub struct SegmentOrigin {
    /// The queue segments that were gathered.
    pub sources: Vec<Id>,
    /// The merge, if the segment is the output of one.
    pub merge: Option<MergeInfo>,
}

impl Writer {
    /// Starts a segment of this version in an empty file. Version 1 cannot hold records of several lines.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn start(file: Arc<dyn File>, header: FileHeader) -> io::Result<Self> {
        file.append(&[&KIND.encode_header(header)])?;
        Ok(Self {
            file,
            header,
            offset: HEADER_LEN as u64,
            footer: Footer::default(),
            streams: StreamTable::default(),
            encoder: Encoder::new(),
        })
    }

    /// Compresses and writes the block of a builder; writes nothing if that is empty.
    ///
    /// # Errors
    /// If the file cannot be written; it is then invalid.
    pub fn append(&mut self, builder: &mut BlockBuilder, codec: Codec) -> io::Result<()> {
        let Some(packed) = builder.pack(codec, &mut self.encoder) else { return Ok(()) };
        let entry = BlockEntry {
            offset: self.offset,
            rows: column_entry(&packed.rows)?,
            text: column_entry(&packed.text)?,
            crc: crc32c::crc32c_append(crc32c::crc32c(&packed.rows.bytes), &packed.text.bytes),
            filter_len: checked_len(packed.filter.len())?,
            filter_crc: crc32c::crc32c(&packed.filter),
            summary: packed.summary,
            streams: packed.streams.iter().map(|labels| self.streams.number(labels)).collect(),
        };
        self.write(&[packed.rows.bytes, packed.text.bytes, packed.filter].concat(), entry)
    }

    /// Copies a block of another segment.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn copy_block(&mut self, block: &PackedBlock) -> io::Result<()> {
        let streams = block.streams.iter().map(|labels| self.streams.number(labels)).collect();
        self.write(&block.bytes, BlockEntry { offset: self.offset, streams, ..block.entry.clone() })
    }

    fn write(&mut self, block: &[u8], entry: BlockEntry) -> io::Result<()> {
        let record = recovery::encode(block, &entry, self.header.id);
        self.file.append(&[block, &record])?;
        self.offset += (block.len() + record.len()) as u64;
        self.footer.blocks.push(entry);
        Ok(())
    }

    /// The summary of the blocks so far.
    pub fn summary(&self) -> RecordSummary {
        self.footer.summary()
    }

    /// Writes the footer and syncs the file.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn seal(mut self, origin: SegmentOrigin) -> io::Result<Footer> {
        let SegmentOrigin { sources, merge } = origin;
        self.footer = Footer { sources, merge, streams: self.streams.into_streams(), ..self.footer };
        let raw = self.footer.encode();
        let packed = zstd_context::compress(&raw, FOOTER_LEVEL)?;
        let (packed_len, raw_len) = (checked_len(packed.len())?, checked_len(raw.len())?);
        let mut location = FooterLocation { offset: self.offset, packed_len, raw_len, crc: crc32c::crc32c(&packed) };
        let backup = backup::encode_tail(&location, self.header);
        location.offset += (packed.len() + backup.len()) as u64;
        let mut trailer = Vec::with_capacity(super::TRAILER_LEN);
        location.encode(&mut trailer);
        trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.file.append(&[&packed, &backup, &packed, &trailer])?;
        self.file.sync()?;
        Ok(self.footer)
    }
}

fn column_entry(column: &PackedColumn) -> io::Result<ColumnEntry> {
    let (packed_len, raw_len) = (checked_len(column.bytes.len())?, checked_len(column.raw_len)?);
    Ok(ColumnEntry { codec: column.codec.byte(), packed_len, raw_len })
}

fn checked_len(bytes: usize) -> io::Result<u32> {
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= super::COLUMN_BYTES_MAX);
    fits.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a column of a block is too large"))
}
