//! Fields and labels of an answer, with their commonest values, from its newest records.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_scan::fields;

use crate::engine::Engine;
use crate::match_buffer::RecordRef;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::result_budget::ResultReservation;
use crate::stats::QueryStats;

/// Fields that are told of; the commonest.
const FIELDS_MAX: usize = 200;

/// Values that are told of for each field; the commonest.
const VALUES_MAX: usize = 20;

/// Different values that are counted for each field. A field with more (an id) has no common values to speak of.
const COUNTED_MAX: usize = 2_000;

/// Maximum size of the distinct names and values that one answer counts, in bytes, all fields together. Readers see 200 fields
/// with 20 values each, which is far less.
const COUNTED_BYTES_MAX: u64 = 4 << 20;

/// The same as a part of the memory of queries: with little, fewer are counted.
const COUNTED_MEMORY_DIVISOR: u64 = 8;

/// Memory that a value takes besides its bytes, about, and a field besides its name.
const VALUE_COST_BYTES: usize = 64;
const FIELD_COST_BYTES: usize = 256;

/// Bytes of a name; a field with a longer one is passed over.
const NAME_BYTES_MAX: usize = 256;

/// Fields of one record that are looked at.
const RECORD_FIELDS_MAX: usize = 200;

/// Bytes of a value that are kept.
const VALUE_BYTES_MAX: usize = 256;

/// What the fields of some records are.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// How many records were looked at: the newest that matched.
    pub records: u64,
    /// Whether there were more.
    pub is_sampled: bool,
    /// The fields, the commonest first.
    pub fields: Vec<FieldValues>,
}

/// A field or label.
#[derive(Clone, Debug)]
pub struct FieldValues {
    /// Its name, as in an expression.
    pub name: String,
    /// Whether it is a label of the stream.
    pub is_label: bool,
    /// Records that have it.
    pub records: u64,
    /// Different values; `None` when there are too many to count.
    pub distinct: Option<u64>,
    /// The commonest values with the number of records that have each; long values are cut.
    pub values: Vec<(Vec<u8>, u64)>,
}

#[derive(Default)]
struct FieldTally {
    records: u64,
    values: HashMap<Vec<u8>, u64>,
    overflowed: bool,
}

impl FieldTally {
    /// Counts a value; a new one only when there is `room`, in bytes, which it takes up.
    fn add(&mut self, value: &[u8], bytes_left: &mut usize) {
        self.records += 1;
        let value = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        let left = bytes_left.checked_sub(value.len() + VALUE_COST_BYTES);
        if let Some(count) = self.values.get_mut(value) {
            *count += 1;
        } else if let Some(left) = left
            && self.values.len() < COUNTED_MAX
        {
            *bytes_left = left;
            self.values.insert(value.to_vec(), 1);
        } else {
            self.overflowed = true;
        }
    }

    fn finish(self, name: String, label: bool) -> FieldValues {
        let distinct = (!self.overflowed).then_some(self.values.len() as u64);
        let mut values: Vec<(Vec<u8>, u64)> = self.values.into_iter().collect();
        values.sort_unstable_by(|(a, few), (b, many)| many.cmp(few).then_with(|| a.cmp(b)));
        values.truncate(VALUES_MAX);
        FieldValues { name, is_label: label, records: self.records, distinct, values }
    }
}

impl Engine {
    /// The fields and labels of the newest matching records, with their most frequent values.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn fields(self: &Arc<Self>, request: Request, cancel: Cancel) -> Result<(Fields, QueryStats), RequestError> {
        let request = newest_records_request(self, request);
        let mut search = self.search(request.clone(), cancel)?;
        let mut collector = FieldCollector::new(self);
        let mut add = |record: RecordRef<'_>| {
            collector.add(record);
            ControlFlow::Continue(())
        };
        while search.visit_batch(&mut add) > 0 {}
        if search.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        let stats = search.stats().clone();
        Ok((collector.finish(&request, stats.matched), stats))
    }
}

/// The question for the records that are looked at.
pub(crate) fn newest_records_request(engine: &Engine, request: Request) -> Request {
    Request { order: Order::Descending, limit: Some(engine.config.fields_records_max), ..request }
}

/// The fields of records, while they come in.
pub(crate) struct FieldCollector {
    tallies: BTreeMap<(bool, String), FieldTally>,
    bytes_left: usize,
    /// Of the memory of queries, what the fields may take, in any case.
    _reservation: ResultReservation,
}

impl FieldCollector {
    pub(crate) fn new(engine: &Engine) -> Self {
        let bytes = (engine.config.result_bytes_max / COUNTED_MEMORY_DIVISOR).min(COUNTED_BYTES_MAX);
        let room = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            tallies: BTreeMap::new(),
            bytes_left: room,
            _reservation: engine.result_budget.account().force_reserve(bytes),
        }
    }

    pub(crate) fn add(&mut self, record: RecordRef<'_>) {
        for (name, value) in record.labels.iter() {
            if let Some(tally) = tally_for(&mut self.tallies, true, name, &mut self.bytes_left) {
                tally.add(value.as_bytes(), &mut self.bytes_left);
            }
        }
        fields::visit(record.text, RECORD_FIELDS_MAX, &mut |name, value| {
            // A label of the same name hides the field, as it does in an expression.
            if record.labels.get(name).is_none()
                && let Some(tally) = tally_for(&mut self.tallies, false, name, &mut self.bytes_left)
            {
                tally.add(&value, &mut self.bytes_left);
            }
        });
    }

    /// What there is of the `matched` records that were asked for.
    pub(crate) fn finish(self, request: &Request, matched: u64) -> Fields {
        let mut found: Vec<FieldValues> =
            self.tallies.into_iter().map(|((label, name), tally)| tally.finish(name, label)).collect();
        found.sort_by(|a, b| {
            b.is_label.cmp(&a.is_label).then(b.records.cmp(&a.records)).then_with(|| a.name.cmp(&b.name))
        });
        found.truncate(FIELDS_MAX);
        Fields { records: matched, is_sampled: request.limit.is_some_and(|limit| matched >= limit), fields: found }
    }
}

/// The tally of a field. `None` when its name is too long, or when a new tally would exceed the maximum number of fields or
/// the remaining `room` in bytes.
fn tally_for<'a>(
    tallies: &'a mut BTreeMap<(bool, String), FieldTally>,
    label: bool,
    name: &str,
    bytes_left: &mut usize,
) -> Option<&'a mut FieldTally> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let key = (label, name.to_owned());
    if !tallies.contains_key(&key) {
        let left = bytes_left.checked_sub(name.len() + FIELD_COST_BYTES)?;
        if tallies.len() >= FIELDS_MAX * 5 {
            return None;
        }
        *bytes_left = left;
    }
    Some(tallies.entry(key).or_default())
}
