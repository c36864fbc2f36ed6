//! Versions of the program that a machine can run: the code as it is, and the same behind a layer at its doors that makes of
//! it a later version, as far as others can tell.
//!
//! ```text
//!   present code ── what it says to others ──► fields added to every object, messages and packets of unknown kinds put in
//!                ◄─ what others say ──────── as it is
//!                ── what it keeps ──────────► `members.json` of the next format, with fields added
//! ```
//! So a node of the present version meets what it does not know, in everything that it hears and reads, while clients write and
//! nodes go up and down. That a later version still says what an earlier one needs is held by the fixtures of the crates.

mod net;
mod stream;

use std::path::Path;
use std::sync::Arc;

use bucksaw_cluster::{Format, Formats, Version};
use bucksaw_env::backed_up_file::{BackedUpFile, backup_path};
use bucksaw_env::{Fs as _, Net, sim};
use bucksaw_fixtures::with_unknown_fields;
use bucksaw_node::FORMATS;

use crate::file_damage::LIST_BYTES_MAX;
use crate::machine::DIR;

/// A version of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProgramVersion {
    /// The code as it is.
    #[default]
    Current,
    /// The next one: it says more, and reads a new format of stored segments, which it does not write yet.
    Next,
    /// The one after that: no neighbour of the present one. It writes the new format.
    #[cfg(test)]
    AfterNext,
    /// A next one that does what it must not: it writes the new format at once.
    #[cfg(test)]
    NextWritesTooEarly,
}

impl ProgramVersion {
    /// What it speaks.
    pub(crate) fn protocol(self) -> Version {
        let Version { major, minor } = Version::OWN;
        let added = match self {
            Self::Current => 0,
            Self::Next => 1,
            #[cfg(test)]
            Self::NextWritesTooEarly => 1,
            #[cfg(test)]
            Self::AfterNext => 2,
        };
        Version { major, minor: minor + added }
    }

    /// The files that it takes and gives.
    pub(crate) fn formats(self) -> Formats {
        let Format { reads, writes } = FORMATS.stored;
        let stored = match self {
            Self::Current => FORMATS.stored,
            Self::Next => Format { reads: reads + 1, writes },
            #[cfg(test)]
            Self::AfterNext | Self::NextWritesTooEarly => Format { reads: reads + 1, writes: writes + 1 },
        };
        Formats { stored, ..FORMATS }
    }

    /// The way to others of a machine that runs it.
    pub(crate) fn net(self, host: &sim::Host) -> Arc<dyn Net> {
        match self {
            Self::Current => host.net(),
            _ => Arc::new(net::FutureNet::new(host)),
        }
    }

    /// What it leaves behind when it ends, for whatever is started next: it would have kept more.
    pub(crate) fn write_member_file(self, fs: &sim::Fs) {
        let path = Path::new(DIR).join("members.json");
        let Some(bytes) = path.to_str().and_then(|path| fs.live_bytes(path)).filter(|_| self != Self::Current) else {
            return;
        };
        // What was damaged meanwhile is not what this version kept: the backup has that, and stays.
        if BackedUpFile::read(fs, &path, LIST_BYTES_MAX).is_ok_and(|kept| kept.damage().is_some()) {
            return;
        }
        let Some(grown) = with_unknown_fields(&bytes, bytes.len() as u64) else { return };
        let text = String::from_utf8_lossy(&grown).replacen("\"format\":1", "\"format\":2", 1);
        let draft = path.with_extension("later");
        let written = fs.create(&draft).and_then(|file| {
            file.append(&[text.as_bytes()])?;
            file.sync()
        });
        // A disk that is full, or fails, keeps what there was.
        let kept = written.and_then(|()| fs.rename(&draft, &path)).and_then(|()| fs.sync_dir(Path::new(DIR)));
        if kept.is_err() {
            let _ = fs.remove(&draft);
            return;
        }
        // Else it would count, and what the next version adds would never be read.
        let _ = fs.remove(&backup_path(&path));
    }
}
