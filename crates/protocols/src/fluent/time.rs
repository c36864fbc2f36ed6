//! Times of events.

use bucksaw_record::Millis;
use bucksaw_record::time::{event_time_number, event_time_text};

use super::MsgpackValue;

/// The type of Fluentd's `EventTime`.
const EVENT_TIME: i8 = 0;

/// The type of a timestamp of MessagePack.
const TIMESTAMP: i8 = -1;

/// The time that a value states: seconds, an `EventTime`, or text. `None` if there is no time, the time is 0, or it is
/// invalid: then the event has the time of its arrival.
pub(super) fn event_time(value: MsgpackValue<'_>) -> Option<(Millis, u32)> {
    match value {
        MsgpackValue::Extension(kind, bytes) => extension_time(kind, bytes),
        MsgpackValue::Unsigned(number) => event_time_number(&number.to_string()),
        MsgpackValue::Float32(number) => event_time_number(&number.to_string()),
        MsgpackValue::Float64(number) => event_time_number(&number.to_string()),
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) => {
            event_time_text(text).or_else(|| event_time_number(str::from_utf8(text).ok()?.trim()))
        }
        _ => None,
    }
    .filter(|(at, _)| at.0 > 0)
}

/// The time of an extension: `EventTime`, or a timestamp of MessagePack.
///
/// ```text
///   EventTime   seconds u32, nanoseconds u32
///   timestamp   seconds u32 | nanoseconds 30 bits, seconds 34 bits | nanoseconds u32, seconds i64
/// ```
pub(super) fn extension_time(kind: i8, bytes: &[u8]) -> Option<(Millis, u32)> {
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
    let (seconds, nanos) = match (kind, bytes.len()) {
        (EVENT_TIME, 8) => (u64::from(word(bytes.get(..4)?)?), word(bytes.get(4..)?)?),
        (TIMESTAMP, 4) => (u64::from(word(bytes)?), 0),
        (TIMESTAMP, 8) => {
            let both = u64::from_be_bytes(bytes.try_into().ok()?);
            (both & ((1 << 34) - 1), (both >> 34) as u32)
        }
        (TIMESTAMP, 12) => (u64::from_be_bytes(bytes.get(4..)?.try_into().ok()?), word(bytes.get(..4)?)?),
        _ => return None,
    };
    let millis = seconds.checked_mul(1_000)?.checked_add(u64::from(nanos / 1_000_000))?;
    let is_valid = nanos < 1_000_000_000 && millis <= Millis::MAX.0;
    is_valid.then_some((Millis(millis), nanos % 1_000_000))
}

/// The bounds of a group of records with common metadata, which Fluent Bit marks by times before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupMark {
    Start,
    End,
}

/// Whether a time marks a bound of a group: -1 or -2 seconds in an `EventTime`.
pub(super) fn group_mark(value: MsgpackValue<'_>) -> Option<GroupMark> {
    match value {
        MsgpackValue::Extension(EVENT_TIME, [0xff, 0xff, 0xff, 0xff, ..]) => Some(GroupMark::Start),
        MsgpackValue::Extension(EVENT_TIME, [0xff, 0xff, 0xff, 0xfe, ..]) => Some(GroupMark::End),
        _ => None,
    }
}
