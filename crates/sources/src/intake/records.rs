//! Decoded records.

use bucksaw_record::{Flags, Millis, SplitLines};

/// The time that a record states: milliseconds, and nanoseconds below.
pub type RecordTime = (Millis, u32);

/// Decoded records of one stream, without ids.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// The text of `count` records, each followed by an LF, in any number of parts.
    pub text: &'a [&'a [u8]],
    /// The number of records.
    pub count: u32,
    /// Which records were cut or had no line end.
    pub flags: &'a Flags,
    /// The event time of each record, or nothing if no record of this source has one.
    pub times: &'a [Option<RecordTime>],
}

impl<'a> From<&'a SplitLines<'a>> for Records<'a> {
    fn from(lines: &'a SplitLines<'a>) -> Self {
        Self { text: &lines.parts, count: lines.count, flags: &lines.flags, times: &[] }
    }
}
