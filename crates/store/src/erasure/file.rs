//! `erasures/<id>.json`: an erasure and what this node has done for it, with a backup. Format: `docs/format.md`, "Erasures".

use std::io;
use std::path::{Path, PathBuf};

use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{Env, Fs};
use bucksaw_record::Id;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::definition::Erasure;
use super::progress::ErasureProgress;
use crate::temp_file::remove_file;

/// The version of the file.
const VERSION: u32 = 1;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ErasureFile {
    version: u32,
    pub(super) erasure: Erasure,
    #[serde(default)]
    pub(super) progress: ErasureProgress,
}

#[derive(Deserialize)]
struct FileVersion {
    version: u32,
}

/// What was found in a directory.
#[derive(Debug, Default)]
pub(super) struct FoundErasures {
    pub(super) files: Vec<ErasureFile>,
    /// Names of files that cannot be read.
    pub(super) damaged: Vec<String>,
}

pub(super) fn path(dir: &Path, id: Id) -> PathBuf {
    dir.join(format!("{id}.json"))
}

pub(super) fn write(fs: &dyn Fs, dir: &Path, erasure: &Erasure, progress: &ErasureProgress) -> io::Result<()> {
    let file = ErasureFile { version: VERSION, erasure: erasure.clone(), progress: progress.clone() };
    let mut bytes = serde_json::to_vec(&file)?;
    bytes.push(b'\n');
    backed_up_file::write(fs, &path(dir, erasure.id), &bytes)
}

pub(super) fn remove(env: &Env, dir: &Path, id: Id) {
    let path = path(dir, id);
    // The backup goes last: a crash between the two leaves an erasure, not half of one.
    remove_file(env, &path);
    remove_file(env, &backed_up_file::backup_path(&path));
}

/// Reads all files of a directory, which may be missing.
///
/// # Errors
/// If the directory cannot be listed, or a file is of a newer version.
pub(super) fn read_all(env: &Env, dir: &Path) -> io::Result<FoundErasures> {
    let names = match env.fs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundErasures::default()),
        names => names?,
    };
    let stems = names.iter().filter_map(|name| name.strip_suffix(".json").or(name.strip_suffix(".backup")));
    let mut ids: Vec<Id> = stems.filter_map(|stem| stem.parse().ok()).collect();
    // In the order of their requests.
    ids.sort_unstable();
    ids.dedup();
    let mut found = FoundErasures::default();
    for id in ids {
        match read(&*env.fs, &path(dir, id)) {
            Ok(file) if file.erasure.id == id => found.files.push(file),
            Ok(_) => found.damaged.push(format!("{id}.json")),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Err(error),
            Err(error) => {
                warn!(erasure = %id, %error, "cannot read the file of an erasure");
                found.damaged.push(format!("{id}.json"));
            }
        }
    }
    Ok(found)
}

fn read(fs: &dyn Fs, path: &Path) -> io::Result<ErasureFile> {
    let found = BackedUpFile::read(fs, path, FILE_BYTES_MAX)?;
    let bytes = match found {
        BackedUpFile { backup: BackupState::Valid(backup) | BackupState::Newer(backup), .. } => backup,
        BackedUpFile { file: Some(file), .. } => file,
        BackedUpFile { file: None, .. } => return Err(io::ErrorKind::NotFound.into()),
    };
    let FileVersion { version } = serde_json::from_slice(&bytes)?;
    if version > VERSION {
        let message = format!("an erasure of version {version}: this program reads version {VERSION}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let file: ErasureFile = serde_json::from_slice(&bytes)?;
    file.erasure.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(file)
}
