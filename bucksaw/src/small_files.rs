//! Checks and repairs the small files of a data directory, for `bucksaw verify`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::bail;
use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{Fs, replace};
use tracing::warn;

/// Backed-up files.
pub(crate) const FILES_WITH_BACKUP: [&str; 3] = ["node.json", "members.json", "store/clock.json"];

/// Larger than any of these files.
const BYTES_MAX: u64 = 4 << 20;

/// A file without a backup. A node writes it at its start, so a repair removes it.
pub(crate) struct UnbackedFile {
    /// Its path in the data directory.
    pub(crate) name: &'static str,
    is_valid: fn(&[u8]) -> bool,
    /// The damage and its effect, as a predicate to follow the name.
    damage: &'static str,
}

pub(crate) const UNBACKED_FILES: [UnbackedFile; 2] = [
    UnbackedFile {
        name: "addresses.json",
        is_valid: |bytes| serde_json::from_slice::<BTreeMap<String, String>>(bytes).is_ok(),
        damage: "cannot be read: its readers do not find the addresses of the node",
    },
    UnbackedFile {
        name: "queue/boot",
        is_valid: bucksaw_ingest::offline_repair::is_valid_boot_file,
        damage: "cannot be read: the next start takes a queue segment without its end as cut by a power cut",
    },
];

impl UnbackedFile {
    /// The damage, with the file's name.
    pub(crate) fn check(&self, fs: &dyn Fs, dir: &Path) -> Option<String> {
        let Self { name, is_valid, damage } = self;
        match read(fs, &dir.join(name)) {
            Ok(bytes) if is_valid(&bytes) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(_) => Some(format!("{name} {damage} (no record is missing)")),
            Err(error) => Some(format!("{name} {damage}: {error} (no record is missing)")),
        }
    }
}

/// Refuses a file with a secret that every user of the machine can access, and warns of one that its group can.
pub(crate) fn check_private(fs: &dyn Fs, path: &Path, flag: &str) -> anyhow::Result<()> {
    let Ok(mode) = fs.mode(path) else { return Ok(()) };
    let shown = path.display();
    if mode & 0o007 != 0 {
        bail!("{flag}: every user of this machine can access {shown} (mode {mode:04o}): run chmod 600 {shown}");
    }
    if mode & 0o070 != 0 {
        warn!(file = %shown, flag, mode = format!("{mode:04o}"), "the group of a file with a secret can access it: chmod 600 is safer");
    }
    Ok(())
}

/// Reads a small file.
pub(crate) fn read(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path)?;
    let mut bytes = vec![0; file.size()?.min(BYTES_MAX) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The damage of a backed-up file, with its name.
pub(crate) fn check(fs: &dyn Fs, dir: &Path, name: &str) -> Option<String> {
    let found = match BackedUpFile::read(fs, &dir.join(name), BYTES_MAX) {
        Ok(found) => found,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    if let (Some(file), BackupState::Missing) = (&found.file, &found.backup) {
        return (!is_json(file)).then(|| format!("{name} is damaged and has no backup"));
    }
    found.damage().map(|damage| format!("{name} {damage} (no record is missing)"))
}

/// Restores the damaged copy of a backed-up file from the other copy; `false` if no copy is valid.
pub(crate) fn restore(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<bool> {
    let path = dir.join(name);
    match BackedUpFile::read(fs, &path, BYTES_MAX)? {
        BackedUpFile { file: Some(_), backup: BackupState::Valid(valid) | BackupState::Newer(valid) } => {
            replace(fs, &path, &[&valid])?;
        }
        BackedUpFile { file: Some(file), .. } if is_json(&file) => backed_up_file::write_backup(fs, &path, &file)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use bucksaw_env::sim;

    use super::*;

    const FILE: &[u8] = b"{\"format\": 1}\n";

    fn written() -> sim::Fs {
        let fs = sim::Fs::new();
        backed_up_file::write(&fs, Path::new("/node.json"), FILE).unwrap();
        fs
    }

    #[test]
    fn a_damaged_copy_is_restored_from_the_other() {
        for path in ["/node.json", "/node.backup"] {
            let fs = written();
            fs.flip_bit(path, 9);
            assert!(check(&fs, Path::new("/"), "node.json").is_some(), "{path}");
            assert!(restore(&fs, Path::new("/"), "node.json").unwrap(), "{path}");
            assert_eq!(check(&fs, Path::new("/"), "node.json"), None, "{path}");
            let restored = BackedUpFile { file: Some(FILE.to_vec()), backup: BackupState::Valid(FILE.to_vec()) };
            assert_eq!(BackedUpFile::read(&fs, Path::new("/node.json"), BYTES_MAX).unwrap(), restored, "{path}");
        }
    }

    #[test]
    fn damaged_files_without_a_backup_are_named() {
        let valid = [&b"{\"http\":\"h:1\"}\n"[..], b"0123456789abcdef0123456789abcdef\n"];
        // A crash leaves the begin of the second file.
        let broken = [[&b"{\"http\":1}"[..], b"{\"ht", b"\xff"], [b"0123456789Abcdef", b"\0\0", b"x"]];
        for ((file, valid), broken) in UNBACKED_FILES.iter().zip(valid).zip(broken) {
            let check = |bytes: &[u8]| {
                let fs = sim::Fs::new();
                fs.create_dir_all(Path::new("/queue")).unwrap();
                fs.create(&Path::new("/").join(file.name)).unwrap().append(&[bytes]).unwrap();
                let damage = file.check(&fs, Path::new("/"));
                fs.remove(&Path::new("/").join(file.name)).unwrap();
                assert_eq!(file.check(&fs, Path::new("/")), None);
                damage
            };
            assert_eq!(check(valid), None, "{}", file.name);
            for bytes in broken {
                let damage = check(bytes).unwrap();
                assert!(damage.starts_with(file.name) && damage.contains("no record is missing"), "{damage}");
            }
        }
        assert!((UNBACKED_FILES[1].is_valid)(b"") && (UNBACKED_FILES[1].is_valid)(b"0123"));
    }

    #[test]
    fn nothing_is_written_without_a_valid_copy() {
        let fs = written();
        fs.flip_bit("/node.json", 1);
        fs.flip_bit("/node.backup", 9);
        let before = (fs.live_bytes("/node.json"), fs.live_bytes("/node.backup"));
        assert!(!restore(&fs, Path::new("/"), "node.json").unwrap());
        assert_eq!((fs.live_bytes("/node.json"), fs.live_bytes("/node.backup")), before);
    }
}
