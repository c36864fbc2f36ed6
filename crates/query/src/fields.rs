//! Fields and labels of the newest matching records, with their most frequent values.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use bucksaw_scan::fields;

use crate::engine::Engine;
use crate::match_buffer::RecordRef;
use crate::record_stream::RecordSink;
use crate::request::{Order, Request};
use crate::result_budget::ResultReservation;

/// Fields in an answer: the most frequent ones.
const FIELDS_MAX: usize = 200;

/// Values per field in an answer: the most frequent ones.
const VALUES_MAX: usize = 20;

/// Distinct values counted per field. A field with more, such as an id, has no frequent values.
const COUNTED_MAX: usize = 2_000;

/// Maximum bytes of distinct names and values counted for one answer. Readers see 200 fields with 20 values each, far
/// less.
const COUNTED_BYTES_MAX: u64 = 4 << 20;

/// The same limit as a part of the memory of queries.
const COUNTED_MEMORY_DIVISOR: u64 = 8;

/// Approximate memory of a value besides its bytes, and of a field besides its name.
const VALUE_COST_BYTES: usize = 64;
const FIELD_COST_BYTES: usize = 256;

/// Bytes of a name; fields with longer names are not counted.
const NAME_BYTES_MAX: usize = 256;

/// Fields counted per record.
const RECORD_FIELDS_MAX: usize = 200;

/// Bytes kept of a value.
const VALUE_BYTES_MAX: usize = 256;

/// The fields of records.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Number of records: the newest that matched.
    pub records: u64,
    /// Whether more records may match.
    pub is_sampled: bool,
    /// Labels, then fields, each by descending number of records.
    pub fields: Vec<FieldValues>,
}

/// A field or label with its values.
#[derive(Clone, Debug)]
pub struct FieldValues {
    /// Its name, as in an expression.
    pub name: String,
    /// Whether it is a label of the stream.
    pub is_label: bool,
    /// Number of records that have it.
    pub records: u64,
    /// Number of distinct values; `None` if there are too many to count.
    pub distinct: Option<u64>,
    /// The most frequent values with their numbers of records; long values are cut.
    pub values: Vec<(Vec<u8>, u64)>,
}

#[derive(Default)]
struct FieldTally {
    records: u64,
    values: HashMap<Vec<u8>, u64>,
    overflowed: bool,
}

impl FieldTally {
    /// Counts a value. A new one is counted only within `bytes_left`, which it reduces.
    fn add(&mut self, value: &[u8], bytes_left: &mut usize) {
        self.records += 1;
        let value = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        let rest = bytes_left.checked_sub(value.len() + VALUE_COST_BYTES);
        if let Some(count) = self.values.get_mut(value) {
            *count += 1;
        } else if let Some(rest) = rest
            && self.values.len() < COUNTED_MAX
        {
            *bytes_left = rest;
            self.values.insert(value.to_vec(), 1);
        } else {
            self.overflowed = true;
        }
    }

    fn finish(self, name: String, is_label: bool) -> FieldValues {
        let distinct = (!self.overflowed).then_some(self.values.len() as u64);
        let mut values: Vec<(Vec<u8>, u64)> = self.values.into_iter().collect();
        values.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        values.truncate(VALUES_MAX);
        FieldValues { name, is_label, records: self.records, distinct, values }
    }
}

/// The request for the records that fields are collected from.
pub(crate) fn newest_records_request(engine: &Engine, request: Request) -> Request {
    Request { order: Order::Descending, limit: Some(engine.config.fields_records_max), ..request }
}

/// Collects the fields of records.
pub(crate) struct FieldCollector {
    tallies: BTreeMap<(bool, String), FieldTally>,
    bytes_left: usize,
    records_max: u64,
    /// Reserves the maximum from the start, whether it is free or not.
    _reservation: ResultReservation,
}

impl FieldCollector {
    pub(crate) fn new(engine: &Engine) -> Self {
        let bytes = (engine.config.result_bytes_max / COUNTED_MEMORY_DIVISOR).min(COUNTED_BYTES_MAX);
        Self {
            tallies: BTreeMap::new(),
            bytes_left: usize::try_from(bytes).unwrap_or(usize::MAX),
            records_max: engine.config.fields_records_max,
            _reservation: engine.result_budget.account().force_reserve(bytes),
        }
    }

    pub(crate) fn add(&mut self, record: RecordRef<'_>) {
        for (name, value) in record.labels.iter() {
            self.add_value(true, name, value.as_bytes());
        }
        fields::visit(record.text, RECORD_FIELDS_MAX, &mut |name, value| {
            // A label of the same name hides the field, as in an expression.
            if record.labels.get(name).is_none() {
                self.add_value(false, name, &value);
            }
        });
    }

    fn add_value(&mut self, is_label: bool, name: &str, value: &[u8]) {
        if let Some(tally) = tally_for(&mut self.tallies, is_label, name, &mut self.bytes_left) {
            tally.add(value, &mut self.bytes_left);
        }
    }

    /// The fields of `matched` records.
    pub(crate) fn finish(self, matched: u64) -> Fields {
        let tallies = self.tallies.into_iter();
        let mut fields: Vec<FieldValues> =
            tallies.map(|((is_label, name), tally)| tally.finish(name, is_label)).collect();
        fields.sort_by(|a, b| {
            b.is_label.cmp(&a.is_label).then(b.records.cmp(&a.records)).then_with(|| a.name.cmp(&b.name))
        });
        fields.truncate(FIELDS_MAX);
        Fields { records: matched, is_sampled: matched >= self.records_max, fields }
    }
}

/// With a permit that is held until the work ends.
impl<P: Send + 'static> RecordSink for (FieldCollector, P) {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.0.add(record);
        ControlFlow::Continue(())
    }
}

/// The tally of a field. `None` if its name is too long, or if a new tally would exceed the number of fields or
/// `bytes_left`.
fn tally_for<'a>(
    tallies: &'a mut BTreeMap<(bool, String), FieldTally>,
    is_label: bool,
    name: &str,
    bytes_left: &mut usize,
) -> Option<&'a mut FieldTally> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let key = (is_label, name.to_owned());
    if !tallies.contains_key(&key) {
        let left = bytes_left.checked_sub(name.len() + FIELD_COST_BYTES)?;
        if tallies.len() >= FIELDS_MAX * 5 {
            return None;
        }
        *bytes_left = left;
    }
    Some(tallies.entry(key).or_default())
}
