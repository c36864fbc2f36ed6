//! A segment in the trash, and what its file name says.

use bucksaw_record::Millis;

use crate::name;

/// A segment in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedSegment {
    /// The file's name in the trash.
    pub name: String,
    /// When it was moved.
    pub since: Millis,
    /// The time of its first record.
    pub low: Millis,
    /// The time of its last record.
    pub high: Millis,
    /// Number of records; `None` if the file cannot be read.
    pub records: Option<u64>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// When a file was moved to the trash, and its former name; `None` if the store has not made the name.
pub(crate) fn parse(name: &str) -> Option<(Millis, &str)> {
    let (since, name) = name.split_once('-')?;
    name::parse(name)?;
    Some((Millis(since.parse().ok()?), name))
}
