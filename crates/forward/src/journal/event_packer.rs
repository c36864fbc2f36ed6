//! Packs events of several streams into batches, one for each stream.

use std::collections::HashMap;
use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_protocols::{AttributeList, Event, EventError, EventSink};
use bucksaw_record::{Labels, Millis};
use bucksaw_segment::RowMeta;
use bucksaw_sources::intake::{EventFilter as _, EventPlace, FilterCounts, RecordBuffer};
use bucksaw_wire::Batch;
use twox_hash::XxHash3_64;

use crate::EventRules;
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
    rules: Option<Arc<EventRules>>,
    /// Whether events were pushed since the last call of [`Self::finish`], also if none was kept.
    has_events: bool,
    /// What the rules did with events that are not appended.
    filtered: FilterCounts,
    /// Events whose attributes could not be stored.
    bare_events: u64,
}

impl EventPacker {
    /// `rules` decide which events are kept.
    pub(super) fn new(env: &Env, labels: Labels, rules: Option<Arc<EventRules>>) -> Self {
        Self {
            env: env.clone(),
            labels,
            ids: BatchIds::new(env),
            streams: Vec::new(),
            by_labels: HashMap::new(),
            bytes: 0,
            rules,
            has_events: false,
            filtered: FilterCounts::default(),
            bare_events: 0,
        }
    }

    /// Bytes of the events.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are events since the last call of [`Self::finish`], also such as the rules have dropped.
    pub(super) fn has_events(&self) -> bool {
        self.has_events
    }

    /// Drops the events, which are read again.
    pub(super) fn discard(&mut self) {
        self.finish();
        self.filtered = FilterCounts::default();
    }

    /// Counts what the rules did, when the events are appended.
    pub(super) fn confirm(&mut self) {
        let filtered = std::mem::take(&mut self.filtered);
        if let Some(rules) = &self.rules {
            rules.add_counts(filtered);
        }
    }

    /// The number of events so far whose attributes are too many, or have a name that is too long. They are stored without.
    pub(super) fn bare_events(&self) -> u64 {
        self.bare_events
    }

    /// Packs the events.
    pub(super) fn finish(&mut self) -> Vec<ShippedBatch> {
        self.by_labels.clear();
        self.bytes = 0;
        self.has_events = false;
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

impl EventPacker {
    fn collect(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        self.bytes += event.line.len() + event.attributes.value_bytes();
        let Some(stream) = self.stream(labels) else { return Ok(()) };
        if stream.push_event(event.line, event.attributes, 0, event.time).is_err() {
            stream.push_event(event.line, &AttributeList::default(), 0, event.time)?;
            self.bare_events += 1;
        }
        Ok(())
    }
}

impl EventSink for EventPacker {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        self.has_events = true;
        let Some(rules) = self.rules.clone() else { return self.collect(labels, event) };
        let mut counts = std::mem::take(&mut self.filtered);
        let collected =
            rules.filter(labels, event, place(event), &mut counts, &mut |event| self.collect(labels, event));
        self.filtered = counts;
        collected
    }
}

/// The place of an entry: its time, to the microsecond, and its line. An entry that is read again has the same one.
fn place(event: &Event<'_>) -> EventPlace {
    let (time, below) = event.time.unwrap_or_default();
    EventPlace { source: time.0, number: XxHash3_64::oneshot_with_seed(u64::from(below), event.line) }
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::{ClientMessage, DecodeProgress};

    use super::*;
    use crate::{LineConfig, LineTotals};

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
        let mut packer = EventPacker::new(&Env::real(), Labels::parse("site=s,unit=x").unwrap(), None);
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
        assert_eq!((packer.bare_events(), packer.has_events()), (1, true));
        let batches: Vec<_> = packer.finish().iter().map(contents).collect();
        let want =
            [("site=s,unit=one", vec![5, 7], "a\n1\nd\n1\n"), ("site=s,unit=two", vec![6, 8], "b\nc\n1\nbare\n")];
        assert_eq!(batches, want.map(|(labels, times, text)| (labels.to_owned(), times, text.to_owned())));
        assert!(!packer.has_events() && packer.bytes() == 0);
    }

    #[test]
    fn rules_apply_and_count_what_is_appended() {
        let mut config = LineConfig::default();
        config.filter.add_drop("unit=one noise").unwrap();
        config.filter.add_redaction("secret").unwrap();
        let rules = EventRules::new(&config, &Labels::default(), 1 << 20);
        let mut packer = EventPacker::new(&Env::real(), Labels::default(), rules.clone());
        let attributes = AttributeList::default();
        let push = |packer: &mut EventPacker, line: &str| {
            let event = Event { time: Some((Millis(5), 0)), line: line.as_bytes(), attributes: &attributes };
            packer.push(&Labels::parse("unit=one").unwrap(), &event).unwrap();
        };
        push(&mut packer, "some noise");
        assert!(packer.has_events());
        packer.discard();
        push(&mut packer, "some noise");
        push(&mut packer, "a secret");
        let batches: Vec<_> = packer.finish().iter().map(contents).collect();
        assert_eq!(batches, [("unit=one".to_owned(), vec![5], "a [redacted]\n".to_owned())]);
        let rules = rules.unwrap();
        assert_eq!(rules.totals(), LineTotals::default());
        packer.confirm();
        assert_eq!((rules.totals().dropped, rules.totals().redacted), (1, 1));
    }
}
