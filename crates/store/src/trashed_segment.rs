//! A segment in the trash, and what its file name says.

use bucksaw_record::Millis;

use crate::name;

/// A segment in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedSegment {
    /// The file's name in the trash.
    pub name: String,
    /// Since when it is there.
    pub since: Millis,
    /// The time of its first record.
    pub low: Millis,
    /// The time of its last record.
    pub high: Millis,
    /// Its records; `None` where the file cannot be read.
    pub records: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The moment at which a file came to the trash, and the name that it had before; `None` when it is none of ours.
pub(crate) fn parse(name: &str) -> Option<(Millis, &str)> {
    let (since, name) = name.split_once('-')?;
    name::parse(name)?;
    Some((Millis(since.parse().ok()?), name))
}
