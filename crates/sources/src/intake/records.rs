//! Decoded records.

use bucksaw_record::{Flags, Labels, Millis, RowAttributes, SplitLines};

/// The time that a record states: milliseconds, and nanoseconds below.
pub type RecordTime = (Millis, u32);

/// No attributes.
pub(super) const NO_ATTRIBUTES: &RowAttributes = &RowAttributes::empty();

/// Decoded records of one stream, without ids.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// The text of `count` records, an LF behind each line and each value of an attribute, in any number of parts.
    pub text: &'a [&'a [u8]],
    /// The number of records.
    pub count: u32,
    /// Which records were cut or had no line end.
    pub flags: &'a Flags,
    /// The event time of each record, or nothing if no record of this source has one.
    pub times: &'a [Option<RecordTime>],
    /// The number of lines of each record, the values of its attributes included; `None` if each line is a record.
    pub lines: Option<&'a [u32]>,
    /// Which attributes the records have; needs `lines`.
    pub attributes: &'a RowAttributes,
    /// The labels, if a batch has records of several streams and states what their text does not: the ids of a keyed batch
    /// then depend on labels and times too.
    pub batch_labels: Option<&'a Labels>,
}

impl<'a> From<&'a SplitLines<'a>> for Records<'a> {
    fn from(lines: &'a SplitLines<'a>) -> Self {
        Self {
            text: &lines.parts,
            count: lines.count,
            flags: &lines.flags,
            times: &[],
            lines: None,
            attributes: NO_ATTRIBUTES,
            batch_labels: None,
        }
    }
}
