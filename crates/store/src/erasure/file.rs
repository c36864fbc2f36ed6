//! `erasures/<id>.json`: an erasure and what this node has done for it, with a backup. Encrypted as a whole if the node has keys.
//! Format: `docs/format.md`, "Erasures".

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{Env, Fs, KeyId};
use bucksaw_record::Id;
use bucksaw_segment::{OpenError, ReadError};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::definition::Erasure;
use super::progress::ErasureProgress;
use crate::temp_file::remove_file;

/// The version of a plain file.
const PLAIN_VERSION: u32 = 1;

/// The version of an encrypted file. A program that does not know it does not start, instead of answering without the erasure.
const ENCRYPTED_VERSION: u32 = 2;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 128 << 10;

/// What the key of a file follows from, besides the id.
const KEY_MAGIC: [u8; 8] = *b"BSWERASE";

/// The content of a file, after decryption.
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

/// An encrypted file.
#[derive(Serialize, Deserialize)]
struct EncryptedFile {
    version: u32,
    /// The content as an encrypted part, in base64.
    encrypted: String,
}

/// How an erasure is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredErasure {
    /// The key that its file is encrypted with; `None` for a plain file.
    pub(super) key: Option<KeyId>,
    /// Bytes of the file and its backup.
    pub(super) bytes: u64,
    /// The damage of one of the two copies; `None` if both are intact.
    pub(super) damage: Option<&'static str>,
    /// Whether both copies have the same content.
    pub(super) is_current: bool,
}

/// What was found in a directory.
#[derive(Debug, Default)]
pub(super) struct FoundErasures {
    pub(super) files: Vec<(ErasureFile, StoredErasure)>,
    /// Names of files that cannot be read.
    pub(super) damaged: Vec<String>,
}

/// The name of the file of an erasure.
pub(crate) fn name(id: Id) -> String {
    format!("{id}.json")
}

pub(super) fn path(dir: &Path, id: Id) -> PathBuf {
    dir.join(name(id))
}

fn key_name(id: Id) -> Vec<u8> {
    [&KEY_MAGIC[..], &id.bits().to_le_bytes()].concat()
}

/// Writes a file and its backup durably, under the key of new files.
///
/// # Errors
/// Those of the file system.
pub(super) fn write(
    fs: &dyn Fs,
    dir: &Path,
    erasure: &Erasure,
    progress: &ErasureProgress,
) -> io::Result<StoredErasure> {
    let file = ErasureFile { version: PLAIN_VERSION, erasure: erasure.clone(), progress: progress.clone() };
    let mut bytes = serde_json::to_vec(&file)?;
    let cipher = fs.keys().and_then(|keys| keys.writer(&key_name(erasure.id)));
    if let Some(cipher) = &cipher {
        let encrypted = STANDARD.encode(cipher.encrypt(&[], &[&bytes])?);
        bytes = serde_json::to_vec(&EncryptedFile { version: ENCRYPTED_VERSION, encrypted })?;
    }
    bytes.push(b'\n');
    backed_up_file::write(fs, &path(dir, erasure.id), &bytes)?;
    let key = cipher.map(|cipher| cipher.key_id());
    Ok(StoredErasure { key, bytes: 2 * bytes.len() as u64, damage: None, is_current: true })
}

pub(super) fn remove(env: &Env, dir: &Path, id: Id) {
    let path = path(dir, id);
    // The backup goes last: a crash between the two leaves an erasure, not half of one.
    remove_file(env, &path);
    remove_file(env, &backed_up_file::backup_path(&path));
}

/// The ids of the erasures in a directory, which may be missing, in the order of their requests.
///
/// # Errors
/// If the directory cannot be listed.
pub(crate) fn ids(fs: &dyn Fs, dir: &Path) -> io::Result<Vec<Id>> {
    let names = match fs.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names?,
    };
    let stems = names.iter().filter_map(|name| name.strip_suffix(".json").or(name.strip_suffix(".backup")));
    let mut ids: Vec<Id> = stems.filter_map(|stem| stem.parse().ok()).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Reads all files of a directory, which may be missing.
///
/// # Errors
/// If the directory cannot be listed, or a file is of a newer version or under an unknown key: without its erasure, answers
/// would have what must be forgotten.
pub(super) fn read_all(env: &Env, dir: &Path) -> Result<FoundErasures, OpenError> {
    let mut found = FoundErasures::default();
    for id in ids(&*env.fs, dir).map_err(OpenError::io(dir))? {
        match read(&*env.fs, dir, id) {
            Ok(file) => found.files.push(file),
            Err(newer @ ReadError::Version { .. }) => return Err(OpenError::NewerVersion(newer)),
            Err(unreadable @ ReadError::MissingKey { .. }) => return Err(OpenError::MissingKey { unreadable }),
            Err(error) => {
                warn!(erasure = %id, %error, "cannot read the file of an erasure");
                found.damaged.push(name(id));
            }
        }
    }
    Ok(found)
}

/// The damage of the file of an erasure, or of its backup, if the other copy can be read.
///
/// # Errors
/// [`ReadError`] if neither can be read.
pub(crate) fn check(fs: &dyn Fs, dir: &Path, id: Id) -> Result<Option<&'static str>, ReadError> {
    read(fs, dir, id).map(|(_, stored)| stored.damage)
}

/// Reads the file of an erasure, or its backup.
///
/// # Errors
/// [`ReadError`] if neither can be read.
pub(super) fn read(fs: &dyn Fs, dir: &Path, id: Id) -> Result<(ErasureFile, StoredErasure), ReadError> {
    let path = path(dir, id);
    let found =
        BackedUpFile::read(fs, &path, FILE_BYTES_MAX).map_err(|source| ReadError::Io { path: path.clone(), source })?;
    let (damage, has_file) = (found.damage(), found.file.is_some());
    let (content, is_current) = match found {
        BackedUpFile { file, backup: BackupState::Valid(backup) } => {
            let is_current = file.as_ref() == Some(&backup);
            (backup, is_current)
        }
        BackedUpFile { backup: BackupState::Newer(backup), .. } => (backup, false),
        BackedUpFile { file: Some(file), .. } => (file, false),
        BackedUpFile { file: None, backup: BackupState::Damaged } => {
            let path = backed_up_file::backup_path(&path);
            return Err(ReadError::damaged(&path, 0, "the backup is damaged, and there is no file"));
        }
        BackedUpFile { file: None, .. } => {
            return Err(ReadError::Io { path, source: io::ErrorKind::NotFound.into() });
        }
    };
    // The copy that has to be moved away if its key is lost.
    let path = if has_file { path } else { backed_up_file::backup_path(&path) };
    let (file, key) = parse(fs, &path, id, &content)?;
    Ok((file, StoredErasure { key, bytes: 2 * content.len() as u64, damage, is_current }))
}

/// Parses the content of a file, and decrypts it. Also returns the key.
fn parse(fs: &dyn Fs, path: &Path, id: Id, content: &[u8]) -> Result<(ErasureFile, Option<KeyId>), ReadError> {
    let damaged = |what| ReadError::damaged(path, 0, what);
    let FileVersion { version } =
        serde_json::from_slice(content).map_err(|_| damaged("the file of the erasure is not JSON with a version"))?;
    let (plain, key) = match version {
        0..=PLAIN_VERSION => (content.to_vec(), None),
        ENCRYPTED_VERSION => {
            let file = serde_json::from_slice::<EncryptedFile>(content).ok();
            let encrypted = file.and_then(|file| STANDARD.decode(file.encrypted).ok());
            let encrypted = encrypted.ok_or_else(|| damaged("the file of the erasure has no encrypted part"))?;
            let key = KeyId::of_part(&encrypted).ok_or_else(|| damaged("the encrypted erasure is too short"))?;
            let cipher = fs.keys().and_then(|keys| keys.reader(key, &key_name(id)));
            let cipher = cipher.ok_or_else(|| ReadError::MissingKey { path: path.to_owned(), key })?;
            let plain = cipher.decrypt(&[], encrypted);
            (plain.ok_or_else(|| damaged("the encrypted erasure was changed"))?, Some(key))
        }
        found => return Err(ReadError::Version { path: path.to_owned(), found, known: ENCRYPTED_VERSION }),
    };
    let file: ErasureFile = serde_json::from_slice(&plain).map_err(|_| damaged("the file is not an erasure"))?;
    if file.erasure.id != id {
        return Err(damaged("the erasure has another id than its file"));
    }
    file.erasure.check().map_err(|_| damaged("the erasure is invalid"))?;
    Ok((file, key))
}
