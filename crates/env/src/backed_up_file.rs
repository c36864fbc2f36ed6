//! Small files that survive damage: each is written twice.
//!
//! ```text
//!   node.json      the bytes, readable without this module
//!   node.backup    "crc32c <8 hex digits> after <8 hex digits>\n", then the same bytes
//! ```
//! The backup is written first. Its first checksum covers the second one and the bytes. The second is the checksum of
//! the file that it replaces, 0 if there is none. So an intact backup is always right, and a file that differs from it
//! is damaged, unless it has the second checksum: then a crash came between the two writes.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Fs, read_file, replace};

/// The first line of a backup, in bytes.
const HEADER_LINE_BYTES: usize = "crc32c 01234567 after 01234567\n".len();

/// Checksum of a missing file, and of an empty one, which is never written.
const NO_FILE_CHECKSUM: u32 = 0;

/// A longer file was not written by this program; its checksum is not computed before it is replaced.
const PREVIOUS_BYTES_MAX: u64 = 64 << 20;

/// A file and its backup, as found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedUpFile {
    /// The bytes of the file, if it exists.
    pub file: Option<Vec<u8>>,
    /// The backup.
    pub backup: BackupState,
}

/// The state of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// Intact, with these bytes.
    Valid(Vec<u8>),
    /// Intact, with these bytes; a crash prevented the replacement of the older file.
    Newer(Vec<u8>),
    /// The checksum does not match, or the backup cannot be read.
    Damaged,
    /// An older version wrote none.
    Missing,
}

impl BackedUpFile {
    /// Reads a file and its backup.
    ///
    /// # Errors
    /// If the file cannot be read and no intact backup exists. `InvalidData` if it is longer than `bytes_max`.
    pub fn read(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Self> {
        let backup = match read_file(fs, &backup_path(path), bytes_max + HEADER_LINE_BYTES as u64) {
            Ok(None) => return Ok(Self { file: read_file(fs, path, bytes_max)?, backup: BackupState::Missing }),
            Ok(Some(backup)) => backup,
            // An unreadable page is damage.
            Err(_) => Vec::new(),
        };
        let Some((previous, content)) = parse_backup(&backup) else {
            return Ok(Self { file: read_file(fs, path, bytes_max)?, backup: BackupState::Damaged });
        };
        let file = read_file(fs, path, bytes_max).unwrap_or_else(|_| Some(Vec::new()));
        let is_older = file
            .as_ref()
            .is_some_and(|file| file != content && previous != NO_FILE_CHECKSUM && crc32c::crc32c(file) == previous);
        let backup = if is_older { BackupState::Newer } else { BackupState::Valid }(content.to_owned());
        Ok(Self { file, backup })
    }

    /// The damage, as a predicate for the name of the file.
    pub fn damage(&self) -> Option<&'static str> {
        match (&self.file, &self.backup) {
            (Some(file), BackupState::Valid(content)) if file != content => {
                Some("differs from its backup: it is restored at the next start")
            }
            (_, BackupState::Damaged) => Some("has a damaged backup: it is rewritten at the next start"),
            _ => None,
        }
    }
}

/// Replaces a file and its backup durably, each atomically.
///
/// # Errors
/// Those of the file system. The backup may then be newer than the file.
pub fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_backup(fs, path, bytes)?;
    replace(fs, path, &[bytes])
}

/// Writes the backup of a file that has these bytes, or is about to be replaced by them.
///
/// # Errors
/// Those of the file system.
pub fn write_backup(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // An unreadable file is replaced like a missing one.
    let previous = read_file(fs, path, PREVIOUS_BYTES_MAX).ok().flatten();
    let previous = previous.map_or(NO_FILE_CHECKSUM, |previous| crc32c::crc32c(&previous));
    replace(fs, &backup_path(path), &[header_line(bytes, previous).as_bytes(), bytes])
}

fn header_line(bytes: &[u8], previous: u32) -> String {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&previous.to_le_bytes()), bytes);
    format!("crc32c {checksum:08x} after {previous:08x}\n")
}

/// The path of the backup of a file.
pub fn backup_path(path: &Path) -> PathBuf {
    path.with_extension("backup")
}

/// The checksum of the previous file, and the bytes.
fn parse_backup(backup: &[u8]) -> Option<(u32, &[u8])> {
    let (line, bytes) = backup.split_at_checked(HEADER_LINE_BYTES)?;
    let previous = std::str::from_utf8(line).ok()?.trim_end().rsplit(' ').next()?;
    let previous = u32::from_str_radix(previous, 16).ok()?;
    (line == header_line(bytes, previous).as_bytes()).then_some((previous, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    const FILE: &str = "/node.json";
    const BACKUP: &str = "/node.backup";
    const CONTENT: &[u8] = b"{\"format\": 1}\n";

    fn read(fs: &sim::Fs) -> BackedUpFile {
        BackedUpFile::read(fs, Path::new(FILE), 1_000).unwrap()
    }

    fn written() -> sim::Fs {
        let fs = sim::Fs::new();
        write(&fs, Path::new(FILE), CONTENT).unwrap();
        fs
    }

    #[test]
    fn file_and_backup_survive_a_power_cut() {
        let fs = written().cut_power(sim::PowerCutLoss::All, 0);
        assert_eq!(
            read(&fs),
            BackedUpFile { file: Some(CONTENT.to_vec()), backup: BackupState::Valid(CONTENT.to_vec()) }
        );
        assert_eq!(read(&fs).damage(), None);
    }

    #[test]
    fn a_crash_between_the_two_writes_leaves_a_newer_backup() {
        let fs = written();
        write_backup(&fs, Path::new(FILE), b"new").unwrap();
        assert_eq!(
            read(&fs),
            BackedUpFile { file: Some(CONTENT.to_vec()), backup: BackupState::Newer(b"new".to_vec()) }
        );
        assert_eq!(read(&fs).damage(), None);
        write(&fs, Path::new(FILE), b"newer").unwrap();
        assert_eq!(
            read(&fs),
            BackedUpFile { file: Some(b"newer".to_vec()), backup: BackupState::Valid(b"newer".to_vec()) }
        );
    }

    #[test]
    fn each_flipped_bit_is_detected() {
        // Including the bit that changes the case of a hexadecimal digit.
        for (path, bytes) in [(FILE, CONTENT.len()), (BACKUP, CONTENT.len() + HEADER_LINE_BYTES)] {
            for bit in 0..bytes * 8 {
                let fs = written();
                fs.flip_bit(path, bit as u64);
                let read = read(&fs);
                assert!(read.damage().is_some(), "bit {bit} of {path}");
                let is_right = match &read.backup {
                    BackupState::Valid(bytes) | BackupState::Newer(bytes) => bytes == CONTENT,
                    _ => read.file.as_deref() == Some(CONTENT),
                };
                assert!(is_right, "bit {bit} of {path}");
            }
        }
    }

    #[test]
    fn a_truncated_file_or_backup_is_detected() {
        for path in [FILE, BACKUP] {
            let bytes = written().live_bytes(path).unwrap();
            for size in 0..bytes.len() {
                let fs = written();
                fs.remove(Path::new(path)).unwrap();
                fs.create(Path::new(path)).unwrap().append(&[&bytes[..size]]).unwrap();
                assert!(read(&fs).damage().is_some(), "{size} bytes of {path}");
            }
        }
    }

    #[test]
    fn a_missing_backup_is_no_damage() {
        let fs = written();
        fs.remove(Path::new(BACKUP)).unwrap();
        assert_eq!(read(&fs), BackedUpFile { file: Some(CONTENT.to_vec()), backup: BackupState::Missing });
        assert_eq!(read(&fs).damage(), None);
    }
}
