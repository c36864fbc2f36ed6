//! Fields and labels of the newest matching records, with their most frequent values.
//!
//! A field counts at most once per record, with its last value, as in a filter. In logfmt only plain names are counted
//! ([`fields::is_plain_name`]): other names are mostly pieces of URLs and code.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use bucksaw_scan::{Level, fields};

use crate::engine::Engine;
use crate::match_buffer::RecordRef;
use crate::record_stream::RecordSink;
use crate::request::{Order, Request};
use crate::result_budget::ResultReservation;

/// Number of records that the fields of an answer are collected from. More give better statistics and take longer.
const RECORDS_MAX: u64 = 10_000;

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

/// The name of the level, which is derived from each record.
const LEVEL_NAME: &str = "@level";

/// The fields of records.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Number of records: the newest that matched.
    pub records: u64,
    /// Whether more records may match.
    pub is_sampled: bool,
    /// The level, if some record has one; then labels, attributes and keys, each by descending number of records.
    pub fields: Vec<FieldValues>,
}

/// A field or label with its values.
#[derive(Clone, Debug)]
pub struct FieldValues {
    /// Its name, as in an expression.
    pub name: String,
    /// Where its values come from.
    pub kind: FieldKind,
    /// Number of records that have it.
    pub records: u64,
    /// Number of distinct values; `None` if there are too many to count.
    pub distinct: Option<u64>,
    /// The most frequent values.
    pub values: Vec<FieldValue>,
    /// The range of the values, if all are numbers.
    pub numbers: Option<NumberRange>,
}

/// Where the values of a field come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldKind {
    /// Computed of each record: the level.
    Derived,
    /// A label of the stream.
    Label,
    /// An attribute of the record.
    Attribute,
    /// A key of the line.
    Key,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Its bytes, up to a limit.
    pub value: Vec<u8>,
    /// Number of records that have it.
    pub records: u64,
    /// Whether more bytes follow, so that no record has this value.
    pub is_cut: bool,
}

/// The range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRange {
    /// The least.
    pub min: f64,
    /// The mean.
    pub avg: f64,
    /// The greatest.
    pub max: f64,
}

/// The sum and the bounds of numbers.
struct NumberTally {
    min: f64,
    max: f64,
    sum: f64,
}

/// Counts the values of one field.
pub(crate) struct FieldTally {
    records: u64,
    /// By their bytes and whether they are cut.
    values: HashMap<Vec<u8>, [u64; 2]>,
    overflowed: bool,
    /// `None` once a value was no number.
    numbers: Option<NumberTally>,
}

impl Default for FieldTally {
    fn default() -> Self {
        let numbers = Some(NumberTally { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0 });
        Self { records: 0, values: HashMap::new(), overflowed: false, numbers }
    }
}

impl FieldTally {
    /// Counts a value. A new one is counted only within `bytes_left`, which it reduces.
    pub(crate) fn add(&mut self, value: &[u8], bytes_left: &mut usize) {
        self.records += 1;
        let kept = cut(value);
        let is_cut = kept.len() < value.len();
        if let Some(numbers) = &mut self.numbers {
            match number(kept).filter(|_| !is_cut) {
                Some(number) => numbers.add(number),
                None => self.numbers = None,
            }
        }
        let rest = bytes_left.checked_sub(kept.len() + VALUE_COST_BYTES);
        let counts = if let Some(counts) = self.values.get_mut(kept) {
            counts
        } else if let Some(rest) = rest
            && self.values.len() < COUNTED_MAX
        {
            *bytes_left = rest;
            self.values.entry(kept.to_vec()).or_default()
        } else {
            self.overflowed = true;
            return;
        };
        let [whole, cut] = counts;
        *(if is_cut { cut } else { whole }) += 1;
    }

    /// The field of this name.
    pub(crate) fn finish(self, name: String, kind: FieldKind) -> FieldValues {
        let numbers = self.numbers.filter(|_| self.records > 0).map(|numbers| numbers.range(self.records));
        let counted = self.values.into_iter().flat_map(|(value, [whole, cut])| {
            let cut = FieldValue { value: value.clone(), records: cut, is_cut: true };
            [FieldValue { value, records: whole, is_cut: false }, cut]
        });
        let mut values: Vec<FieldValue> = counted.filter(|value| value.records > 0).collect();
        let distinct = (!self.overflowed).then_some(values.len() as u64);
        values.sort_unstable_by(|a, b| b.records.cmp(&a.records).then_with(|| a.value.cmp(&b.value)));
        values.truncate(VALUES_MAX);
        FieldValues { name, kind, records: self.records, distinct, values, numbers }
    }
}

impl NumberTally {
    fn add(&mut self, number: f64) {
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.sum += number;
    }

    fn range(&self, count: u64) -> NumberRange {
        // The sum may overflow, but the mean lies between the bounds.
        let avg = (self.sum / count as f64).clamp(self.min, self.max);
        NumberRange { min: self.min, avg, max: self.max }
    }
}

/// The value of a finite decimal number.
fn number(value: &[u8]) -> Option<f64> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let text = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| is_part(&byte)))?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The start of a value, of whole characters if it is text.
fn cut(value: &[u8]) -> &[u8] {
    let Some(head) = value.get(..VALUE_BYTES_MAX).filter(|head| head.len() < value.len()) else { return value };
    let whole = head.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
    // A character that is cut has at most three bytes before the limit.
    if head.len() - whole < 4 { head.get(..whole).unwrap_or(head) } else { head }
}

/// The request for the records that fields are collected from.
pub(crate) fn newest_records_request(request: Request) -> Request {
    Request { order: Order::Descending, limit: Some(RECORDS_MAX), ..request }
}

/// Collects the fields of records.
pub(crate) struct FieldCollector {
    tallies: BTreeMap<(FieldKind, String), FieldTally>,
    bytes_left: usize,
    /// Reserves the maximum from the start, whether it is free or not.
    _reservation: ResultReservation,
}

impl FieldCollector {
    pub(crate) fn new(engine: &Engine) -> Self {
        let bytes = (engine.config.result_bytes_max / COUNTED_MEMORY_DIVISOR).min(COUNTED_BYTES_MAX);
        Self {
            tallies: BTreeMap::new(),
            bytes_left: usize::try_from(bytes).unwrap_or(usize::MAX),
            _reservation: engine.result_budget.account().force_reserve(bytes),
        }
    }

    pub(crate) fn add(&mut self, record: RecordRef<'_>) {
        if let Some(level) = Level::of(record.labels, record.view) {
            self.add_value(FieldKind::Derived, LEVEL_NAME, level.name().as_bytes());
        }
        for (name, value) in record.labels.iter() {
            self.add_value(FieldKind::Label, name, value.as_bytes());
        }
        // A label hides the attribute and the key of its name, and an attribute hides the key, as in an expression.
        let names = record.view.names();
        for (at, (name, value)) in record.view.attributes().into_iter().enumerate() {
            let is_last = names.and_then(|names| names.position(name)) == Some(at);
            if is_last && record.labels.get(name).is_none() {
                self.add_value(FieldKind::Attribute, name, value);
            }
        }
        fields::visit_named(record.view.line(), RECORD_FIELDS_MAX, &mut |name, value| {
            let is_attribute = names.is_some_and(|names| names.position(name).is_some());
            if record.labels.get(name).is_none() && !is_attribute {
                self.add_value(FieldKind::Key, name, &value);
            }
        });
    }

    fn add_value(&mut self, kind: FieldKind, name: &str, value: &[u8]) {
        if let Some(tally) = tally_for(&mut self.tallies, kind, name, &mut self.bytes_left) {
            tally.add(value, &mut self.bytes_left);
        }
    }

    /// The fields of `matched` records.
    pub(crate) fn finish(self, matched: u64) -> Fields {
        let tallies = self.tallies.into_iter();
        let mut fields: Vec<FieldValues> = tallies.map(|((kind, name), tally)| tally.finish(name, kind)).collect();
        fields.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.records.cmp(&a.records)).then_with(|| a.name.cmp(&b.name)));
        fields.truncate(FIELDS_MAX);
        Fields { records: matched, is_sampled: matched >= RECORDS_MAX, fields }
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
    tallies: &'a mut BTreeMap<(FieldKind, String), FieldTally>,
    kind: FieldKind,
    name: &str,
    bytes_left: &mut usize,
) -> Option<&'a mut FieldTally> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let key = (kind, name.to_owned());
    if !tallies.contains_key(&key) {
        let left = bytes_left.checked_sub(name.len() + FIELD_COST_BYTES)?;
        if tallies.len() >= FIELDS_MAX * 5 {
            return None;
        }
        *bytes_left = left;
    }
    Some(tallies.entry(key).or_default())
}
