//! The small files of a data directory, as `bucksaw verify` looks at them and mends them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{Fs, replace};

/// Files that have a backup beside them.
pub(crate) const FILES_WITH_BACKUP: [&str; 3] = ["node.json", "members.json", "store/clock.json"];

/// A file of which there is one copy, that costs nothing: a node writes it anew at its start.
pub(crate) struct UnbackedFile {
    /// Its path in the data directory.
    pub(crate) name: &'static str,
    is_sound: fn(&[u8]) -> bool,
    /// What follows from its damage, as it goes on after its name.
    costs: &'static str,
}

/// These files.
pub(crate) const UNBACKED_FILES: [UnbackedFile; 2] = [
    UnbackedFile {
        name: "addresses.json",
        is_sound: |bytes| serde_json::from_slice::<BTreeMap<String, String>>(bytes).is_ok(),
        costs: "cannot be read: what looks there for the node's addresses does not find it",
    },
    UnbackedFile {
        name: "queue/boot",
        is_sound: bucksaw_ingest::offline_repair::is_valid_boot_file,
        costs: "cannot be read: at the next start a queue segment without its end counts as cut by a power cut",
    },
];

impl UnbackedFile {
    /// What is wrong with it, with its name. No record is missing because of it.
    pub(crate) fn check(&self, fs: &dyn Fs, dir: &Path) -> Option<String> {
        let Self { name, is_sound, costs } = self;
        match read(fs, &dir.join(name)) {
            Ok(bytes) if is_sound(&bytes) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(_) => Some(format!("{name} {costs} (no record is missing)")),
            Err(error) => Some(format!("{name} {costs}: {error} (no record is missing)")),
        }
    }

    /// Removes it, so that the next start writes it anew.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn remove(&self, fs: &dyn Fs, dir: &Path) -> io::Result<bool> {
        fs.remove(&dir.join(self.name)).map(|()| true)
    }
}

fn read(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path)?;
    let mut bytes = vec![0; file.size()?.min(BYTES_MAX) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// More than any of these files has.
const BYTES_MAX: u64 = 4 << 20;

/// What is wrong with one of them, with its name. No record is missing because of it.
pub(crate) fn check(fs: &dyn Fs, dir: &Path, name: &str) -> Option<String> {
    let found = match BackedUpFile::read(fs, &dir.join(name), BYTES_MAX) {
        Ok(found) => found,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    if let (Some(file), BackupState::Missing) = (&found.file, &found.backup) {
        return (!is_json(file)).then(|| format!("{name} is damaged, and has no backup"));
    }
    found.damage().map(|damage| format!("{name} {damage} (no record is missing)"))
}

/// Writes the damaged one of a file and its backup anew, by the other. `false` when neither is sound.
///
/// # Errors
/// What the file system says.
pub(crate) fn restore(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<bool> {
    let path = dir.join(name);
    match BackedUpFile::read(fs, &path, BYTES_MAX)? {
        BackedUpFile { file: Some(_), backup: BackupState::Valid(kept) | BackupState::Newer(kept) } => {
            replace(fs, &path, &[&kept])?;
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
    fn either_is_mended_by_the_other() {
        for path in ["/node.json", "/node.backup"] {
            let fs = written();
            fs.flip_bit(path, 9);
            assert!(check(&fs, Path::new("/"), "node.json").is_some(), "{path}");
            assert!(restore(&fs, Path::new("/"), "node.json").unwrap(), "{path}");
            assert_eq!(check(&fs, Path::new("/"), "node.json"), None, "{path}");
            let mended = BackedUpFile { file: Some(FILE.to_vec()), backup: BackupState::Valid(FILE.to_vec()) };
            assert_eq!(BackedUpFile::read(&fs, Path::new("/node.json"), BYTES_MAX).unwrap(), mended, "{path}");
        }
    }

    #[test]
    fn files_without_a_backup_are_named_where_they_cannot_be_read() {
        let sound = [&b"{\"http\":\"h:1\"}\n"[..], b"0123456789abcdef0123456789abcdef\n"];
        // What a crash leaves of the second one is its beginning.
        let broken = [[&b"{\"http\":1}"[..], b"{\"ht", b"\xff"], [b"0123456789Abcdef", b"\0\0", b"x"]];
        for ((file, sound), broken) in UNBACKED_FILES.iter().zip(sound).zip(broken) {
            let check = |bytes: &[u8]| {
                let fs = sim::Fs::new();
                fs.create_dir_all(Path::new("/queue")).unwrap();
                fs.create(&Path::new("/").join(file.name)).unwrap().append(&[bytes]).unwrap();
                let said = file.check(&fs, Path::new("/"));
                if said.is_some() {
                    assert!(file.remove(&fs, Path::new("/")).unwrap());
                    assert_eq!(file.check(&fs, Path::new("/")), None);
                }
                said
            };
            assert_eq!(check(sound), None, "{}", file.name);
            for bytes in broken {
                let said = check(bytes).unwrap();
                assert!(said.starts_with(file.name) && said.contains("no record is missing"), "{said}");
            }
        }
        assert!((UNBACKED_FILES[1].is_sound)(b"") && (UNBACKED_FILES[1].is_sound)(b"0123"));
    }

    #[test]
    fn without_a_sound_one_nothing_is_written() {
        let fs = written();
        fs.flip_bit("/node.json", 1);
        fs.flip_bit("/node.backup", 9);
        let before = (fs.live_bytes("/node.json"), fs.live_bytes("/node.backup"));
        assert!(!restore(&fs, Path::new("/"), "node.json").unwrap());
        assert_eq!((fs.live_bytes("/node.json"), fs.live_bytes("/node.backup")), before);
    }
}
