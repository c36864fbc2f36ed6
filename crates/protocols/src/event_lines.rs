//! Events as text, for tests.

use bucksaw_record::{AttributeNames, Labels};

use crate::{Event, EventError, EventSink};

/// Collects each event as one text: `labels|milliseconds.nanoseconds|line|name=value;…`.
#[derive(Debug, Default)]
pub(crate) struct EventLines {
    pub(crate) events: Vec<String>,
    /// The lines alone.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Bytes that the values of an event may have, if limited.
    pub(crate) value_bytes_max: Option<usize>,
}

impl EventSink for EventLines {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        let max = self.value_bytes_max.unwrap_or(usize::MAX);
        if event.attributes.value_bytes() > max {
            return Err(EventError::TooLong { bytes: event.attributes.value_bytes(), max });
        }
        if !event.attributes.is_empty() {
            AttributeNames::new(event.attributes.iter().map(|(name, _)| name))?;
        }
        let time = event.time.map_or_else(|| "-".to_owned(), |(at, below)| format!("{at}.{below:06}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let attributes: Vec<String> =
            event.attributes.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
        self.events.push(format!("{labels}|{time}|{}|{}", text(event.line), attributes.join(";")));
        self.lines.push(event.line.to_vec());
        Ok(())
    }
}
