//! Chooses the groups of a histogram: the most frequent values of a field, or streams, in the newest matching records.

use std::collections::HashMap;
use std::ops::ControlFlow;

use bucksaw_record::Labels;
use bucksaw_scan::fields;

use crate::engine::Engine;
use crate::fields::{FieldKind, FieldTally};
use crate::grouping::Grouping;
use crate::match_buffer::RecordRef;
use crate::record_stream::RecordSink;
use crate::result_budget::ResultReservation;

/// Groups that are chosen. More colours are hard to distinguish on a screen.
const CHOSEN_MAX: usize = 10;

/// Maximum bytes of distinct values, or number of streams, that are counted.
const COUNTED_BYTES_MAX: u64 = 1 << 20;
const STREAMS_MAX: usize = 2_000;

/// Bytes of the labels of the chosen streams, so that they fit in a request to other nodes.
const STREAM_BYTES_MAX: usize = 64 << 10;

/// The grouping of a histogram whose groups are chosen from a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// A field.
    Field(String),
    /// The stream.
    Stream,
}

/// Counts the values of records.
pub(crate) struct GroupSampler<P> {
    by: GroupBy,
    values: FieldTally,
    bytes_left: usize,
    streams: HashMap<Labels, u64>,
    _reservation: ResultReservation,
    /// Held until the work ends.
    _permit: P,
}

impl<P> GroupSampler<P> {
    pub(crate) fn new(by: GroupBy, engine: &Engine, permit: P) -> Self {
        Self {
            by,
            values: FieldTally::default(),
            bytes_left: COUNTED_BYTES_MAX as usize,
            streams: HashMap::new(),
            _reservation: engine.result_budget.account().force_reserve(COUNTED_BYTES_MAX),
            _permit: permit,
        }
    }

    /// The grouping by the most frequent values, the most frequent first. Values that are cut, or are not text, are left out.
    pub(crate) fn finish(self) -> Grouping {
        match self.by {
            GroupBy::Field(name) => {
                let counted = self.values.finish(name, FieldKind::Key);
                let whole = counted.values.into_iter().filter(|value| !value.is_cut);
                let values = whole.filter_map(|value| String::from_utf8(value.value).ok()).take(CHOSEN_MAX).collect();
                Grouping::Field { name: counted.name, values }
            }
            GroupBy::Stream => {
                let mut streams: Vec<(Labels, u64)> = self.streams.into_iter().collect();
                streams.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
                let mut bytes_left = STREAM_BYTES_MAX;
                let mut fits = |labels: &Labels| {
                    let rest = bytes_left.checked_sub(labels.to_string().len());
                    bytes_left = rest.unwrap_or(bytes_left);
                    rest.is_some()
                };
                let chosen = streams.into_iter().map(|(labels, _)| labels).filter(|labels| fits(labels));
                Grouping::Streams(chosen.take(CHOSEN_MAX).collect())
            }
        }
    }
}

impl<P: Send + 'static> RecordSink for GroupSampler<P> {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        match &self.by {
            GroupBy::Field(name) => match record.labels.get(name) {
                Some(value) => self.values.add(value.as_bytes(), &mut self.bytes_left),
                None => {
                    if let Some(value) = fields::lookup_record(record.view, name) {
                        self.values.add(&value, &mut self.bytes_left);
                    }
                }
            },
            GroupBy::Stream => {
                if let Some(count) = self.streams.get_mut(record.labels) {
                    *count += 1;
                } else if self.streams.len() < STREAMS_MAX {
                    self.streams.insert(record.labels.clone(), 1);
                }
            }
        }
        ControlFlow::Continue(())
    }
}
