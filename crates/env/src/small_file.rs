//! Small files: read as a whole, and replaced atomically.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::Fs;

/// Replaces a small file durably and atomically: a reader sees the old or the new file, also after a power cut. Writes a draft
/// with the extension `tmp` first.
///
/// # Errors
/// Those of the file system. The draft is removed, and the old file is unchanged unless only the sync of the directory failed.
pub fn replace(fs: &dyn Fs, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let draft = path.with_extension("tmp");
    match fs.remove(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = fs.create(&draft).and_then(|file| {
        file.append(parts)?;
        file.sync()?;
        fs.rename(&draft, path)
    });
    if let Err(error) = written {
        // If this fails, the next call removes it.
        let _ = fs.remove(&draft);
        return Err(error);
    }
    fs.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// The last part of a path; empty if it has none.
pub fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The bytes of a small file; `None` if it does not exist.
///
/// # Errors
/// Those of the file system; `InvalidData` if the file is longer than `bytes_max`.
pub fn read_file(fs: &dyn Fs, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match fs.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let size = file.size()?;
    if size > bytes_max {
        return Err(io::Error::new(ErrorKind::InvalidData, "the file is too long"));
    }
    file.read_bytes(0, size as usize).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let fs = sim::Fs::new();
        let path = Path::new("/a.json");
        assert_eq!(read_file(&fs, path, 3).unwrap(), None);
        replace(&fs, path, &[b"old"]).unwrap();
        assert_eq!(read_file(&fs, path, 3).unwrap(), Some(b"old".to_vec()));
        assert_eq!(read_file(&fs, path, 2).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_failed_replace_leaves_the_old_file_and_no_draft() {
        let fs = sim::Fs::new();
        let path = Path::new("/a.json");
        replace(&fs, path, &[b"o", b"ld"]).unwrap();
        fs.fill(2);
        assert_eq!(replace(&fs, path, &[b"newer"]).unwrap_err().kind(), ErrorKind::StorageFull);
        fs.set_capacity(None);
        fs.fail_next_syncs(1);
        assert!(replace(&fs, path, &[b"newer"]).is_err());
        assert_eq!((fs.live_bytes(path), fs.paths().len()), (Some(b"old".to_vec()), 1));
        replace(&fs, path, &[b"new"]).unwrap();
        let after = fs.cut_power(sim::PowerCutLoss::All, 0);
        assert_eq!((after.live_bytes(path), after.paths().len()), (Some(b"new".to_vec()), 1));
    }
}
