//! Small files that must outlive damage: each is kept twice.
//!
//! ```text
//!   node.json      the bytes as they are, for people and for programs that know of no backup
//!   node.backup    "crc32c <8 hex digits> after <8 hex digits>\n", then the same bytes
//! ```
//! The backup is written first. It has two checksums: of the file that is to be replaced, 0 when there is none, and of this
//! and its bytes. So a sound one is right whatever the file says, and a file that differs from it was damaged, unless it is the one
//! before: then a crash came between the two.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Fs, replace};

/// The first line of a backup, in bytes.
const HEADER_LINE_BYTES: usize = "crc32c 01234567 after 01234567\n".len();

/// Stands for the checksum of a file that is not there. An empty one has it, too, and was never written.
const NO_FILE_CHECKSUM: u32 = 0;

/// A file with more bytes is not looked at before it is replaced: it is none of ours.
const PREVIOUS_BYTES_MAX: u64 = 64 << 20;

/// What is there of a file and its backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedUpFile {
    /// The bytes of the file; `None` when there is no file.
    pub file: Option<Vec<u8>>,
    /// The backup.
    pub backup: BackupState,
}

/// What is there of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// The bytes that were kept, by their checksum.
    Valid(Vec<u8>),
    /// The same, and the file is the one before: a crash kept it from being replaced.
    Newer(Vec<u8>),
    /// It is there, and does not have what was written.
    Damaged,
    /// It is not there: an older version knew of none.
    Missing,
}

impl BackedUpFile {
    /// Reads a file and its backup.
    ///
    /// # Errors
    /// What the file system says, but that a file is not there. `InvalidData` when one has more than `bytes_max`.
    pub fn read(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Self> {
        let backup = match read_file(fs, &backup_path(path), bytes_max + HEADER_LINE_BYTES as u64) {
            Ok(None) => return Ok(Self { file: read_file(fs, path, bytes_max)?, backup: BackupState::Missing }),
            Ok(Some(backup)) => backup,
            // A page that cannot be read is damage, too.
            Err(_) => Vec::new(),
        };
        let Some((after, kept)) = parse_backup(&backup) else {
            return Ok(Self { file: read_file(fs, path, bytes_max)?, backup: BackupState::Damaged });
        };
        let file = read_file(fs, path, bytes_max).unwrap_or_else(|_| Some(Vec::new()));
        let is_before = |file: &Vec<u8>| file != kept && after != NO_FILE_CHECKSUM && crc32c::crc32c(file) == after;
        let backup =
            if file.as_ref().is_some_and(is_before) { BackupState::Newer } else { BackupState::Valid }(kept.to_owned());
        Ok(Self { file, backup })
    }

    /// What is wrong with the two, in words that go on after the file's name; nothing when all is well.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        match (&self.file, &self.backup) {
            (Some(file), BackupState::Valid(kept)) if file != kept => {
                Some("differs from its backup: it is restored at the next start")
            }
            (_, BackupState::Damaged) => Some("has a damaged backup: it is rewritten at the next start"),
            _ => None,
        }
    }
}

/// Replaces a file and its backup, each in one step, and makes both durable.
///
/// # Errors
/// What the file system says. Then the backup may be newer than the file.
pub fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_backup(fs, path, bytes)?;
    replace(fs, path, &[bytes])
}

/// Writes the file anew from its sound backup.
///
/// # Errors
/// What the file system says.
pub fn restore(fs: &dyn Fs, path: &Path, kept: &[u8]) -> io::Result<()> {
    replace(fs, path, &[kept])
}

/// Writes the backup of a file that has these bytes, or is about to have them.
///
/// # Errors
/// What the file system says.
pub fn write_backup(fs: &dyn Fs, path: &Path, kept: &[u8]) -> io::Result<()> {
    // One that cannot be read is no reason not to write.
    let before = read_file(fs, path, PREVIOUS_BYTES_MAX).ok().flatten();
    let after = before.map_or(NO_FILE_CHECKSUM, |before| crc32c::crc32c(&before));
    replace(fs, &backup_path(path), &[header_line(kept, after).as_bytes(), kept])
}

fn header_line(bytes: &[u8], after: u32) -> String {
    // Over both, for a bit may flip in either.
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&after.to_le_bytes()), bytes);
    format!("crc32c {checksum:08x} after {after:08x}\n")
}

/// The path of the backup of a file.
#[must_use]
pub fn backup_path(path: &Path) -> PathBuf {
    path.with_extension("backup")
}

/// The checksum of the file before, and the bytes.
fn parse_backup(backup: &[u8]) -> Option<(u32, &[u8])> {
    let (line, kept) = backup.split_at_checked(HEADER_LINE_BYTES)?;
    let after = std::str::from_utf8(line).ok()?.trim_end().rsplit(' ').next()?;
    let after = u32::from_str_radix(after, 16).ok()?;
    (line == header_line(kept, after).as_bytes()).then_some((after, kept))
}

fn read_file(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match fs.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let size = file.size()?;
    if size > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
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
    fn both_are_there_after_a_power_cut() {
        let fs = written().cut_power(sim::PowerCutLoss::All, 0);
        assert_eq!(
            read(&fs),
            BackedUpFile { file: Some(CONTENT.to_vec()), backup: BackupState::Valid(CONTENT.to_vec()) }
        );
        assert_eq!(read(&fs).damage(), None);
    }

    #[test]
    fn a_crash_between_the_two_leaves_a_newer_backup() {
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
    fn any_flipped_bit_is_found() {
        // One of the case of a hexadecimal digit, too.
        for (path, bytes) in [(FILE, CONTENT.len()), (BACKUP, CONTENT.len() + HEADER_LINE_BYTES)] {
            for bit in 0..bytes * 8 {
                let fs = written();
                fs.flip_bit(path, bit as u64);
                let read = read(&fs);
                assert!(read.damage().is_some(), "bit {bit} of {path}");
                let is_right = match &read.backup {
                    BackupState::Valid(kept) | BackupState::Newer(kept) => kept == CONTENT,
                    _ => read.file.as_deref() == Some(CONTENT),
                };
                assert!(is_right, "bit {bit} of {path}");
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_found() {
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
    fn an_older_version_leaves_no_backup() {
        let fs = written();
        fs.remove(Path::new(BACKUP)).unwrap();
        assert_eq!(read(&fs), BackedUpFile { file: Some(CONTENT.to_vec()), backup: BackupState::Missing });
        assert_eq!(read(&fs).damage(), None);
    }
}
