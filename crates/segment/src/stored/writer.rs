//! Writes a stored segment from front to back.

use std::io;
use std::sync::Arc;

use bucksaw_columns::Encoder;
use bucksaw_env::{ENCRYPTION_OVERHEAD, File, FileCipher};
use bucksaw_record::Id;

use super::footer::{BlockEntry, ColumnEntry, Footer, FooterLocation, MergeInfo};
use super::reader::PackedBlock;
use super::replica_digests::{IdSum, Interval, ReplicaDigests, ReplicaGroup};
use super::stream_table::StreamTable;
use super::{END_MAGIC, FILTER_BYTES_MAX, HEADER_LEN, KIND, backup, recovery};
use crate::encryption::{SegmentPart, writing_cipher};
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
    /// The digests of its blocks, if it has replicas.
    replicas: Option<ReplicaDigests>,
    encoder: Encoder,
    /// Encrypts the parts, if the file system has keys.
    cipher: Option<Arc<dyn FileCipher>>,
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
    /// Starts a segment of this version in an empty file. Version 1 cannot hold records of several lines. The segment is encrypted
    /// if the file system of the file has keys.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn start(file: Arc<dyn File>, header: FileHeader) -> io::Result<Self> {
        let cipher = writing_cipher(&*file, &KIND, header.id);
        let header = header.with_encryption(cipher.is_some());
        file.append(&[&KIND.encode_header(header)])?;
        Ok(Self {
            file,
            header,
            offset: HEADER_LEN as u64,
            footer: Footer::default(),
            streams: StreamTable::default(),
            replicas: None,
            encoder: Encoder::new(),
            cipher,
        })
    }

    /// The same for a segment whose records a group of stores has. Called before the first block.
    #[must_use]
    pub fn with_replicas(self, group: Option<ReplicaGroup>) -> Self {
        Self { replicas: group.map(ReplicaDigests::new), ..self }
    }

    /// Compresses and writes the block of a builder; writes nothing if that is empty.
    ///
    /// # Errors
    /// If the file cannot be written; it is then invalid.
    pub fn append(&mut self, builder: &mut BlockBuilder, codec: Codec) -> io::Result<()> {
        let Some(packed) = builder.pack(codec, &mut self.encoder, self.replicas.is_some()) else { return Ok(()) };
        let (rows_raw, text_raw) = (checked_len(packed.rows.raw_len)?, checked_len(packed.text.raw_len)?);
        let streams = packed.streams.iter().map(|labels| self.streams.number(labels)).collect();
        let codecs = (packed.rows.codec.byte(), packed.text.codec.byte());
        let parts = BlockParts { rows: packed.rows.bytes, text: packed.text.bytes, filter: packed.filter };
        let parts = self.encrypt(parts)?;
        let entry = BlockEntry {
            offset: self.offset,
            rows: ColumnEntry { codec: codecs.0, packed_len: checked_len(parts.rows.len())?, raw_len: rows_raw },
            text: ColumnEntry { codec: codecs.1, packed_len: checked_len(parts.text.len())?, raw_len: text_raw },
            crc: crc32c::crc32c_append(crc32c::crc32c(&parts.rows), &parts.text),
            filter_len: checked_len(parts.filter.len())?,
            filter_crc: crc32c::crc32c(&parts.filter),
            summary: packed.summary,
            streams,
        };
        self.add_digests(Some(&packed.id_sums));
        self.write(&[parts.rows, parts.text, parts.filter].concat(), entry)
    }

    /// Copies a block of another segment.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn copy_block(&mut self, block: &PackedBlock) -> io::Result<()> {
        let streams = block.streams.iter().map(|labels| self.streams.number(labels)).collect();
        let entry = BlockEntry { offset: self.offset, streams, ..block.entry.clone() };
        self.add_digests(block.id_sums.as_deref());
        if self.cipher.is_none() {
            return self.write(&block.bytes, entry);
        }
        let (rows, rest) = block.bytes.split_at_checked(entry.rows.packed_len as usize).unwrap_or_default();
        let (text, filter) = rest.split_at_checked(entry.text.packed_len as usize).unwrap_or_default();
        let parts = BlockParts { rows: rows.to_vec(), text: text.to_vec(), filter: filter.to_vec() };
        let parts = self.encrypt(parts)?;
        let column = |column: ColumnEntry, part: &[u8]| {
            Ok::<_, io::Error>(ColumnEntry { packed_len: checked_len(part.len())?, ..column })
        };
        let entry = BlockEntry {
            rows: column(entry.rows, &parts.rows)?,
            text: column(entry.text, &parts.text)?,
            crc: crc32c::crc32c_append(crc32c::crc32c(&parts.rows), &parts.text),
            filter_len: checked_len(parts.filter.len())?,
            filter_crc: crc32c::crc32c(&parts.filter),
            ..entry
        };
        self.write(&[parts.rows, parts.text, parts.filter].concat(), entry)
    }

    /// Adds the digests of the next block. Without them the segment has none: sums of some of its ids would claim that it has no
    /// others.
    fn add_digests(&mut self, sums: Option<&[(Interval, IdSum)]>) {
        match (&mut self.replicas, sums) {
            (Some(replicas), Some(sums)) => replicas.push_block(self.footer.blocks.len(), sums),
            _ => self.replicas = None,
        }
    }

    /// Encrypts the parts of the next block, if the segment is encrypted.
    fn encrypt(&self, parts: BlockParts) -> io::Result<BlockParts> {
        let Some(cipher) = &self.cipher else { return Ok(parts) };
        let at = self.offset;
        let encrypt = |part: SegmentPart, plain: &[u8]| cipher.encrypt(&part.context(), &[plain]);
        // A search does not need a filter, and readers refuse a longer one.
        let has_filter = (1..=FILTER_BYTES_MAX - ENCRYPTION_OVERHEAD).contains(&parts.filter.len());
        Ok(BlockParts {
            rows: encrypt(SegmentPart::Rows(at), &parts.rows)?,
            text: encrypt(SegmentPart::Text(at), &parts.text)?,
            filter: if has_filter { encrypt(SegmentPart::Filter(at), &parts.filter)? } else { Vec::new() },
        })
    }

    fn write(&mut self, block: &[u8], entry: BlockEntry) -> io::Result<()> {
        let record = recovery::encode(block, &entry, self.header);
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
        let mut packed = zstd_context::compress(&raw, FOOTER_LEVEL)?;
        if let Some(cipher) = &self.cipher {
            packed = cipher.encrypt(&SegmentPart::Footer.context(), &[&packed])?;
        }
        let (packed_len, raw_len) = (checked_len(packed.len())?, checked_len(raw.len())?);
        let digests = self.replicas.map(|replicas| replicas.encode(self.header.id)).unwrap_or_default();
        self.offset += digests.len() as u64;
        let mut location = FooterLocation { offset: self.offset, packed_len, raw_len, crc: crc32c::crc32c(&packed) };
        let backup = backup::encode_tail(&location, self.header);
        location.offset += (packed.len() + backup.len()) as u64;
        let mut trailer = Vec::with_capacity(super::TRAILER_LEN);
        location.encode(&mut trailer);
        trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.file.append(&[&digests, &packed, &backup, &packed, &trailer])?;
        self.file.sync()?;
        Ok(self.footer)
    }
}

/// The parts of a block, each compressed.
struct BlockParts {
    rows: Vec<u8>,
    text: Vec<u8>,
    filter: Vec<u8>,
}

fn checked_len(bytes: usize) -> io::Result<u32> {
    let fits = u32::try_from(bytes).ok().filter(|_| bytes <= super::COLUMN_BYTES_MAX);
    fits.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a column of a block is too large"))
}
