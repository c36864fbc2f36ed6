//! The memory that the index of a segment takes for a stream.

use bucksaw_record::Labels;

/// Memory of a stream and of a label without their text, in bytes: the labels, and the stream number while the segment is
/// active.
const STREAM_BYTES: u64 = 160;
const LABEL_BYTES: u64 = 64;

/// Memory of a stream, in bytes.
pub(crate) fn stream_bytes(labels: &Labels) -> u64 {
    let label = |(name, value): (&str, &str)| LABEL_BYTES + (name.len() + value.len()) as u64;
    STREAM_BYTES + labels.iter().map(label).sum::<u64>()
}
