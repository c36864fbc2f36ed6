//! The backup of a segment's footer and header: `docs/format.md`, "Backup".
//!
//! The packed footer again, a trailer that repeats the header, and a gap, so that one damaged sector cannot destroy both
//! footers.

use std::path::Path;

use bucksaw_binary::ByteReader;
use bucksaw_env::File;
use bucksaw_record::Id;

use super::footer::{FooterLocation, OpenedFooter};
use super::{HEADER_LEN, VERSION};
use crate::ReadError;
use crate::file_header::FileHeader;

const MAGIC: [u8; 8] = *b"BSWFOOT2";

/// Bytes of the backup trailer.
const TRAILER_LEN: usize = 52;

/// Bytes between the backup and the footer: the unit in which disks fail.
const GAP_LEN: usize = 4_096;

/// Bytes between the backup footer and the footer.
pub(super) const TAIL_LEN: u64 = (TRAILER_LEN + GAP_LEN) as u64;

/// Bytes from the end of a file that are searched for the backup. Two footers are far smaller.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of candidates that are tried.
const TRIES_MAX: usize = 1_000;

/// The bytes between the backup footer and the footer.
pub(super) fn encode_tail(location: &FooterLocation, header: FileHeader) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TRAILER_LEN + GAP_LEN);
    location.encode(&mut bytes);
    bytes.extend_from_slice(&header.version.to_le_bytes());
    bytes.extend_from_slice(&header.id.bits().to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes.resize(TRAILER_LEN + GAP_LEN, 0);
    bytes
}

/// An intact trailer of a backup.
struct BackupTrailer {
    location: FooterLocation,
    header: FileHeader,
}

/// Searches a file for an intact backup. Returns the header of the segment and its footer.
pub(super) fn find_backup(
    file: &dyn File,
    path: &Path,
    file_bytes: u64,
) -> Result<Option<(FileHeader, OpenedFooter)>, ReadError> {
    search(file, path, file_bytes, |BackupTrailer { location, header }| {
        match location.read_footer(file, path, *header) {
            Ok(footer) => Ok(Some((*header, footer))),
            Err(ReadError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// The start of the backup of segment `id`, from its trailer; `None` without an intact trailer. The backup footer may be damaged.
pub(super) fn start(file: &dyn File, path: &Path, id: Id, file_bytes: u64) -> Result<Option<u64>, ReadError> {
    search(file, path, file_bytes, |trailer| Ok((trailer.header.id == id).then_some(trailer.location.offset)))
}

/// Searches a file backwards for a trailer from which `take` returns a value.
fn search<T>(
    file: &dyn File,
    path: &Path,
    file_bytes: u64,
    take: impl Fn(&BackupTrailer) -> Result<Option<T>, ReadError>,
) -> Result<Option<T>, ReadError> {
    const STEP: u64 = 256 << 10;
    let finder = memchr::memmem::FinderRev::new(&MAGIC);
    let floor = file_bytes.saturating_sub(SEARCH_BYTES_MAX).max(HEADER_LEN as u64);
    let (mut end, mut tries) = (file_bytes, 0);
    while end > floor {
        let start = end.saturating_sub(STEP).max(floor);
        // The windows overlap, so that a magic across their edge is found.
        let length = (end + MAGIC.len() as u64 - 1).min(file_bytes).saturating_sub(start);
        let window = file.read_bytes(start, length as usize).map_err(ReadError::io(path))?;
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
    /// Reads the trailer whose magic is at `magic_at`; `None` if it is damaged.
    fn read(file: &dyn File, path: &Path, magic_at: u64) -> Result<Option<Self>, ReadError> {
        let Some(at) = magic_at.checked_sub((TRAILER_LEN - MAGIC.len()) as u64) else { return Ok(None) };
        let bytes = file.read_bytes(at, TRAILER_LEN - MAGIC.len()).map_err(ReadError::io(path))?;
        Ok(Self::decode(&bytes, at))
    }

    fn decode(bytes: &[u8], at: u64) -> Option<Self> {
        let (fields, crc) = bytes.split_last_chunk::<4>()?;
        let mut reader = ByteReader(fields);
        let location = FooterLocation::decode(&mut reader)?;
        let (version, id) = (reader.u32()?, Id::from_bits(reader.u128()?));
        let header = FileHeader { id, version };
        let is_intact = crc32c::crc32c(fields).to_le_bytes() == *crc && location.ends_at(at);
        (is_intact && header.content_version() <= VERSION).then_some(Self { location, header })
    }
}
