//! The sink of one message.

use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::{Flags, Labels, Millis};

use crate::frame_batch::{FrameBatch, FramePlace, NewRecord};
use crate::offset_ids::OffsetIds;

/// Adds the event of one message to a batch. A line that is too long becomes several records, each with all attributes.
#[derive(Debug)]
pub(crate) struct MessageSink<'a> {
    pub(crate) batch: &'a mut FrameBatch,
    pub(crate) ids: &'a mut OffsetIds,
    /// Where the last message of the partition was added.
    pub(crate) place: &'a mut Option<FramePlace>,
    pub(crate) offset: u64,
    pub(crate) arrival: Millis,
    pub(crate) record_bytes_max: usize,
    /// Set if the event has a time more than an hour after the arrival.
    pub(crate) is_ahead: bool,
}

impl MessageSink<'_> {
    /// The bytes of each part of the line, as for the events of other protocols.
    fn part_bytes_max(&self, event: &Event<'_>) -> Result<usize, EventError> {
        let max = self.record_bytes_max.max(1);
        // An LF is before each value.
        let bytes = event.attributes.value_bytes() + event.attributes.len();
        match max.checked_sub(bytes) {
            Some(room) if event.line.len() <= room => Ok(max),
            Some(room) if room >= max.div_ceil(2) => Ok(room),
            Some(_) => Err(EventError::TooLong { bytes, max: max / 2 }),
            None => Err(EventError::TooLong { bytes, max }),
        }
    }
}

impl EventSink for MessageSink<'_> {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        let part_bytes_max = self.part_bytes_max(event)?;
        self.is_ahead = event.time.is_some_and(|(at, _)| at.clamp_future(self.arrival).1);
        let mut rest = event.line;
        for part in 0.. {
            let (line, behind) = rest.split_at(rest.len().min(part_bytes_max));
            let flags = if behind.is_empty() { 0 } else { Flags::CUT };
            let (producer, sequence) = self.ids.at(self.offset, part);
            let record = NewRecord { labels, event, line, flags, producer, sequence, arrival: self.arrival };
            // The parts after the first have producers of their own, so each is a frame.
            let place = self.place.filter(|_| part == 0);
            let place = self.batch.push(place, &record)?;
            if part == 0 {
                *self.place = Some(place);
            }
            if behind.is_empty() {
                break;
            }
            rest = behind;
        }
        Ok(())
    }
}
