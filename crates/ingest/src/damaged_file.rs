//! Files of the queue from which records are missing.

use std::path::Path;

use bucksaw_record::Millis;
use bucksaw_segment::queue::Seal;

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
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (low, high) = span.unwrap_or((Millis(0), Millis::MAX));
        Self { name, low, high }
    }
}

/// The times of the first and last record of a sealed file.
pub(crate) fn seal_span(seal: &Seal) -> Option<(Millis, Millis)> {
    (seal.records > 0).then(|| (seal.low.time(), seal.high.time()))
}
