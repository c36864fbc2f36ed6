//! Reading a store segment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use super::backup::FooterBackup;
use super::footer::{BlockEntry, ColumnEntry, Footer};
use super::{COLUMN_BYTES_MAX, END_MAGIC, HEADER_LEN, MAGIC, TRAILER_LEN, VERSION, backup, recovery};
use crate::block::decode_slices;
use crate::{Block, Codec, ColumnarBlock, Damage, ReadError, RecordSummary, Rows, varint, zstd_context};

/// What an open file takes in memory, with what the allocator keeps for its parts, in bytes; about.
const FILE_MEMORY: usize = 256;

/// An open store segment with its footer. The file may be removed meanwhile; reading goes on.
#[derive(Debug)]
pub struct Reader {
    file: Arc<dyn File>,
    path: PathBuf,
    id: Id,
    footer: Footer,
    file_bytes: u64,
    /// Damage that cost nothing: the backup or a recovery record stood in. By offset.
    rebuilt: Mutex<BTreeMap<u64, Damage>>,
}

impl Reader {
    /// Opens a sealed segment and reads its footer.
    ///
    /// # Errors
    /// [`ReadError`] when the file is none, is damaged in its header or footer, or is of a newer version.
    pub fn open(file: Arc<dyn File>, path: &Path) -> Result<Self, ReadError> {
        let file_bytes = file.size().map_err(ReadError::io(path))?;
        let (id, footer, rebuilt) = read_header_and_footer(&*file, path, file_bytes)?;
        let rebuilt = Mutex::new(rebuilt.into_iter().map(|damage| (damage.offset, damage)).collect());
        Ok(Self { file, path: path.to_owned(), id, footer, file_bytes, rebuilt })
    }

    /// A reader of a file whose footer is lost; blocks are added as they are found.
    pub(super) fn without_footer(file: Arc<dyn File>, path: &Path, id: Id, file_bytes: u64) -> Self {
        let footer = Footer::default();
        Self { file, path: path.to_owned(), id, footer, file_bytes, rebuilt: Mutex::default() }
    }

    /// Adds a block that was found, and returns its number.
    pub(super) fn add_block(&mut self, entry: BlockEntry) -> usize {
        self.footer.blocks.push(entry);
        self.footer.blocks.len() - 1
    }

    /// Says of a block that was added what it holds.
    pub(super) fn describe_block(&mut self, block: usize, reach: RecordSummary, streams: Vec<u32>) {
        if let Some(entry) = self.footer.blocks.get_mut(block) {
            (entry.summary, entry.streams) = (reach, streams);
        }
    }

    /// Says what all blocks together hold.
    pub(super) fn describe(&mut self, streams: Vec<Labels>) {
        self.footer.streams = streams;
    }

    /// Damage that was met so far and cost nothing, because the file says the same elsewhere. A medium that shows any goes bad.
    #[must_use]
    pub fn rebuilt_damage(&self) -> Vec<Damage> {
        self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The id of the segment.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// Where the file was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the segment holds.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + FILE_MEMORY + self.path.capacity() + self.footer.memory()
    }

    /// Bytes of the file as they lie there, from `at` on; fewer than `most` only at its end.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn raw_bytes(&self, at: u64, most: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.file_bytes.saturating_sub(at).min(most) as usize];
        self.file.read_exact_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a block with its text.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or is damaged.
    pub fn block(&self, block: usize) -> Result<Block, ReadError> {
        match self.searchable_block(block)? {
            SearchableBlock::Text(block) => Ok(block),
            SearchableBlock::Columns(columned) => {
                let at = self.block_entry(block)?.offset;
                let text = columned.columns.text();
                let block = text.and_then(|text| Block::open(columned.slices, text));
                block.ok_or_else(|| self.inconsistent_columns(at))
            }
        }
    }

    /// Reads a block as a search wants it: as columns, where it is packed so.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or is damaged.
    pub fn searchable_block(&self, block: usize) -> Result<SearchableBlock, ReadError> {
        let entry = self.block_entry(block)?;
        let mut rows = self.packed_column_bytes(entry)?;
        let text = rows.split_off(entry.rows.packed_len as usize);
        let damaged = || ReadError::damaged(&self.path, entry.offset, "the block does not unpack");
        let rows = unpack(&entry.rows, &rows).ok_or_else(damaged)?;
        let stretches = decode_slices(&rows).ok_or_else(|| self.inconsistent_columns(entry.offset))?;
        if let Some(Codec::Columns(_)) = Codec::from_byte(entry.text.codec) {
            let columned = ColumnarBlock::open(stretches, text, entry.text.raw_len as usize);
            return columned.map(|columned| SearchableBlock::Columns(columned.into())).ok_or_else(damaged);
        }
        let text = unpack(&entry.text, &text).ok_or_else(damaged)?;
        Block::open(stretches, text).map(SearchableBlock::Text).ok_or_else(|| self.inconsistent_columns(entry.offset))
    }

    /// Reads which records a block has, and not their text, which is a hundredth of its bytes. The checksum of a block is over
    /// both, so here the rows are held against what the footer says that the block reaches over; damage of the text is not
    /// seen.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or is damaged.
    pub fn rows(&self, block: usize) -> Result<Vec<Arc<Rows>>, ReadError> {
        let entry = self.block_entry(block)?;
        let mut packed = vec![0; entry.rows.packed_len as usize];
        self.file.read_exact_at(entry.offset, &mut packed).map_err(ReadError::io(&self.path))?;
        if let Some(rows) = decode_matching_rows(entry, &packed) {
            return Ok(rows);
        }
        // With the recovery record the checksum of the whole block decides.
        let mut block = self.packed_column_bytes(entry)?;
        block.truncate(packed.len());
        decode_matching_rows(entry, &block).ok_or_else(|| {
            ReadError::damaged(&self.path, entry.offset, "the rows of the block do not match the footer")
        })
    }

    /// Reads the filter of a block, for [`crate::BlockFilter`]; empty when it has none.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or is damaged.
    pub fn filter(&self, block: usize) -> Result<Vec<u8>, ReadError> {
        let entry = self.block_entry(block)?;
        let at = entry.offset + entry.columns_bytes();
        let mut bytes = vec![0; entry.filter_len as usize];
        self.file.read_exact_at(at, &mut bytes).map_err(ReadError::io(&self.path))?;
        if crc32c::crc32c(&bytes) == entry.filter_crc {
            return Ok(bytes);
        }
        let damage = Damage { offset: at, what: "the checksum of the filter does not fit" };
        let block = self.rebuild_block(entry, &damage)?;
        let filter = block.map(|mut block| block.split_off(entry.columns_bytes() as usize));
        let filter = filter.filter(|filter| crc32c::crc32c(filter) == entry.filter_crc);
        filter.ok_or(ReadError::Damaged { path: self.path.clone(), damage })
    }

    /// Reads a block as it lies in the file, to be carried to another, its checksum checked.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or is damaged.
    pub fn packed_block(&self, block: usize) -> Result<PackedBlock, ReadError> {
        let mut packed = self.packed_columns(block)?;
        let filter = self.filter(block)?;
        packed.bytes.extend_from_slice(&filter);
        packed.entry = self.block_entry(block)?.clone();
        Ok(packed)
    }

    /// [`Self::packed_block`] without the block's filter.
    pub(super) fn packed_columns(&self, block: usize) -> Result<PackedBlock, ReadError> {
        let entry = self.block_entry(block)?;
        let bytes = self.packed_column_bytes(entry)?;
        let streams = entry.streams.iter().filter_map(|number| self.footer.streams.get(*number as usize));
        let entry = BlockEntry { filter_len: 0, filter_crc: crc32c::crc32c(&[]), ..entry.clone() };
        Ok(PackedBlock { entry, streams: streams.cloned().collect(), bytes })
    }

    /// Checks what stands in the file only to rebuild the rest: recovery records and the backup. A file without them is sound.
    ///
    /// # Errors
    /// [`ReadError`] when the operating system cannot read the file.
    pub fn damaged_redundancy(&self) -> Result<Vec<Damage>, ReadError> {
        let mut damaged = Vec::new();
        let footer_at = self.file_bytes.saturating_sub(TRAILER_LEN as u64 + u64::from(self.footer_len()?));
        let starts = self.footer.blocks.iter().skip(1).map(|entry| entry.offset).chain([footer_at]);
        let mut backup_at = HEADER_LEN as u64;
        for (number, (entry, next)) in self.footer.blocks.iter().zip(starts).enumerate() {
            let at = entry.offset + entry.packed_bytes();
            // Of a block that is damaged itself the record cannot be told.
            let Ok(packed) = self.packed_block(number) else { continue };
            let want = recovery::encode(&packed.bytes, entry, self.id);
            backup_at = (at + want.len() as u64).min(next);
            if at < next && self.raw_bytes(at, want.len() as u64).map_err(ReadError::io(&self.path))? != want {
                damaged.push(Damage { offset: at, what: "the recovery record of a block is damaged" });
            }
        }
        let spare =
            self.raw_bytes(backup_at, footer_at.saturating_sub(backup_at)).map_err(ReadError::io(&self.path))?;
        let packed = self.raw_bytes(footer_at, u64::from(self.footer_len()?)).map_err(ReadError::io(&self.path))?;
        let raw_len = self.footer.encode().len() as u32;
        let want = [packed.as_slice(), &backup::trailer(backup_at, &packed, raw_len, self.id)].concat();
        if !spare.is_empty() && spare != want {
            damaged.push(Damage { offset: backup_at, what: "the backup of the footer is damaged" });
        }
        Ok(damaged)
    }

    /// Bytes of the packed footer, as the trailer says; 0 when that is damaged.
    fn footer_len(&self) -> Result<u32, ReadError> {
        let at = self.file_bytes.saturating_sub(TRAILER_LEN as u64 - 8);
        let bytes = self.raw_bytes(at, 4).map_err(ReadError::io(&self.path))?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn block_entry(&self, block: usize) -> Result<&BlockEntry, ReadError> {
        let entry = self.footer.blocks.get(block);
        entry.ok_or_else(|| ReadError::damaged(&self.path, 0, "there is no such block"))
    }

    fn inconsistent_columns(&self, at: u64) -> ReadError {
        ReadError::damaged(&self.path, at, "the columns of the block are inconsistent")
    }

    /// Both packed columns.
    fn packed_column_bytes(&self, entry: &BlockEntry) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; entry.columns_bytes() as usize];
        self.file.read_exact_at(entry.offset, &mut bytes).map_err(ReadError::io(&self.path))?;
        if crc32c::crc32c(&bytes) == entry.crc {
            return Ok(bytes);
        }
        let damage = Damage { offset: entry.offset, what: "the checksum of the block does not fit" };
        let mut block = self.rebuild_block(entry, &damage)?.unwrap_or_default();
        block.truncate(bytes.len());
        if block.len() == bytes.len() && crc32c::crc32c(&block) == entry.crc {
            return Ok(block);
        }
        Err(ReadError::Damaged { path: self.path.clone(), damage })
    }

    /// The block with its damaged page rebuilt; `None` when its recovery record cannot do that.
    fn rebuild_block(&self, entry: &BlockEntry, damage: &Damage) -> Result<Option<Vec<u8>>, ReadError> {
        let mut block = vec![0; entry.packed_bytes() as usize];
        self.file.read_exact_at(entry.offset, &mut block).map_err(ReadError::io(&self.path))?;
        let record_at = entry.offset + entry.packed_bytes();
        let mut head = [0; recovery::FIXED_LEN];
        // A file without such records may end here.
        if self.file.read_at(record_at, &mut head).map_err(ReadError::io(&self.path))? < head.len() {
            return Ok(None);
        }
        let Some(length) = recovery::record_len(&head, block.len(), self.id) else { return Ok(None) };
        let mut record = vec![0; length];
        let got = self.file.read_at(record_at, &mut record).map_err(ReadError::io(&self.path))?;
        if got < length || !recovery::rebuild_page(&mut block, &record, entry.crc, self.id) {
            return Ok(None);
        }
        let mut rebuilt = self.rebuilt.lock().unwrap_or_else(PoisonError::into_inner);
        rebuilt.entry(damage.offset).or_insert_with(|| damage.clone());
        Ok(Some(block))
    }
}

/// The rows in a packed rows column, when they are those that the footer tells of.
fn decode_matching_rows(entry: &BlockEntry, packed: &[u8]) -> Option<Vec<Arc<Rows>>> {
    let found = unpack(&entry.rows, packed).and_then(|rows| decode_slices(&rows))?;
    let mut reach = RecordSummary::default();
    found.iter().for_each(|stretch| reach.add(&stretch.rows, stretch.range.len()));
    (reach == entry.summary).then(|| found.into_iter().map(|stretch| stretch.rows).collect())
}

/// A block as a search wants it.
#[derive(Debug)]
pub enum SearchableBlock {
    /// Its text.
    Text(Block),
    /// Its columns.
    Columns(Box<ColumnarBlock>),
}

impl SearchableBlock {
    /// Bytes of memory that it has by now, about: what is unpacked of columns comes to them.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Text(block) => block.memory(),
            Self::Columns(columned) => columned.memory(),
        }
    }
}

/// A block on its way from one file to another.
#[derive(Debug)]
pub struct PackedBlock {
    pub(super) entry: BlockEntry,
    pub(super) streams: Vec<Labels>,
    pub(super) bytes: Vec<u8>,
}

fn unpack(column: &ColumnEntry, packed: &[u8]) -> Option<Vec<u8>> {
    Codec::from_byte(column.codec)?.unpack(packed, column.raw_len as usize)
}

/// The id and the footer, from the backup where the header or the footer is damaged, and what was damaged.
fn read_header_and_footer(
    file: &dyn File,
    path: &Path,
    file_bytes: u64,
) -> Result<(Id, Footer, Vec<Damage>), ReadError> {
    let (own, broken) = match read_header(file, path) {
        Ok(id) => match read_footer(file, path, file_bytes) {
            Ok(footer) => return Ok((id, footer, Vec::new())),
            Err(broken) => (Some(id), broken),
        },
        Err(broken) => (None, broken),
    };
    let ReadError::Damaged { damage, .. } = &broken else { return Err(broken) };
    match backup::find_backup(file, path, file_bytes)? {
        Some(FooterBackup { id, footer }) if own.is_none_or(|own| own == id) => {
            let mut damaged = vec![damage.clone()];
            if own.is_none()
                && let Err(ReadError::Damaged { damage, .. }) = read_footer(file, path, file_bytes)
            {
                damaged.push(damage);
            }
            Ok((id, footer, damaged))
        }
        _ => Err(broken),
    }
}

fn read_header(file: &dyn File, path: &Path) -> Result<Id, ReadError> {
    let mut bytes = [0; HEADER_LEN];
    if file.read_at(0, &mut bytes).map_err(ReadError::io(path))? < HEADER_LEN {
        return Err(ReadError::damaged(path, 0, "the file ends within its header"));
    }
    let mut reader = varint::Reader(&bytes);
    let fields = (reader.bytes(8), reader.u32(), reader.u32(), reader.u128());
    let (Some(magic), Some(version), Some(crc), Some(id)) = fields else {
        return Err(ReadError::damaged(path, 0, "the header is short"));
    };
    if magic != MAGIC {
        return Err(ReadError::damaged(path, 0, "not a stored segment"));
    }
    let sum = crc32c::crc32c_append(crc32c::crc32c(bytes.get(..12).unwrap_or_default()), &id.to_le_bytes());
    if sum != crc {
        return Err(ReadError::damaged(path, 12, "the checksum of the header does not fit"));
    }
    if version > VERSION {
        return Err(ReadError::Version { path: path.to_owned(), found: version, known: VERSION });
    }
    Ok(Id::from_bits(id))
}

/// Where the blocks of the segment `id` end, when its trailer or its backup's trailer is sound; the footers themselves may
/// be damaged.
pub(super) fn blocks_end(file: &dyn File, path: &Path, id: Id, file_bytes: u64) -> Result<Option<u64>, ReadError> {
    if let Some(end) = backup::blocks_end(file, path, id, file_bytes)? {
        return Ok(Some(end));
    }
    match read_trailer(file, path, file_bytes) {
        Ok(trailer) => Ok(trailer.at.checked_sub(backup::TAIL_LEN + u64::from(trailer.packed_len))),
        Err(ReadError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the trailer says of the footer.
struct FooterTrailer {
    at: u64,
    packed_len: u32,
    raw_len: u32,
    crc: u32,
}

fn read_trailer(file: &dyn File, path: &Path, file_bytes: u64) -> Result<FooterTrailer, ReadError> {
    let Some(trailer_at) = file_bytes.checked_sub(TRAILER_LEN as u64).filter(|at| *at >= HEADER_LEN as u64) else {
        return Err(ReadError::damaged(path, file_bytes, "the file ends before its trailer"));
    };
    let damaged = |what| ReadError::damaged(path, trailer_at, what);
    let mut trailer = [0; TRAILER_LEN];
    file.read_exact_at(trailer_at, &mut trailer).map_err(ReadError::io(path))?;
    let mut reader = varint::Reader(&trailer);
    let fields = (reader.u64(), reader.u32(), reader.u32(), reader.u32(), reader.u32(), reader.bytes(8));
    let (Some(at), Some(packed_len), Some(raw_len), Some(crc), Some(own_crc), Some(magic)) = fields else {
        return Err(damaged("the trailer is short"));
    };
    if magic != END_MAGIC || crc32c::crc32c(trailer.get(..20).unwrap_or_default()) != own_crc {
        return Err(damaged("there is no valid trailer: the file was not sealed, or its end is damaged"));
    }
    let fits = at.checked_add(u64::from(packed_len)) == Some(trailer_at);
    if !fits || raw_len as usize > COLUMN_BYTES_MAX {
        return Err(damaged("the trailer is out of bounds"));
    }
    Ok(FooterTrailer { at, packed_len, raw_len, crc })
}

fn read_footer(file: &dyn File, path: &Path, file_bytes: u64) -> Result<Footer, ReadError> {
    let FooterTrailer { at, packed_len, raw_len, crc } = read_trailer(file, path, file_bytes)?;
    let mut packed = vec![0; packed_len as usize];
    file.read_exact_at(at, &mut packed).map_err(ReadError::io(path))?;
    if crc32c::crc32c(&packed) != crc {
        return Err(ReadError::damaged(path, at, "the checksum of the footer does not fit"));
    }
    let raw = zstd_context::decompress(&packed, raw_len as usize);
    let footer = raw.and_then(|raw| Footer::decode(&raw));
    footer.ok_or_else(|| ReadError::damaged(path, at, "the footer does not unpack"))
}
