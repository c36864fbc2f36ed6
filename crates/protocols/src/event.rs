//! Decoded records, and the trait of those that take them.

use bucksaw_record::{InvalidAttributes, Labels, Millis};

use crate::AttributeList;

/// One decoded record.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The time that the sender states: milliseconds, and nanoseconds below. `None`: the time of arrival.
    pub time: Option<(Millis, u32)>,
    /// The line, without an LF behind it; it may have LFs inside.
    pub line: &'a [u8],
    /// All else that the sender states about the record.
    pub attributes: &'a AttributeList,
}

/// Why a sink does not take an event. The events before and after it are not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Too many attributes, or one with a name that is too long.
    #[error(transparent)]
    Attributes(#[from] InvalidAttributes),
    /// The values of its attributes leave no room for a line.
    #[error("the attributes have {bytes} bytes; a record may have {max}")]
    TooLong {
        /// Bytes of all values.
        bytes: usize,
        /// The maximum of a record.
        max: usize,
    },
}

/// A line without the line ends behind it.
pub(crate) fn without_line_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    line.get(..end).unwrap_or_default()
}

/// Takes decoded events. It cuts lines that are too long into several records, and counts them.
pub trait EventSink {
    /// Takes an event of the stream with these labels. Decoders give events of one stream one after the other where the
    /// protocol allows it, and pass the same `labels` for them.
    ///
    /// # Errors
    /// [`EventError`] if this event is refused. The decoder continues with the next one, and reports the error if the
    /// protocol has a way to.
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError>;
}

/// A sink that takes all events and keeps none: for tests, fuzzing and measurements of decoders.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl EventSink for Discard {
    fn push(&mut self, _: &Labels, _: &Event<'_>) -> Result<(), EventError> {
        Ok(())
    }
}
