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
use bucksaw_doors::twice::{Twice, backup_of};
use bucksaw_doors::{Fs as _, Net, sim};
use bucksaw_node::FORMATS;
use bucksaw_versions::later;

use crate::machine::DIR;
use crate::rot::LIST_BYTES_MAX;

/// A version of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edition {
    /// The code as it is.
    #[default]
    Present,
    /// The next one: it says more, and reads a new format of stored segments, which it does not write yet.
    Next,
    /// The one after that: no neighbour of the present one. It writes the new format.
    #[cfg(test)]
    AfterNext,
    /// A next one that does what it must not: it writes the new format at once.
    #[cfg(test)]
    Hasty,
}

impl Edition {
    /// What it speaks.
    pub(crate) fn speaks(self) -> Version {
        let Version { major, minor } = Version::OWN;
        let added = match self {
            Self::Present => 0,
            Self::Next => 1,
            #[cfg(test)]
            Self::Hasty => 1,
            #[cfg(test)]
            Self::AfterNext => 2,
        };
        Version { major, minor: minor + added }
    }

    /// The files that it takes and gives.
    pub(crate) fn formats(self) -> Formats {
        let Format { reads, writes } = FORMATS.shelf;
        let shelf = match self {
            Self::Present => FORMATS.shelf,
            Self::Next => Format { reads: reads + 1, writes },
            #[cfg(test)]
            Self::AfterNext | Self::Hasty => Format { reads: reads + 1, writes: writes + 1 },
        };
        Formats { shelf, ..FORMATS }
    }

    /// The way to others of a machine that runs it.
    pub(crate) fn net(self, host: &sim::Node) -> Arc<dyn Net> {
        match self {
            Self::Present => host.net(),
            _ => Arc::new(net::Later::new(host)),
        }
    }

    /// What it leaves behind when it ends, for whatever is started next: it would have kept more.
    pub(crate) fn leave(self, fs: &sim::Fs) {
        let path = Path::new(DIR).join("members.json");
        let Some(bytes) = path.to_str().and_then(|path| fs.live_bytes(path)).filter(|_| self != Self::Present) else {
            return;
        };
        // What was damaged meanwhile is not what this version kept: the backup has that, and stays.
        if Twice::read(fs, &path, LIST_BYTES_MAX).is_ok_and(|kept| kept.damage().is_some()) {
            return;
        }
        let Some(grown) = later(&bytes, bytes.len() as u64) else { return };
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
        let _ = fs.remove(&backup_of(&path));
    }
}
