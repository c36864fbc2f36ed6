//! Small files that are written in one step.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::Fs;

/// Replaces a small file, durably and in one step: a reader sees the old file or the new one, also after a power cut.
/// The draft beside it has the extension `tmp`, and is removed when this fails.
///
/// # Errors
/// What the file system says; then the old file is as it was, unless it was the directory that could not be synced.
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
        // The next try removes it, too.
        let _ = fs.remove(&draft);
        return Err(error);
    }
    fs.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

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
