//! Fields and labels of an answer, with their commonest values, from its newest records.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_scan::fields;

use crate::budget::Share;
use crate::engine::Engine;
use crate::hits::RecordRef;
use crate::request::{Cancel, Order, Request, RequestError};
use crate::stats::Stats;

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
const COUNTED_PART: u64 = 8;

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
    pub sampled: bool,
    /// The fields, the commonest first.
    pub fields: Vec<FieldValues>,
}

/// A field or label.
#[derive(Clone, Debug)]
pub struct FieldValues {
    /// Its name, as in an expression.
    pub name: String,
    /// Whether it is a label of the stream.
    pub label: bool,
    /// Records that have it.
    pub records: u64,
    /// Different values; `None` when there are too many to count.
    pub distinct: Option<u64>,
    /// The commonest values with the number of records that have each; long values are cut.
    pub values: Vec<(Vec<u8>, u64)>,
}

#[derive(Default)]
struct Tally {
    records: u64,
    values: HashMap<Vec<u8>, u64>,
    overflowed: bool,
}

impl Tally {
    /// Counts a value; a new one only when there is `room`, in bytes, which it takes up.
    fn add(&mut self, value: &[u8], room: &mut usize) {
        self.records += 1;
        let value = value.get(..VALUE_BYTES_MAX).unwrap_or(value);
        let left = room.checked_sub(value.len() + VALUE_COST_BYTES);
        if let Some(count) = self.values.get_mut(value) {
            *count += 1;
        } else if let Some(left) = left
            && self.values.len() < COUNTED_MAX
        {
            *room = left;
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
        FieldValues { name, label, records: self.records, distinct, values }
    }
}

pub(crate) fn run(engine: &Arc<Engine>, request: Request, cancel: Cancel) -> Result<(Fields, Stats), RequestError> {
    let request = newest(engine, request);
    let mut search = engine.search(request.clone(), cancel)?;
    let mut gathered = Gathered::new(engine);
    let mut count = |record: RecordRef<'_>| {
        gathered.add(record);
        ControlFlow::Continue(())
    };
    while search.show_batch(&mut count) > 0 {}
    if search.is_cancelled() {
        return Err(RequestError::Cancelled);
    }
    let stats = search.stats().clone();
    Ok((gathered.finish(&request, stats.matched), stats))
}

/// The question for the records that are looked at.
pub(crate) fn newest(engine: &Engine, request: Request) -> Request {
    Request { order: Order::Descending, limit: Some(engine.config.fields_records_max), ..request }
}

/// The fields of records, while they come in.
pub(crate) struct Gathered {
    tallies: BTreeMap<(bool, String), Tally>,
    room: usize,
    /// Of the memory of queries, what the fields may take, in any case.
    _share: Share,
}

impl Gathered {
    pub(crate) fn new(engine: &Engine) -> Self {
        let bytes = (engine.config.held_bytes_max / COUNTED_PART).min(COUNTED_BYTES_MAX);
        let room = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { tallies: BTreeMap::new(), room, _share: engine.budget.account().force(bytes) }
    }

    pub(crate) fn add(&mut self, record: RecordRef<'_>) {
        for (name, value) in record.labels.iter() {
            if let Some(tally) = tally(&mut self.tallies, true, name, &mut self.room) {
                tally.add(value.as_bytes(), &mut self.room);
            }
        }
        fields::each(record.text, RECORD_FIELDS_MAX, &mut |name, value| {
            // A label of the same name hides the field, as it does in an expression.
            if record.labels.get(name).is_none()
                && let Some(tally) = tally(&mut self.tallies, false, name, &mut self.room)
            {
                tally.add(&value, &mut self.room);
            }
        });
    }

    /// What there is of the `matched` records that were asked for.
    pub(crate) fn finish(self, request: &Request, matched: u64) -> Fields {
        let mut found: Vec<FieldValues> =
            self.tallies.into_iter().map(|((label, name), tally)| tally.finish(name, label)).collect();
        found.sort_by(|a, b| b.label.cmp(&a.label).then(b.records.cmp(&a.records)).then_with(|| a.name.cmp(&b.name)));
        found.truncate(FIELDS_MAX);
        Fields { records: matched, sampled: request.limit.is_some_and(|limit| matched >= limit), fields: found }
    }
}

/// The tally of a field. `None` when its name is too long, or when a new tally would exceed the maximum number of fields or
/// the remaining `room` in bytes.
fn tally<'a>(
    tallies: &'a mut BTreeMap<(bool, String), Tally>,
    label: bool,
    name: &str,
    room: &mut usize,
) -> Option<&'a mut Tally> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let key = (label, name.to_owned());
    if !tallies.contains_key(&key) {
        let left = room.checked_sub(name.len() + FIELD_COST_BYTES)?;
        if tallies.len() >= FIELDS_MAX * 5 {
            return None;
        }
        *room = left;
    }
    Some(tallies.entry(key).or_default())
}
