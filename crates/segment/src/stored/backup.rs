//! The backup of a segment's footer: the same packed bytes once more, before the footer, and what the header says.
//!
//! ```text
//!   backup footer                  the packed bytes of the footer
//!   offset  size  field            backup trailer (little-endian)
//!        0     8  footer_at        offset of the backup footer
//!        8     4  footer_len       its bytes
//!       12     4  footer_raw       bytes of the footer unpacked
//!       16     4  crc32c           over the backup footer
//!       20     4  version          of the segment, as in its header
//!       24    16  id               of the segment
//!       40     4  crc32c           over the 40 bytes before
//!       44     8  magic            "BSWFOOT2"
//!   4,096 zero bytes               so that no damaged sector takes both footers
//! ```

use std::path::Path;

use bucksaw_env::File;
use bucksaw_record::Id;

use super::footer::Footer;
use super::{COLUMN_BYTES_MAX, HEADER_LEN, VERSION};
use crate::{ReadError, varint, zstd_context};

const MAGIC: [u8; 8] = *b"BSWFOOT2";

/// Bytes of the backup trailer.
const TRAILER_LEN: usize = 52;

/// Bytes between the backup and the footer: the unit in which disks fail.
pub(super) const GAP_LEN: usize = 4_096;

/// How far from its end a file is searched for its backup. Far more than two footers have.
const SEARCH_MAX: u64 = 64 << 20;

/// How many places are tried that look like a backup.
const TRIES_MAX: usize = 1_000;

/// What the backup trailer of a footer at `at` says, and the gap behind it.
pub(super) fn trailer(at: u64, packed: &[u8], raw_len: u32, id: Id) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TRAILER_LEN + GAP_LEN);
    bytes.extend_from_slice(&at.to_le_bytes());
    bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&raw_len.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(packed).to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&id.bits().to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes.resize(TRAILER_LEN + GAP_LEN, 0);
    bytes
}

/// Bytes behind the backup footer and before the footer.
pub(super) const TAIL_LEN: u64 = (TRAILER_LEN + GAP_LEN) as u64;

/// What a segment's backup says.
pub(super) struct FooterBackup {
    pub(super) id: Id,
    pub(super) footer: Footer,
}

/// What a backup's trailer says.
struct BackupTrailer {
    footer_at: u64,
    packed_len: u32,
    raw_len: u32,
    crc: u32,
    id: Id,
}

/// Searches a file from its end for a sound backup; `None` when there is none.
pub(super) fn find_backup(file: &dyn File, path: &Path, file_bytes: u64) -> Result<Option<FooterBackup>, ReadError> {
    search(file, path, file_bytes, |trailer| trailer.footer(file, path))
}

/// Where the blocks of the segment `id` end, as the trailer of its backup says; `None` when there is no sound one. The
/// backup footer itself may be damaged.
pub(super) fn blocks_end(file: &dyn File, path: &Path, id: Id, file_bytes: u64) -> Result<Option<u64>, ReadError> {
    search(file, path, file_bytes, |trailer| Ok((trailer.id == id).then_some(trailer.footer_at)))
}

/// Searches a file from its end for a trailer of which `take` makes something.
fn search<T>(
    file: &dyn File,
    path: &Path,
    file_bytes: u64,
    take: impl Fn(&BackupTrailer) -> Result<Option<T>, ReadError>,
) -> Result<Option<T>, ReadError> {
    const STEP: u64 = 256 << 10;
    let finder = memchr::memmem::FinderRev::new(&MAGIC);
    let floor = file_bytes.saturating_sub(SEARCH_MAX).max(HEADER_LEN as u64);
    let (mut end, mut tries) = (file_bytes, 0);
    while end > floor {
        let start = end.saturating_sub(STEP).max(floor);
        // A magic that lies across the edge is found by the next window.
        let mut window = vec![0; (end + MAGIC.len() as u64 - 1).min(file_bytes).saturating_sub(start) as usize];
        file.read_exact_at(start, &mut window).map_err(ReadError::io(path))?;
        for found in finder.rfind_iter(&window) {
            tries += 1;
            if tries > TRIES_MAX {
                return Ok(None);
            }
            if let Some(trailer) = BackupTrailer::read(file, path, start + found as u64)?
                && let Some(taken) = take(&trailer)?
            {
                return Ok(Some(taken));
            }
        }
        end = start;
    }
    Ok(None)
}

impl BackupTrailer {
    /// The trailer whose magic stands at `magic_at`; `None` when it is none or damaged.
    fn read(file: &dyn File, path: &Path, magic_at: u64) -> Result<Option<Self>, ReadError> {
        let Some(at) = magic_at.checked_sub((TRAILER_LEN - MAGIC.len()) as u64) else { return Ok(None) };
        let mut bytes = [0; TRAILER_LEN - MAGIC.len()];
        file.read_exact_at(at, &mut bytes).map_err(ReadError::io(path))?;
        let mut reader = varint::Reader(&bytes);
        let sums = (reader.u64(), reader.u32(), reader.u32(), reader.u32());
        let ends = (reader.u32(), reader.u128(), reader.u32());
        let (Some(footer_at), Some(packed_len), Some(raw_len), Some(crc)) = sums else { return Ok(None) };
        let (Some(version), Some(id), Some(own_crc)) = ends else { return Ok(None) };
        let is_sound = crc32c::crc32c(bytes.get(..40).unwrap_or_default()) == own_crc
            && footer_at.checked_add(u64::from(packed_len)) == Some(at)
            && raw_len as usize <= COLUMN_BYTES_MAX
            && version <= VERSION;
        let id = Id::from_bits(id);
        Ok(is_sound.then_some(Self { footer_at, packed_len, raw_len, crc, id }))
    }

    /// The footer that this tells of; `None` when it is damaged.
    fn footer(&self, file: &dyn File, path: &Path) -> Result<Option<FooterBackup>, ReadError> {
        let mut packed = vec![0; self.packed_len as usize];
        file.read_exact_at(self.footer_at, &mut packed).map_err(ReadError::io(path))?;
        if crc32c::crc32c(&packed) != self.crc {
            return Ok(None);
        }
        let raw = zstd_context::decompress(&packed, self.raw_len as usize);
        let footer = raw.and_then(|raw| Footer::decode(&raw));
        Ok(footer.map(|footer| FooterBackup { id: self.id, footer }))
    }
}
