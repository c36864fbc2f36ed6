//! Versions of the program: the current code, and the current code behind a layer that makes its messages and files look like
//! those of a later version.
//!
//! ```text
//!   current code ── sent messages ─────► unknown fields added to every object; messages and datagrams of unknown kinds inserted
//!                ◄─ received messages ── unchanged
//!                ── written files ─────► `members.json` of the next format, with unknown fields
//! ```
//! So a node of the current version receives and reads unknown fields and kinds everywhere, under load and restarts. Fixtures of
//! the crates test that a later version still writes what an earlier one needs.

mod net;
mod stream;

use std::path::Path;
use std::sync::Arc;

use bucksaw_cluster::{ClusterVersion, Format, Formats};
use bucksaw_env::backed_up_file::{BackedUpFile, backup_path};
use bucksaw_env::{Fs as _, Net, sim};
use bucksaw_fixtures::with_unknown_fields;
use bucksaw_node::FORMATS;

use crate::settings::{DIR, MEMBER_FILE_BYTES_MAX};

/// A version of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProgramVersion {
    /// The current code.
    #[default]
    Current,
    /// The next version: sends more fields, and reads a new format of stored segments, which it does not write yet.
    Next,
    /// The version after that, incompatible with the current one. It writes the new format.
    #[cfg(test)]
    AfterNext,
    /// A faulty next version: it writes the new format at once.
    #[cfg(test)]
    NextWritesTooEarly,
}

impl ProgramVersion {
    /// Its protocol version.
    pub(crate) fn protocol(self) -> ClusterVersion {
        let ClusterVersion { major, minor } = ClusterVersion::OWN;
        let added = match self {
            Self::Current => 0,
            Self::Next => 1,
            #[cfg(test)]
            Self::NextWritesTooEarly => 1,
            #[cfg(test)]
            Self::AfterNext => 2,
        };
        ClusterVersion { major, minor: minor + added }
    }

    /// The file formats that it reads and writes.
    pub(crate) fn formats(self) -> Formats {
        let Format { reads, writes } = FORMATS.stored;
        let stored = match self {
            Self::Current => FORMATS.stored,
            Self::Next => Format { reads: reads + 1, writes },
            #[cfg(test)]
            Self::AfterNext | Self::NextWritesTooEarly => Format { reads: reads + 1, writes: reads + 1 },
        };
        Formats { stored, ..FORMATS }
    }

    /// The network of a host that runs it.
    pub(crate) fn net(self, host: &sim::Host) -> Arc<dyn Net> {
        match self {
            Self::Current => host.net(),
            _ => Arc::new(net::FutureNet::new(host)),
        }
    }

    /// Rewrites the member file as this version would leave it for the next start.
    pub(crate) fn write_member_file(self, fs: &sim::Fs) {
        let path = Path::new(DIR).join("members.json");
        let Some(bytes) = path.to_str().and_then(|path| fs.live_bytes(path)).filter(|_| self != Self::Current) else {
            return;
        };
        // A damaged file is not this version's: its backup stays.
        if BackedUpFile::read(fs, &path, MEMBER_FILE_BYTES_MAX).is_ok_and(|file| file.damage().is_some()) {
            return;
        }
        let Some(extended) = with_unknown_fields(&bytes, bytes.len() as u64) else { return };
        let text = String::from_utf8_lossy(&extended).replacen("\"format\":1", "\"format\":2", 1);
        let draft = path.with_extension("later");
        let written = fs.create(&draft).and_then(|file| {
            file.append(&[text.as_bytes()])?;
            file.sync()
        });
        // On a full or failing disk the old file stays.
        let replaced = written.and_then(|()| fs.rename(&draft, &path)).and_then(|()| fs.sync_dir(Path::new(DIR)));
        if replaced.is_err() {
            let _ = fs.remove(&draft);
            return;
        }
        // An intact backup would be read in place of the file with the unknown fields.
        let _ = fs.remove(&backup_path(&path));
    }
}
