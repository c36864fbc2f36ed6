//! The small files of a data directory, as `bucksaw verify` looks at them and mends them.

use std::io;
use std::path::Path;

use bucksaw_doors::Fs;
use bucksaw_doors::twice::{self, Backup, Twice};

/// Files that have a backup beside them.
pub(crate) const KEPT_TWICE: [&str; 2] = ["node.json", "members.json"];

/// More than any of these files has.
const BYTES_MAX: u64 = 4 << 20;

/// What is wrong with one of them, with its name. No record is missing because of it.
pub(crate) fn check(fs: &dyn Fs, dir: &Path, name: &str) -> Option<String> {
    let found = match Twice::read(fs, &dir.join(name), BYTES_MAX) {
        Ok(found) => found,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    if let (Some(file), Backup::Missing) = (&found.file, &found.backup) {
        return (!is_json(file)).then(|| format!("{name} is damaged, and has no backup"));
    }
    found.damage().map(|damage| format!("{name} {damage} (no record is missing)"))
}

/// Writes the damaged one of a file and its backup anew, by the other. `false` when neither is sound.
///
/// # Errors
/// What the file system says.
pub(crate) fn mend(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<bool> {
    let path = dir.join(name);
    match Twice::read(fs, &path, BYTES_MAX)? {
        Twice { file: Some(_), backup: Backup::Sound(kept) | Backup::Newer(kept) } => twice::restore(fs, &path, &kept)?,
        Twice { file: Some(file), .. } if is_json(&file) => twice::write_backup(fs, &path, &file)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use bucksaw_doors::sim;

    use super::*;

    const FILE: &[u8] = b"{\"format\": 1}\n";

    fn written() -> sim::Fs {
        let fs = sim::Fs::new();
        twice::write(&fs, Path::new("/node.json"), FILE).unwrap();
        fs
    }

    #[test]
    fn either_is_mended_by_the_other() {
        for path in ["/node.json", "/node.backup"] {
            let fs = written();
            fs.flip_bit(path, 9);
            assert!(check(&fs, Path::new("/"), "node.json").is_some(), "{path}");
            assert!(mend(&fs, Path::new("/"), "node.json").unwrap(), "{path}");
            assert_eq!(check(&fs, Path::new("/"), "node.json"), None, "{path}");
            let mended = Twice { file: Some(FILE.to_vec()), backup: Backup::Sound(FILE.to_vec()) };
            assert_eq!(Twice::read(&fs, Path::new("/node.json"), BYTES_MAX).unwrap(), mended, "{path}");
        }
    }

    #[test]
    fn without_a_sound_one_nothing_is_written() {
        let fs = written();
        fs.flip_bit("/node.json", 1);
        fs.flip_bit("/node.backup", 9);
        let before = (fs.live_bytes("/node.json"), fs.live_bytes("/node.backup"));
        assert!(!mend(&fs, Path::new("/"), "node.json").unwrap());
        assert_eq!((fs.live_bytes("/node.json"), fs.live_bytes("/node.backup")), before);
    }
}
