//! Reads a stored segment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bucksaw_binary::ByteReader;
use bucksaw_env::{File, KeyId, lock};
use bucksaw_record::{Id, Labels};

use super::footer::{BlockEntry, ColumnEntry, Footer, FooterLocation};
use super::replica_digests::{IdSum, Interval, ReplicaDigests};
use super::{END_MAGIC, HEADER_LEN, KIND, TRAILER_LEN, backup, recovery};
use crate::block::decode_slices;
use crate::encryption::{DecryptError, Decryptor, SegmentPart};
use crate::{Block, Codec, ColumnarBlock, Damage, FileHeader, ReadError, RecordSummary, Rows, StreamSlice};

/// Approximate memory, in bytes, of an open file and its allocations.
const FILE_MEMORY: usize = 256;

/// An open stored segment with its footer. It stays readable when its file is removed.
#[derive(Debug)]
pub struct Reader {
    file: Arc<dyn File>,
    path: PathBuf,
    header: FileHeader,
    footer: Footer,
    replicas: Option<ReplicaDigests>,
    file_bytes: u64,
    /// Damage that the backup or a recovery record replaced, by offset.
    rebuilt: Mutex<BTreeMap<u64, Damage>>,
    /// Decrypts the parts of an encrypted segment.
    decryptor: Option<Decryptor>,
}

impl Reader {
    /// Opens a sealed segment and reads its footer.
    ///
    /// # Errors
    /// [`ReadError`] if the file is no stored segment, is of a newer version, its header or footer is damaged, or its key is
    /// unknown.
    pub fn open(file: Arc<dyn File>, path: &Path) -> Result<Self, ReadError> {
        let file_bytes = file.size().map_err(ReadError::io(path))?;
        let ReadFooter { header, footer, decryptor, rebuilt } = read_header_and_footer(&*file, path, file_bytes)?;
        let rebuilt = Mutex::new(rebuilt.into_iter().map(|damage| (damage.offset, damage)).collect());
        let end = read_trailer(&*file, path, file_bytes).ok().and_then(|location| backup_start(&location));
        let replicas = end.and_then(|end| ReplicaDigests::read(&*file, end, header.id)).map(|(_, replicas)| replicas);
        Ok(Self { file, path: path.to_owned(), header, footer, replicas, file_bytes, rebuilt, decryptor })
    }

    /// A reader for a file whose footer is lost. The caller fills the footer.
    pub(super) fn without_footer(file: Arc<dyn File>, path: &Path, header: FileHeader, file_bytes: u64) -> Self {
        let footer = Footer::default();
        let decryptor = header.is_encrypted().then(|| Decryptor::new(&*file, &KIND, header.id));
        let (path, rebuilt, replicas) = (path.to_owned(), Mutex::default(), None);
        Self { file, path, header, footer, replicas, file_bytes, rebuilt, decryptor }
    }

    pub(super) fn footer_mut(&mut self) -> &mut Footer {
        &mut self.footer
    }

    /// Damage found so far that lost nothing, because the file repeats the content. The disk is likely to fail.
    pub fn rebuilt_damage(&self) -> Vec<Damage> {
        lock(&self.rebuilt).values().cloned().collect()
    }

    /// The id of the segment.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// The version of its format.
    pub fn version(&self) -> u32 {
        self.header.content_version()
    }

    /// The key that it is encrypted with; `None` if it is not encrypted.
    pub fn key_id(&self) -> Option<KeyId> {
        self.decryptor.as_ref().and_then(Decryptor::key_id)
    }

    /// The path of the file when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content of the segment.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The digests of its ids; `None` if it has no replicas, and if they are damaged.
    pub fn replica_digests(&self) -> Option<&ReplicaDigests> {
        self.replicas.as_ref()
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        let replicas = self.replicas.as_ref().map_or(0, ReplicaDigests::memory);
        size_of::<Self>() + FILE_MEMORY + self.path.capacity() + self.footer.memory() + replicas
    }

    /// Up to `bytes_max` bytes of the file from `at` on; fewer only at its end.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn raw_bytes(&self, at: u64, bytes_max: u64) -> std::io::Result<Vec<u8>> {
        self.file.read_bytes(at, self.file_bytes.saturating_sub(at).min(bytes_max) as usize)
    }

    /// Reads a block with its text.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn block(&self, block: usize) -> Result<Block, ReadError> {
        match self.searchable_block(block)? {
            SearchableBlock::Text(block) => Ok(block),
            SearchableBlock::Columns(columnar) => {
                let at = self.block_entry(block)?.offset;
                let text = columnar.columns.text();
                let block = text.and_then(|text| Block::from_parts(text, columnar.slices));
                block.ok_or_else(|| self.inconsistent_columns(at))
            }
        }
    }

    /// Reads a block for a search: as columns if its codec has them.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn searchable_block(&self, block: usize) -> Result<SearchableBlock, ReadError> {
        let entry = self.block_entry(block)?;
        let (rows, text) = split_columns(self.packed_column_bytes(entry)?, entry);
        let rows = self.decrypt(SegmentPart::Rows(entry.offset), rows)?;
        let text = self.decrypt(SegmentPart::Text(entry.offset), text)?;
        let damaged = || ReadError::damaged(&self.path, entry.offset, "the block cannot be decompressed");
        let rows = unpack(&entry.rows, &rows).ok_or_else(damaged)?;
        let slices = decode_slices(&rows).ok_or_else(|| self.inconsistent_columns(entry.offset))?;
        if let Some(Codec::Columns(_)) = Codec::from_byte(entry.text.codec) {
            let columnar = ColumnarBlock::open(slices, text, entry.text.raw_len as usize);
            return columnar.map(|columnar| SearchableBlock::Columns(columnar.into())).ok_or_else(damaged);
        }
        let text = unpack(&entry.text, &text).ok_or_else(damaged)?;
        Block::from_parts(text, slices)
            .map(SearchableBlock::Text)
            .ok_or_else(|| self.inconsistent_columns(entry.offset))
    }

    /// Reads the rows of a block without its text, stream by stream; see [`Self::slices`].
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn rows(&self, block: usize) -> Result<Vec<Arc<Rows>>, ReadError> {
        Ok(self.slices(block)?.into_iter().map(|slice| slice.rows).collect())
    }

    /// Reads the slices of a block without its text: a hundredth of its bytes. The checksum of a block covers both columns, so
    /// the rows are compared with the summary in the footer instead. Damage of the text is not detected.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn slices(&self, block: usize) -> Result<Vec<StreamSlice>, ReadError> {
        let entry = self.block_entry(block)?;
        let packed = self.read_bytes(entry.offset, u64::from(entry.rows.packed_len))?;
        let length = packed.len();
        if let Ok(packed) = self.decrypt(SegmentPart::Rows(entry.offset), packed)
            && let Some(slices) = decode_matching_slices(entry, &packed)
        {
            return Ok(slices);
        }
        // The recovery record needs the whole block.
        let mut block = self.packed_column_bytes(entry)?;
        block.truncate(length);
        let packed = self.decrypt(SegmentPart::Rows(entry.offset), block)?;
        decode_matching_slices(entry, &packed).ok_or_else(|| {
            ReadError::damaged(&self.path, entry.offset, "the rows of the block do not match the footer")
        })
    }

    /// Reads the filter of a block, for [`crate::BlockFilter`]; empty if it has none.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn filter(&self, block: usize) -> Result<Vec<u8>, ReadError> {
        let entry = self.block_entry(block)?;
        let stored = self.filter_bytes(entry)?;
        if stored.is_empty() { Ok(stored) } else { self.decrypt(SegmentPart::Filter(entry.offset), stored) }
    }

    /// The filter of a block as it is in the file.
    fn filter_bytes(&self, entry: &BlockEntry) -> Result<Vec<u8>, ReadError> {
        let at = entry.offset + entry.columns_bytes();
        let bytes = self.read_bytes(at, u64::from(entry.filter_len))?;
        if crc32c::crc32c(&bytes) == entry.filter_crc {
            return Ok(bytes);
        }
        let damage = Damage { offset: at, what: "the checksum of the filter is wrong" };
        let block = self.rebuild_block(entry, &damage)?;
        let filter = block.map(|mut block| block.split_off(entry.columns_bytes() as usize));
        let filter = filter.filter(|filter| crc32c::crc32c(filter) == entry.filter_crc);
        filter.ok_or(ReadError::Damaged { path: self.path.clone(), damage })
    }

    /// Reads a block without decoding it, to copy it to another file. Its checksums are verified, and it is decrypted.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be read or is damaged.
    pub fn packed_block(&self, block: usize) -> Result<PackedBlock, ReadError> {
        let mut packed = self.packed_columns(block)?;
        let filter = self.filter(block)?;
        packed.bytes.extend_from_slice(&filter);
        packed.entry.filter_len = filter.len() as u32;
        packed.entry.filter_crc = crc32c::crc32c(&filter);
        Ok(packed)
    }

    /// [`Self::packed_block`] without the block's filter.
    pub(super) fn packed_columns(&self, block: usize) -> Result<PackedBlock, ReadError> {
        let entry = self.block_entry(block)?;
        let mut bytes = self.packed_column_bytes(entry)?;
        let streams = entry.streams.iter().filter_map(|number| self.footer.streams.get(*number as usize));
        let mut entry = BlockEntry { filter_len: 0, filter_crc: crc32c::crc32c(&[]), ..entry.clone() };
        if self.decryptor.is_some() {
            let text = bytes.split_off(entry.rows.packed_len as usize);
            bytes = self.decrypt(SegmentPart::Rows(entry.offset), bytes)?;
            entry.rows.packed_len = bytes.len() as u32;
            let text = self.decrypt(SegmentPart::Text(entry.offset), text)?;
            entry.text.packed_len = text.len() as u32;
            bytes.extend_from_slice(&text);
            entry.crc = crc32c::crc32c(&bytes);
        }
        let id_sums = self.replicas.as_ref().map(|replicas| replicas.of_block(block));
        Ok(PackedBlock { entry, streams: streams.cloned().collect(), bytes, id_sums })
    }

    /// Verifies the recovery records and the backup. A file without them is intact.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read.
    pub fn damaged_redundancy(&self) -> Result<Vec<Damage>, ReadError> {
        let mut damaged = Vec::new();
        let read = |at: u64, bytes: u64| self.raw_bytes(at, bytes).map_err(ReadError::io(&self.path));
        let footer_at = self.file_bytes.saturating_sub(TRAILER_LEN as u64 + u64::from(self.footer_len()?));
        let starts = self.footer.blocks.iter().skip(1).map(|entry| entry.offset).chain([footer_at]);
        let mut backup_at = HEADER_LEN as u64;
        for (entry, next) in self.footer.blocks.iter().zip(starts) {
            let at = entry.offset + entry.packed_bytes();
            // The record of a damaged block cannot be computed.
            let (Ok(mut block), Ok(filter)) = (self.packed_column_bytes(entry), self.filter_bytes(entry)) else {
                continue;
            };
            block.extend_from_slice(&filter);
            let want = recovery::encode(&block, entry, self.header);
            backup_at = (at + want.len() as u64).min(next);
            if at < next && read(at, want.len() as u64)? != want {
                damaged.push(Damage { offset: at, what: "the recovery record of a block is damaged" });
            }
        }
        let packed = read(footer_at, u64::from(self.footer_len()?))?;
        let digests_at = backup_at;
        let backup_len = packed.len() as u64 + backup::TAIL_LEN;
        backup_at = footer_at.saturating_sub(backup_len).max(digests_at);
        let digests = read(digests_at, backup_at - digests_at)?;
        if !digests.is_empty() && self.replicas.as_ref().map(|replicas| replicas.encode(self.id())) != Some(digests) {
            damaged.push(Damage { offset: digests_at, what: "the replica digests are damaged" });
        }
        let backup = read(backup_at, footer_at.saturating_sub(backup_at))?;
        let (packed_len, raw_len) = (packed.len() as u32, self.footer.encode().len() as u32);
        let location = FooterLocation { offset: backup_at, packed_len, raw_len, crc: crc32c::crc32c(&packed) };
        let want = [packed.as_slice(), &backup::encode_tail(&location, self.header)].concat();
        if !backup.is_empty() && backup != want {
            damaged.push(Damage { offset: backup_at, what: "the backup of the footer is damaged" });
        }
        Ok(damaged)
    }

    /// Bytes of the packed footer, from the trailer; 0 if that is damaged.
    fn footer_len(&self) -> Result<u32, ReadError> {
        let at = self.file_bytes.saturating_sub(TRAILER_LEN as u64 - 8);
        let bytes = self.raw_bytes(at, 4).map_err(ReadError::io(&self.path))?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn block_entry(&self, block: usize) -> Result<&BlockEntry, ReadError> {
        let entry = self.footer.blocks.get(block);
        entry.ok_or_else(|| ReadError::damaged(&self.path, 0, "the segment has no such block"))
    }

    /// A part of the block at `entry`, as it was before it was encrypted.
    fn decrypt(&self, part: SegmentPart, stored: Vec<u8>) -> Result<Vec<u8>, ReadError> {
        let Some(decryptor) = &self.decryptor else { return Ok(stored) };
        decryptor.decrypt(&part.context(), stored).map_err(|error| match (error, part) {
            (DecryptError::NoKey(key), _) => ReadError::MissingKey { path: self.path.clone(), key },
            (DecryptError::Changed, SegmentPart::Rows(at) | SegmentPart::Text(at) | SegmentPart::Filter(at)) => {
                ReadError::damaged(
                    &self.path,
                    at,
                    "the block does not decrypt: it was changed, or is not of this place",
                )
            }
            (DecryptError::Changed, SegmentPart::Footer) => {
                ReadError::damaged(&self.path, self.file_bytes, "the footer does not decrypt")
            }
        })
    }

    fn read_bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        self.file.read_bytes(at, length as usize).map_err(ReadError::io(&self.path))
    }

    fn inconsistent_columns(&self, at: u64) -> ReadError {
        ReadError::damaged(&self.path, at, "the columns of the block are inconsistent")
    }

    /// Both packed columns, as they are in the file.
    fn packed_column_bytes(&self, entry: &BlockEntry) -> Result<Vec<u8>, ReadError> {
        let bytes = self.read_bytes(entry.offset, entry.columns_bytes())?;
        if crc32c::crc32c(&bytes) == entry.crc {
            return Ok(bytes);
        }
        let damage = Damage { offset: entry.offset, what: "the checksum of the block is wrong" };
        let mut block = self.rebuild_block(entry, &damage)?.unwrap_or_default();
        block.truncate(bytes.len());
        if block.len() == bytes.len() && crc32c::crc32c(&block) == entry.crc {
            return Ok(block);
        }
        Err(ReadError::Damaged { path: self.path.clone(), damage })
    }

    /// The block with its damaged page rebuilt; `None` if its recovery record cannot rebuild it.
    fn rebuild_block(&self, entry: &BlockEntry, damage: &Damage) -> Result<Option<Vec<u8>>, ReadError> {
        let mut block = self.read_bytes(entry.offset, entry.packed_bytes())?;
        let record_at = entry.offset + entry.packed_bytes();
        let mut head = [0; recovery::FIXED_LEN];
        // A file without recovery records may end here.
        if self.file.read_at(record_at, &mut head).map_err(ReadError::io(&self.path))? < head.len() {
            return Ok(None);
        }
        let Some(length) = recovery::record_len(&head, block.len(), self.id()) else { return Ok(None) };
        let mut record = vec![0; length];
        let got = self.file.read_at(record_at, &mut record).map_err(ReadError::io(&self.path))?;
        if got < length || !recovery::rebuild_page(&mut block, &record, entry.crc, self.id()) {
            return Ok(None);
        }
        let mut rebuilt = lock(&self.rebuilt);
        rebuilt.entry(damage.offset).or_insert_with(|| damage.clone());
        Ok(Some(block))
    }
}

/// The packed rows column and the packed text column of a block. The text moves within its memory, because copying it to new memory
/// costs more: a fault per page.
fn split_columns(mut columns: Vec<u8>, entry: &BlockEntry) -> (Vec<u8>, Vec<u8>) {
    let rows = columns.drain(..entry.rows.packed_len as usize).collect();
    (rows, columns)
}

/// The rows in a packed rows column, if they match the footer.
fn decode_matching_slices(entry: &BlockEntry, packed: &[u8]) -> Option<Vec<StreamSlice>> {
    let found = unpack(&entry.rows, packed).and_then(|rows| decode_slices(&rows))?;
    let mut summary = RecordSummary::default();
    found.iter().for_each(|slice| summary.add(&slice.rows, slice.range.len()));
    (summary == entry.summary).then_some(found)
}

/// A block for a search.
#[derive(Debug)]
pub enum SearchableBlock {
    /// Its text.
    Text(Block),
    /// Its columns.
    Columns(Box<ColumnarBlock>),
}

impl SearchableBlock {
    /// Approximate bytes of memory; grows with the columns that a search decodes.
    pub fn memory(&self) -> usize {
        match self {
            Self::Text(block) => block.memory(),
            Self::Columns(columnar) => columnar.memory(),
        }
    }
}

/// A block that is copied from one file to another.
#[derive(Debug)]
pub struct PackedBlock {
    pub(super) entry: BlockEntry,
    pub(super) streams: Vec<Labels>,
    pub(super) bytes: Vec<u8>,
    /// The sums of its ids by interval, if its segment has them.
    pub(super) id_sums: Option<Vec<(Interval, IdSum)>>,
}

fn unpack(column: &ColumnEntry, packed: &[u8]) -> Option<Vec<u8>> {
    Codec::from_byte(column.codec)?.unpack(packed, column.raw_len as usize)
}

/// The header and the footer, from the backup if header or footer are damaged, and the damage.
struct ReadFooter {
    header: FileHeader,
    footer: Footer,
    decryptor: Option<Decryptor>,
    rebuilt: Vec<Damage>,
}

fn read_header_and_footer(file: &dyn File, path: &Path, file_bytes: u64) -> Result<ReadFooter, ReadError> {
    let footer = |header| read_trailer(file, path, file_bytes)?.read_footer(file, path, header);
    let (own, error) = match KIND.read_header(file, path) {
        Ok(header) => match footer(header) {
            Ok((footer, decryptor)) => return Ok(ReadFooter { header, footer, decryptor, rebuilt: Vec::new() }),
            Err(error) => (Some(header), error),
        },
        Err(error) => (None, error),
    };
    let ReadError::Damaged { damage, .. } = &error else { return Err(error) };
    match backup::find_backup(file, path, file_bytes)? {
        Some((header, (backup, decryptor))) if own.is_none_or(|own| own == header) => {
            let mut rebuilt = vec![damage.clone()];
            if own.is_none()
                && let Err(ReadError::Damaged { damage, .. }) = footer(header)
            {
                rebuilt.push(damage);
            }
            Ok(ReadFooter { header, footer: backup, decryptor, rebuilt })
        }
        _ => Err(error),
    }
}

/// The end of the blocks of segment `id`, if its trailer or that of its backup is intact. The footers may be damaged.
pub(super) fn blocks_end(file: &dyn File, path: &Path, id: Id, file_bytes: u64) -> Result<Option<u64>, ReadError> {
    let backup_at = match backup::start(file, path, id, file_bytes)? {
        Some(start) => Some(start),
        None => match read_trailer(file, path, file_bytes) {
            Ok(location) => backup_start(&location),
            Err(ReadError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        },
    };
    Ok(backup_at.map(|end| ReplicaDigests::read(file, end, id).map_or(end, |(start, _)| start)))
}

/// The start of the backup of the footer at this location.
fn backup_start(location: &FooterLocation) -> Option<u64> {
    location.offset.checked_sub(backup::TAIL_LEN + u64::from(location.packed_len))
}

fn read_trailer(file: &dyn File, path: &Path, file_bytes: u64) -> Result<FooterLocation, ReadError> {
    let Some(trailer_at) = file_bytes.checked_sub(TRAILER_LEN as u64).filter(|at| *at >= HEADER_LEN as u64) else {
        return Err(ReadError::damaged(path, file_bytes, "the file ends before its trailer"));
    };
    let trailer = file.read_bytes(trailer_at, TRAILER_LEN).map_err(ReadError::io(path))?;
    let decode = || {
        let mut reader = ByteReader(&trailer);
        let location = FooterLocation::decode(&mut reader)?;
        let is_intact = reader.u32()? == crc32c::crc32c(trailer.get(..20)?) && reader.bytes(8)? == END_MAGIC;
        (is_intact && location.ends_at(trailer_at)).then_some(location)
    };
    let what = "the trailer is invalid: the file was not sealed, or its end is damaged";
    decode().ok_or_else(|| ReadError::damaged(path, trailer_at, what))
}
