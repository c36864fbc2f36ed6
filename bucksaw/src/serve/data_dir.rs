//! The data directory: one process at a time, a format version, the node's id, and the addresses in use.
//!
//! ```text
//!   LOCK            held by the process that uses the directory
//!   node.json       {"format": 1, "node": "<id>"}, written once, and node.backup
//!   addresses.json  the addresses in use, by listener
//!   queue/ store/   see docs/format.md
//! ```

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{Env, FileLock, Shortage, Tasks, replace, run_blocking};
use bucksaw_record::{Id, Millis, Producer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{debug, info, warn};

use super::disk;

/// The layout that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// Pause between attempts to write a file on a full disk.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Larger than any of these files.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct NodeFile {
    format: u32,
    node: String,
}

/// An open data directory, locked until this is dropped or the process ends.
pub(super) struct DataDir {
    pub(super) path: PathBuf,
    pub(super) node: Id,
    _lock: Box<dyn FileLock>,
}

impl DataDir {
    pub(super) fn open(env: &Env, path: &Path) -> anyhow::Result<Self> {
        let fs = &env.fs;
        let shown = path.display();
        fs.create_dir_all(path).with_context(|| format!("cannot create the data directory {shown}"))?;
        if fs.open(&path.join("node.json")).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            disk::check(env, path)?;
        }
        let lock = match fs.lock(&path.join("LOCK")) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("another process uses {shown}: stop it, or choose another directory with --data-dir")
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write to the data directory {shown}"));
            }
        };
        // Older versions made it readable by all users.
        if let Err(error) = fs.make_private(path) {
            warn!(dir = %shown, %error, "cannot revoke the access of other users to the data directory: run chmod -R go= on it");
        }
        let file = path.join("node.json");
        let kept = BackedUpFile::read(&**fs, &file, FILE_BYTES_MAX)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let node = match kept {
            BackedUpFile { file: Some(bytes), backup } => restore_from_backup(env, bytes, &backup, &file, path)?,
            // An operator moves the file away to get a new id.
            BackedUpFile { file: None, .. } => {
                let now = Millis(env.clock.unix_ms());
                let id = Id::new(now, Producer::random(env.entropy.next_u64()), 0);
                let node = NodeFile { format: FORMAT, node: id.to_string() };
                let mut bytes = serde_json::to_vec_pretty(&node)?;
                bytes.push(b'\n');
                backed_up_file::write(&**fs, &file, &bytes)
                    .with_context(|| format!("cannot write to the data directory {shown}"))?;
                node
            }
        };
        let node = node.node.parse().with_context(|| format!("{} has no valid id", file.display()))?;
        Ok(Self { path: path.to_owned(), node, _lock: lock })
    }

    /// Writes the addresses in use, for programs that start nodes with port 0. On a full disk returns the file for
    /// [`retry_write`]; until then the node works without it.
    pub(super) fn write_addresses(
        &self,
        env: &Env,
        addresses: &BTreeMap<String, String>,
    ) -> anyhow::Result<Option<PendingFile>> {
        let path = self.path.join("addresses.json");
        let text = serde_json::to_vec_pretty(addresses)?;
        let written = write(env, &path, &text).or_else(|error| {
            // The file of an earlier run is wrong, and its space may suffice.
            if Shortage::is_disk_full(&error) && env.fs.remove(&path).is_ok() {
                write(env, &path, &text)
            } else {
                Err(error)
            }
        });
        match written {
            Ok(()) => Ok(None),
            Err(error) if Shortage::is_disk_full(&error) => {
                warn!(path = %path.display(), %error, "cannot write the addresses in use: retrying until space is free");
                Ok(Some((path, text)))
            }
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// The path and text of a file that did not fit on the disk.
pub(super) type PendingFile = (PathBuf, Vec<u8>);

/// Retries until the file is written.
pub(super) async fn retry_write(env: Env, tasks: Arc<dyn Tasks>, (path, text): PendingFile) {
    loop {
        tasks.sleep(RETRY_PAUSE).await;
        let (env, file, text) = (env.clone(), path.clone(), text.clone());
        if let Some(Ok(())) = run_blocking(&tasks, move || write(&env, &file, &text)).await {
            return info!(path = %path.display(), "wrote the addresses in use");
        }
    }
}

/// Parses `node.json`, or its backup if they differ, and restores the damaged one. A node also starts if a full disk
/// prevents that.
fn restore_from_backup(
    env: &Env,
    bytes: Vec<u8>,
    backup: &BackupState,
    file: &Path,
    dir: &Path,
) -> anyhow::Result<NodeFile> {
    let shown = file.display();
    let (node, written) = match backup {
        BackupState::Valid(valid) if *valid == bytes => return parse(&bytes, file, dir),
        BackupState::Newer(valid) => {
            (parse(valid, &backed_up_file::backup_path(file), dir)?, replace(&*env.fs, file, &[valid]))
        }
        BackupState::Valid(valid) => {
            let node = parse(valid, &backed_up_file::backup_path(file), dir)?;
            let copy = file.with_extension("json.damaged");
            warn!(file = %shown, copy = %copy.display(), "the file with the node's id was damaged: it is restored from its backup");
            // Copied for inspection and not moved, because a node without the file gets a new id.
            if let Err(error) = env.fs.create(&copy).and_then(|copy| copy.append(&[&bytes])) {
                debug!(%error, "cannot copy the damaged file");
            }
            (node, replace(&*env.fs, file, &[valid]))
        }
        BackupState::Damaged | BackupState::Missing => {
            let node = parse(&bytes, file, dir)?;
            if *backup == BackupState::Damaged {
                warn!(file = %shown, "the backup of the file with the node's id was damaged: it is rewritten");
            }
            (node, backed_up_file::write_backup(&*env.fs, file, &bytes))
        }
    };
    if let Err(error) = written {
        warn!(file = %shown, %error, "cannot write the file with the node's id, or its backup");
    }
    Ok(node)
}

/// Parses `node.json`, the format first: other fields of a newer one are unknown.
fn parse(bytes: &[u8], path: &Path, dir: &Path) -> anyhow::Result<NodeFile> {
    let damaged = || format!("{} is damaged: restore a copy, or move it away to get a new id", path.display());
    let file: Value = serde_json::from_slice(bytes).with_context(damaged)?;
    if let Some(format) = file["format"].as_u64().filter(|format| *format > u64::from(FORMAT)) {
        let shown = dir.display();
        bail!(
            "{shown} was written by a newer version (format {format}, this program reads up to {FORMAT}): use the newer program"
        );
    }
    NodeFile::deserialize(file).with_context(damaged)
}

fn write(env: &Env, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(env.fs.as_ref(), path, &[bytes, b"\n"])
}

#[cfg(test)]
mod tests {
    use bucksaw_env::sim;
    use bucksaw_fixtures::{GoldenFiles, with_unknown_fields};

    use super::*;

    /// The id in the golden file.
    const NODE: &str = "01KAHRG9A10000000004000000";

    fn files() -> GoldenFiles {
        GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), FORMAT)
    }

    fn env(fs: &sim::Fs) -> Env {
        let (clock, entropy) = (sim::Clock::at_unix_ms(1_763_680_200_000), sim::Entropy::seeded(7));
        Env { fs: Arc::new(fs.clone()), clock: Arc::new(clock), entropy: Arc::new(entropy) }
    }

    /// Opens a directory with this `node.json`.
    fn open(node: &[u8]) -> anyhow::Result<Id> {
        let fs = sim::Fs::new();
        let env = env(&fs);
        fs_write(&env, node)?;
        DataDir::open(&env, Path::new("/data")).map(|dir| dir.node)
    }

    fn fs_write(env: &Env, node: &[u8]) -> anyhow::Result<()> {
        env.fs.create_dir_all(Path::new("/data"))?;
        Ok(write(env, Path::new("/data/node.json"), node)?)
    }

    fn written(fs: &sim::Fs, name: &str) -> Vec<u8> {
        let mut bytes = fs.live_bytes(name).unwrap();
        assert_eq!(bytes.pop(), Some(b'\n'));
        bytes
    }

    #[test]
    fn small_files_equal_the_golden_files() {
        let fs = sim::Fs::new();
        let env = env(&fs);
        let dir = DataDir::open(&env, Path::new("/data")).unwrap();
        // The id depends on the order of random draws.
        let node = String::from_utf8(written(&fs, "/data/node.json")).unwrap();
        files().check("node", node.replace(&dir.node.to_string(), NODE).as_bytes());
        files().read_all("node").iter().for_each(|kept| assert_eq!(open(kept).unwrap().to_string(), NODE));
        let addresses = [("cluster", "10.0.0.1:7659"), ("http", "10.0.0.1:7650")];
        let addresses = addresses.map(|(name, at)| (name.to_owned(), at.to_owned()));
        dir.write_addresses(&env, &addresses.into()).unwrap();
        files().check("addresses", &written(&fs, "/data/addresses.json"));
        for seed in 0..20 {
            assert_eq!(
                open(&with_unknown_fields(&files().read_all("node")[0], seed).unwrap()).unwrap().to_string(),
                NODE
            );
        }
    }

    #[test]
    fn any_flipped_bit_is_repaired() {
        for path in ["/data/node.json", "/data/node.backup"] {
            let fs = sim::Fs::new();
            let env = env(&fs);
            let id = DataDir::open(&env, Path::new("/data")).unwrap().node;
            let file = Path::new("/data/node.json");
            let written = fs.live_bytes("/data/node.json").unwrap();
            for bit in 0..fs.live_bytes(path).unwrap().len() as u64 * 8 {
                fs.flip_bit(path, bit);
                assert_eq!(DataDir::open(&env, Path::new("/data")).unwrap().node, id, "bit {bit} of {path}");
                let repaired =
                    BackedUpFile { file: Some(written.clone()), backup: BackupState::Valid(written.clone()) };
                assert_eq!(BackedUpFile::read(&fs, file, FILE_BYTES_MAX).unwrap(), repaired, "bit {bit} of {path}");
            }
        }
    }

    #[test]
    fn a_directory_without_node_json_gets_a_new_id() {
        let fs = sim::Fs::new();
        let env = env(&fs);
        let open = || DataDir::open(&env, Path::new("/data")).unwrap().node;
        let id = open();
        env.fs.remove(Path::new("/data/node.backup")).unwrap();
        assert_eq!(open(), id);
        assert!(fs.live_bytes("/data/node.backup").is_some());
        env.fs.remove(Path::new("/data/node.json")).unwrap();
        assert_ne!(open(), id);
    }

    #[test]
    fn a_node_starts_on_a_full_disk() {
        let fs = sim::Fs::new();
        let env = env(&fs);
        drop(DataDir::open(&env, Path::new("/data")).unwrap());
        fs.set_capacity(Some(0));
        fs.fill_directories(true);
        let dir = DataDir::open(&env, Path::new("/data")).unwrap();
        assert!(dir.write_addresses(&env, &BTreeMap::new()).unwrap().is_some());
        fs.set_capacity(None);
        fs.fill_directories(false);
        assert!(dir.write_addresses(&env, &BTreeMap::new()).unwrap().is_none());
        // A new node must write its file.
        fs.set_capacity(Some(64 << 20));
        fs.fill_directories(true);
        let refused = DataDir::open(&env, Path::new("/new")).map(drop).unwrap_err();
        assert!(refused.to_string().contains("/new"), "{refused}");
    }

    #[test]
    fn directories_of_a_newer_version_and_damaged_files_are_refused() {
        let check = |node: &str, want: &str| assert_eq!(open(node.as_bytes()).unwrap_err().to_string(), want);
        let newer =
            "/data was written by a newer version (format 2, this program reads up to 1): use the newer program";
        check(r#"{"format": 2, "node": "00000000000000000000000000"}"#, newer);
        check(r#"{"format": 2, "nodes": []}"#, newer);
        let damaged = "/data/node.json is damaged: restore a copy, or move it away to get a new id";
        check(r#"{"format": 1}"#, damaged);
        check("{", damaged);
    }
}
