//! The names of the queue's files, and the effect of damage to them.

use std::io;
use std::path::Path;

use bucksaw_env::{Env, file_name};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::Damage;
use bucksaw_segment::queue::{Seal, SegmentScan, SegmentTail};

/// A file of the queue from which records are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedQueueFile {
    /// The file name in the directory of the queue.
    pub name: String,
    /// The time of the first record that may be missing.
    pub low: Millis,
    /// The time of the last record that may be missing.
    pub high: Millis,
}

impl DamagedQueueFile {
    /// Without a span, records of any time may be missing: sources may state event times.
    pub(crate) fn new(path: &Path, span: Option<(Millis, Millis)>) -> Self {
        let (low, high) = span.unwrap_or((Millis(0), Millis::MAX));
        Self { name: file_name(path), low, high }
    }
}

/// Removes a file, which may be absent.
pub(crate) fn remove_file(env: &Env, path: &Path) -> io::Result<()> {
    match env.fs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The id and the extension of a file of the queue; `None` for other files.
pub(crate) fn parse_name(name: &str) -> Option<(Id, &str)> {
    let (id, extension) = name.split_once('.')?;
    Some((id.parse().ok()?, extension))
}

/// The times of the first and last record of a sealed file.
pub(crate) fn seal_span(seal: &Seal) -> Option<(Millis, Millis)> {
    (seal.records > 0).then(|| (seal.low.time(), seal.high.time()))
}

/// The damage at the end of a file; `None` if the file is sealed, or if a crash explains that its end is missing.
pub(crate) fn tail_damage(found: &SegmentScan, requires_seal: bool, may_have_lost_writes: bool) -> Option<Damage> {
    match &found.tail {
        _ if found.seal.is_some() => None,
        _ if requires_seal => {
            let what = "the segment was closed and has no sound seal: records behind this may be missing";
            Some(Damage { offset: found.end, what })
        }
        SegmentTail::Damaged(damage) if !may_have_lost_writes => Some(damage.clone()),
        _ => None,
    }
}
