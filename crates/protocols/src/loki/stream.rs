//! The stream of a push request, and the events of its entries.

use bucksaw_record::{Labels, Millis};

use crate::event::without_line_end;
use crate::stream_labels::StreamLabels;
use crate::{AttributeList, Decoded, Event, EventSink};

/// First gets the labels of a stream, then its entries one after the other.
#[derive(Debug)]
pub(super) struct PushStream {
    pub(super) attributes: AttributeList,
    collected: StreamLabels,
    labels: Labels,
    /// Attributes that stand for labels, which all entries of the stream have.
    shared_count: usize,
}

impl PushStream {
    pub(super) fn new(labels: &Labels) -> Self {
        Self {
            attributes: AttributeList::default(),
            collected: StreamLabels::new(labels),
            labels: labels.clone(),
            shared_count: 0,
        }
    }

    pub(super) fn begin_stream(&mut self) {
        self.attributes.clear();
        self.collected.clear();
    }

    pub(super) fn label(&mut self, name: &str, value: &str) {
        self.collected.push(name, value, &mut self.attributes);
    }

    pub(super) fn end_labels(&mut self) {
        self.labels = self.collected.get();
        self.shared_count = self.attributes.len();
    }

    pub(super) fn begin_entry(&mut self) {
        self.attributes.truncate(self.shared_count);
    }

    /// Ends an entry. `nanos`: its time since 1970, if it states one that can be stored.
    pub(super) fn end_entry(
        &mut self,
        nanos: Option<u128>,
        line: &[u8],
        decoded: &mut Decoded,
        sink: &mut dyn EventSink,
    ) {
        let time = nanos.and_then(|nanos| {
            let millis = u64::try_from(nanos / 1_000_000).ok().filter(|millis| *millis <= Millis::MAX.0)?;
            Some((Millis(millis), (nanos % 1_000_000) as u32))
        });
        let event = Event { time, line: without_line_end(line), attributes: &self.attributes };
        decoded.push(sink, &self.labels, &event);
    }
}
