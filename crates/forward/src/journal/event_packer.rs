//! Packs events of several streams into batches, one for each stream.

use std::collections::HashMap;
use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_protocols::{AttributeList, Event, EventError, EventSink};
use bucksaw_record::{Labels, Millis};
use bucksaw_segment::RowMeta;
use bucksaw_sources::intake::RecordBuffer;
use bucksaw_wire::Batch;

use crate::agent_labels::with_agent_labels;
use crate::batch_builder::ShippedBatch;
use crate::batch_ids::BatchIds;

/// Memory that a stream keeps ahead, in bytes.
const STREAM_BYTES_MAX: usize = 256 << 10;

/// Collects events until they are packed.
pub(super) struct EventPacker {
    env: Env,
    /// The labels of the agent.
    labels: Labels,
    ids: BatchIds,
    /// In the order of their first event.
    streams: Vec<(Labels, RecordBuffer)>,
    by_labels: HashMap<Labels, usize>,
    bytes: usize,
    /// Events whose attributes could not be stored.
    bare_events: u64,
}

impl EventPacker {
    pub(super) fn new(env: &Env, labels: Labels) -> Self {
        Self {
            env: env.clone(),
            labels,
            ids: BatchIds::new(env),
            streams: Vec::new(),
            by_labels: HashMap::new(),
            bytes: 0,
            bare_events: 0,
        }
    }

    /// Bytes of the events.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The number of events so far whose attributes are too many, or have a name that is too long. They are stored without.
    pub(super) fn bare_events(&self) -> u64 {
        self.bare_events
    }

    /// Packs the events.
    pub(super) fn finish(&mut self) -> Vec<ShippedBatch> {
        self.by_labels.clear();
        self.bytes = 0;
        let streams = std::mem::take(&mut self.streams);
        streams.into_iter().map(|(labels, buffer)| self.pack(&labels, &buffer)).collect()
    }

    fn pack(&mut self, labels: &Labels, buffer: &RecordBuffer) -> ShippedBatch {
        let now = Millis(self.env.clock.unix_ms()).min(Millis::MAX);
        let count = buffer.count();
        let first = self.ids.next_first_id(now, count);
        let labels = Arc::new(with_agent_labels(labels, &self.labels));
        let frame = buffer.with_records(|records| {
            let times = records.times.iter().map(|time| time.unwrap_or((first.time(), 0))).collect();
            let meta = RowMeta {
                times: Some(times),
                lines: records.lines.map(<[u32]>::to_vec),
                flags: records.flags.clone(),
                attributes: records.attributes.clone(),
            };
            let mut row_meta = Vec::new();
            let layout_bits = meta.encode(first.time(), &mut row_meta);
            let text = records.text.concat();
            Batch { first_id: first, count, accepted: now, layout_bits, row_meta: &row_meta, text: &text }.encode()
        });
        ShippedBatch { labels, frame, records: count, text_bytes: buffer.text_bytes(), ticket: None }
    }

    fn stream(&mut self, labels: &Labels) -> Option<&mut RecordBuffer> {
        let at = match self.by_labels.get(labels) {
            Some(at) => *at,
            None => {
                self.by_labels.insert(labels.clone(), self.streams.len());
                self.streams.push((labels.clone(), RecordBuffer::new(STREAM_BYTES_MAX)));
                self.streams.len() - 1
            }
        };
        self.streams.get_mut(at).map(|(_, buffer)| buffer)
    }
}

impl EventSink for EventPacker {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        self.bytes += event.line.len() + event.attributes.value_bytes();
        let Some(stream) = self.stream(labels) else { return Ok(()) };
        if stream.push_event(event.line, event.attributes, 0, event.time).is_err() {
            stream.push_event(event.line, &AttributeList::default(), 0, event.time)?;
            self.bare_events += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::{ClientMessage, DecodeProgress};

    use super::*;

    /// The labels, times and text of a batch.
    fn contents(batch: &ShippedBatch) -> (String, Vec<u64>, String) {
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
            ClientMessage::decode(&batch.frame, u32::MAX)
        else {
            panic!("no batch")
        };
        let rows = frame.rows().unwrap();
        let times = (0..rows.count).map(|row| rows.id(row).unwrap().time().0).collect();
        (batch.labels.to_string(), times, String::from_utf8(frame.text().to_vec()).unwrap())
    }

    #[test]
    fn events_are_packed_by_stream_with_their_times_and_attributes() {
        let mut packer = EventPacker::new(&Env::real(), Labels::parse("site=s,unit=x").unwrap());
        let mut attributes = AttributeList::default();
        attributes.push("a", b"1");
        let (one, two) = (Labels::parse("unit=one").unwrap(), Labels::parse("unit=two").unwrap());
        for (labels, time, line) in [(&one, 5, "a"), (&two, 6, "b\nc"), (&one, 7, "d")] {
            let event = Event { time: Some((Millis(time), 0)), line: line.as_bytes(), attributes: &attributes };
            packer.push(labels, &event).unwrap();
        }
        let mut many = AttributeList::default();
        (0..300).for_each(|number| many.push(&number.to_string(), b"x"));
        packer.push(&two, &Event { time: Some((Millis(8), 0)), line: b"bare", attributes: &many }).unwrap();
        assert_eq!((packer.bare_events(), packer.is_empty()), (1, false));
        let batches: Vec<_> = packer.finish().iter().map(contents).collect();
        let want =
            [("site=s,unit=one", vec![5, 7], "a\n1\nd\n1\n"), ("site=s,unit=two", vec![6, 8], "b\nc\n1\nbare\n")];
        assert_eq!(batches, want.map(|(labels, times, text)| (labels.to_owned(), times, text.to_owned())));
        assert!(packer.is_empty() && packer.bytes() == 0);
    }
}
