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
const LINE_BYTES: usize = "crc32c 01234567 after 01234567\n".len();

/// Stands for the checksum of a file that is not there. An empty one has it, too, and was never written.
const NONE: u32 = 0;

/// A file with more bytes is not looked at before it is replaced: it is none of ours.
const REPLACED_BYTES_MAX: u64 = 64 << 20;

/// What is there of a file and its backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twice {
    /// The bytes of the file; `None` when there is no file.
    pub file: Option<Vec<u8>>,
    /// The backup.
    pub backup: Backup,
}

/// What is there of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backup {
    /// The bytes that were kept, by their checksum.
    Sound(Vec<u8>),
    /// The same, and the file is the one before: a crash kept it from being replaced.
    Newer(Vec<u8>),
    /// It is there, and does not have what was written.
    Damaged,
    /// It is not there: an older version knew of none.
    Missing,
}

impl Twice {
    /// Reads a file and its backup.
    ///
    /// # Errors
    /// What the file system says, but that a file is not there. `InvalidData` when one has more than `bytes_max`.
    pub fn read(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Self> {
        let backup = match bytes(fs, &backup_of(path), bytes_max + LINE_BYTES as u64) {
            Ok(None) => return Ok(Self { file: bytes(fs, path, bytes_max)?, backup: Backup::Missing }),
            Ok(Some(backup)) => backup,
            // A page that cannot be read is damage, too.
            Err(_) => Vec::new(),
        };
        let Some((after, kept)) = parse(&backup) else {
            return Ok(Self { file: bytes(fs, path, bytes_max)?, backup: Backup::Damaged });
        };
        let file = bytes(fs, path, bytes_max).unwrap_or_else(|_| Some(Vec::new()));
        let is_before = |file: &Vec<u8>| file != kept && after != NONE && crc32c::crc32c(file) == after;
        let backup = if file.as_ref().is_some_and(is_before) { Backup::Newer } else { Backup::Sound }(kept.to_owned());
        Ok(Self { file, backup })
    }

    /// What is wrong with the two, in words that go on after the file's name; nothing when all is well.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        match (&self.file, &self.backup) {
            (Some(file), Backup::Sound(kept)) if file != kept => {
                Some("differs from its backup: it is restored at the next start")
            }
            (_, Backup::Damaged) => Some("has a damaged backup: it is written anew at the next start"),
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
    let before = bytes(fs, path, REPLACED_BYTES_MAX).ok().flatten();
    let after = before.map_or(NONE, |before| crc32c::crc32c(&before));
    replace(fs, &backup_of(path), &[line_of(kept, after).as_bytes(), kept])
}

fn line_of(bytes: &[u8], after: u32) -> String {
    // Over both, for a bit may flip in either.
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&after.to_le_bytes()), bytes);
    format!("crc32c {checksum:08x} after {after:08x}\n")
}

/// The path of the backup of a file.
#[must_use]
pub fn backup_of(path: &Path) -> PathBuf {
    path.with_extension("backup")
}

/// The checksum of the file before, and the bytes.
fn parse(backup: &[u8]) -> Option<(u32, &[u8])> {
    let (line, kept) = backup.split_at_checked(LINE_BYTES)?;
    let after = std::str::from_utf8(line).ok()?.trim_end().rsplit(' ').next()?;
    let after = u32::from_str_radix(after, 16).ok()?;
    (line == line_of(kept, after).as_bytes()).then_some((after, kept))
}

fn bytes(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
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
    const KEPT: &[u8] = b"{\"format\": 1}\n";

    fn read(fs: &sim::Fs) -> Twice {
        Twice::read(fs, Path::new(FILE), 1_000).unwrap()
    }

    fn written() -> sim::Fs {
        let fs = sim::Fs::new();
        write(&fs, Path::new(FILE), KEPT).unwrap();
        fs
    }

    #[test]
    fn both_are_there_after_a_power_cut() {
        let fs = written().cut_power(sim::Loss::All, 0);
        assert_eq!(read(&fs), Twice { file: Some(KEPT.to_vec()), backup: Backup::Sound(KEPT.to_vec()) });
        assert_eq!(read(&fs).damage(), None);
    }

    #[test]
    fn a_crash_between_the_two_leaves_a_newer_backup() {
        let fs = written();
        write_backup(&fs, Path::new(FILE), b"new").unwrap();
        assert_eq!(read(&fs), Twice { file: Some(KEPT.to_vec()), backup: Backup::Newer(b"new".to_vec()) });
        assert_eq!(read(&fs).damage(), None);
        write(&fs, Path::new(FILE), b"newer").unwrap();
        assert_eq!(read(&fs), Twice { file: Some(b"newer".to_vec()), backup: Backup::Sound(b"newer".to_vec()) });
    }

    #[test]
    fn any_flipped_bit_is_found() {
        // One of the case of a hexadecimal digit, too.
        for (path, bytes) in [(FILE, KEPT.len()), (BACKUP, KEPT.len() + LINE_BYTES)] {
            for bit in 0..bytes * 8 {
                let fs = written();
                fs.flip_bit(path, bit as u64);
                let read = read(&fs);
                assert!(read.damage().is_some(), "bit {bit} of {path}");
                let is_right = match &read.backup {
                    Backup::Sound(kept) | Backup::Newer(kept) => kept == KEPT,
                    _ => read.file.as_deref() == Some(KEPT),
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
        assert_eq!(read(&fs), Twice { file: Some(KEPT.to_vec()), backup: Backup::Missing });
        assert_eq!(read(&fs).damage(), None);
    }
}
