//! The event times of the lines of one source.

use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Millis};

use super::records::RecordTime;

/// Calls `on_line` with each record of `text`, its LF included, its flags and its event time.
///
/// `is_continuation` says that the record before the text was cut, and is kept for the next text.
pub(crate) fn for_each_timed_line<E>(
    reader: &mut LineTimeReader,
    is_continuation: &mut bool,
    (text, flags): (&[u8], &Flags),
    now: Millis,
    mut on_line: impl FnMut(&[u8], u8, Option<RecordTime>) -> Result<(), E>,
) -> Result<(), E> {
    for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        let bits = flags.get(row);
        let time = reader.next_time(line, *is_continuation, now);
        *is_continuation = bits & Flags::CUT != 0;
        on_line(line, bits, time)?;
    }
    Ok(())
}
