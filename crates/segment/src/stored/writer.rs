//! Writing a store segment, once from front to back.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bucksaw_columns::Encoder;
use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use super::footer::{BlockEntry, ColumnEntry, Footer, MergeInfo};
use super::reader::PackedBlock;
use super::{END_MAGIC, HEADER_LEN, MAGIC, VERSION};
use super::{backup, recovery};
use crate::block::PackedColumn;
use crate::{BlockBuilder, Codec, RecordSummary, zstd_context};

/// A footer is a hundredth of its segment, so a little time packs it well enough.
const FOOTER_LEVEL: i32 = 3;

/// Writes blocks, and finally the footer. A file whose writer is dropped before [`Self::seal`] is invalid.
#[derive(Debug)]
pub struct Writer {
    file: Arc<dyn File>,
    id: Id,
    offset: u64,
    footer: Footer,
    numbers: HashMap<Labels, u32>,
    encoder: Encoder,
}

/// Where the records of a segment come from.
#[derive(Clone, Debug, Default)]
pub struct SegmentOrigin {
    /// The queue segments that were gathered.
    pub sources: Vec<Id>,
    /// The merge, if one made it.
    pub merge: Option<MergeInfo>,
}

impl Writer {
    /// Starts a segment in a file that was just created.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn start(file: Arc<dyn File>, id: Id) -> io::Result<Self> {
        file.append(&[&encode_header(id)])?;
        Ok(Self {
            file,
            id,
            offset: HEADER_LEN as u64,
            footer: Footer::default(),
            numbers: HashMap::new(),
            encoder: Encoder::new(),
        })
    }

    /// Packs and writes what the builder holds; nothing when that is nothing.
    ///
    /// # Errors
    /// What the operating system says; the file is then of no use.
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
            streams: packed.streams.into_iter().map(|labels| self.stream_number(labels)).collect(),
        };
        self.write(&[packed.rows.bytes, packed.text.bytes, packed.filter].concat(), entry)
    }

    /// Carries a block over from another segment as it is.
    ///
    /// # Errors
    /// What the operating system says; the file is then of no use.
    pub fn copy_block(&mut self, block: &PackedBlock) -> io::Result<()> {
        let streams = block.streams.iter().map(|labels| self.stream_number(labels.clone())).collect();
        self.write(&block.bytes, BlockEntry { offset: self.offset, streams, ..block.entry.clone() })
    }

    fn write(&mut self, block: &[u8], entry: BlockEntry) -> io::Result<()> {
        let record = recovery::encode(block, &entry, self.id);
        self.file.append(&[block, &record])?;
        self.offset += (block.len() + record.len()) as u64;
        self.footer.blocks.push(entry);
        Ok(())
    }

    /// What the blocks so far reach over.
    #[must_use]
    pub fn summary(&self) -> RecordSummary {
        self.footer.summary()
    }

    /// Writes the footer, syncs the file and returns what it holds.
    ///
    /// # Errors
    /// What the operating system says; the file is then of no use.
    pub fn seal(mut self, origin: SegmentOrigin) -> io::Result<Footer> {
        let SegmentOrigin { sources, merge } = origin;
        self.footer = Footer { sources, merge, ..self.footer };
        let raw = self.footer.encode();
        let packed = zstd_context::compress(&raw, FOOTER_LEVEL)?;
        let backup = backup::trailer(self.offset, &packed, checked_len(raw.len())?, self.id);
        let footer_at = self.offset + (packed.len() + backup.len()) as u64;
        let mut trailer = Vec::with_capacity(super::TRAILER_LEN);
        trailer.extend_from_slice(&footer_at.to_le_bytes());
        trailer.extend_from_slice(&checked_len(packed.len())?.to_le_bytes());
        trailer.extend_from_slice(&checked_len(raw.len())?.to_le_bytes());
        trailer.extend_from_slice(&crc32c::crc32c(&packed).to_le_bytes());
        trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.file.append(&[&packed, &backup, &packed, &trailer])?;
        self.file.sync()?;
        Ok(self.footer)
    }

    fn stream_number(&mut self, labels: Labels) -> u32 {
        let next = self.footer.streams.len() as u32;
        *self.numbers.entry(labels).or_insert_with_key(|labels| {
            self.footer.streams.push(labels.clone());
            next
        })
    }
}

/// The bytes that a store segment starts with.
pub(super) fn encode_header(id: Id) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let id = id.bits().to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &id);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&id);
    bytes
}

fn column_entry(column: &PackedColumn) -> io::Result<ColumnEntry> {
    let (packed_len, raw_len) = (checked_len(column.bytes.len())?, checked_len(column.raw_len)?);
    Ok(ColumnEntry { codec: column.codec.byte(), packed_len, raw_len })
}

fn checked_len(bytes: usize) -> io::Result<u32> {
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= super::COLUMN_BYTES_MAX);
    fits.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a column of a block is too large"))
}
