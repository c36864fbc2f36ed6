//! The data directory: one process at a time, a format version, the node's id, and the addresses in use.
//!
//! ```text
//!   LOCK            held by the process that uses the directory
//!   node.json       {"format": 1, "node": "<id>"}: written once
//!   addresses.json  the addresses in use, by listener
//!   queue/ shelf/   see docs/format.md
//! ```

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bucksaw_doors::{Doors, Lock};
use bucksaw_record::{Id, Millis, Producer};
use serde::{Deserialize, Serialize};

/// The layout of the directory that this program writes, and the newest that it uses.
const FORMAT: u32 = 1;

/// More than any of these files has.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Node {
    format: u32,
    node: String,
}

/// An open data directory. Its lock is given back when this is dropped, or the process ends.
pub(super) struct DataDir {
    path: PathBuf,
    node: Id,
    _lock: Box<dyn Lock>,
}

impl DataDir {
    pub(super) fn open(doors: &Doors, path: &Path) -> anyhow::Result<Self> {
        let fs = &doors.fs;
        let shown = path.display();
        fs.create_dir_all(path).with_context(|| format!("cannot make the data directory {shown}"))?;
        let lock = match fs.lock(&path.join("LOCK")) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("another process uses {shown}: stop it, or choose another directory with --data-dir")
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write to the data directory {shown}"));
            }
        };
        let file = path.join("node.json");
        let node = match read(doors, &file) {
            Ok(bytes) => serde_json::from_slice::<Node>(&bytes).with_context(|| {
                format!("{} is damaged: put back a copy, or move it away to get a new id", file.display())
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let now = Millis(doors.clock.unix_ms());
                let id = Id::new(now, Producer::drawn(doors.entropy.next_u64()), 0);
                let node = Node { format: FORMAT, node: id.to_string() };
                write(doors, &file, &serde_json::to_vec_pretty(&node)?)
                    .with_context(|| format!("cannot write to the data directory {shown}"))?;
                node
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        if node.format > FORMAT {
            let format = node.format;
            bail!(
                "{shown} was written by a newer version (format {format}, this program knows {FORMAT}): use the newer program"
            );
        }
        let node = node.node.parse().with_context(|| format!("{} names no node", file.display()))?;
        Ok(Self { path: path.to_owned(), node, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The id of the node.
    pub(super) fn node(&self) -> Id {
        self.node
    }

    /// Writes the addresses in use for those who start nodes with port 0.
    pub(super) fn write_addresses(&self, doors: &Doors, addresses: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let file = self.path.join("addresses.json");
        let text = serde_json::to_vec_pretty(addresses)?;
        write(doors, &file, &text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The bytes of a small file.
pub(super) fn read(doors: &Doors, path: &Path) -> io::Result<Vec<u8>> {
    let file = doors.fs.open(path)?;
    let mut bytes = vec![0; file.size()?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// In one step, so that a reader sees the old file or the new one.
fn write(doors: &Doors, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("tmp");
    match doors.fs.remove(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = doors.fs.create(&draft)?;
    file.append(&[bytes, b"\n"])?;
    file.sync()?;
    doors.fs.rename(&draft, path)?;
    doors.fs.sync_dir(path.parent().unwrap_or(Path::new(".")))
}
