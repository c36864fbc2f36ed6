//! Groups the values of a column by layout.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::encode::boundaries::Boundaries;
use crate::encode::dictionary::{ColumnValues, DictionaryBuilder};
use crate::encode::hash::{bytes_equal, hash};
use crate::encode::text_span::TextSpan;
use crate::encode::tokeniser::{Granularity, Tokeniser, delimiter_lengths};
use crate::encode::values::{LineClass, Values};
use crate::encode::work_budget::WorkBudget;

/// The most layouts of a column; values of further layouts are outliers.
const LAYOUTS_MAX: usize = 8_192;

/// Rows of a layout that are added to its columns at once. Their text fits in the first caches, and the state of a
/// column is rarely loaded.
const ENCODE_BATCH_ROWS: usize = 128;

/// The most columns that are built while values are tokenised. Columns of further layouts are built when all values are
/// tokenised, which bounds the memory for many layouts.
const EAGER_COLUMNS_MAX: usize = 4_096;

/// The groups of the last values, by class, which are those of the next values as a rule.
const RECENT_GROUPS: usize = 32;

/// The last value of a class, whose next value is often the same: a level, a host.
#[derive(Default)]
struct RecentValue {
    /// The hash of its layout and class, and its group.
    last: Option<(u64, u32)>,
    /// The class, if the rest is that of a value of an attribute.
    class: LineClass,
    span: TextSpan,
    group: u32,
    /// The starts of its tokens and its end, from its start on.
    offsets: Vec<u32>,
}

impl RecentValue {
    /// Whether a value equals it. Lines of records are not compared: they hardly recur.
    #[inline]
    fn repeats(&self, text: &[u8], class: LineClass, span: TextSpan) -> bool {
        class > 0
            && class == self.class
            && span.len == self.span.len
            && bytes_equal(span.slice(text), self.span.slice(text))
    }

    fn keep(&mut self, class: LineClass, span: TextSpan, group: u32, starts: &[u32]) {
        (self.class, self.span, self.group) = (class, span, group);
        self.offsets.clear();
        self.offsets.extend(starts.iter().map(|start| start - span.start));
        self.offsets.push(span.len);
    }
}

/// Makes one layout in two classes two keys: an odd number with its bits spread.
const CLASS_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The longest value that is tokenised, in bytes; a longer one is an outlier.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// The values of one layout.
pub(crate) struct LayoutGroup {
    pub(crate) layout: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ColumnValues>,
}

/// A group that is being built.
struct OpenGroup {
    layout: Vec<u8>,
    class: LineClass,
    rows: usize,
    /// Tokens of a value.
    width: usize,
    /// For each value that is not yet in the columns, the starts of its tokens and its end.
    pending_offsets: Vec<u32>,
    columns: Vec<DictionaryBuilder>,
}

impl OpenGroup {
    fn new(layout: &[u8], class: LineClass) -> Self {
        Self { layout: layout.to_vec(), class, rows: 0, width: 0, pending_offsets: Vec::new(), columns: Vec::new() }
    }

    /// Adds the pending rows to the columns, of about `expected` rows in the end.
    fn encode_pending(&mut self, text: &[u8], width: usize, expected: usize) {
        self.columns.resize_with(width, DictionaryBuilder::new);
        for some in self.pending_offsets.chunks((width + 1) * ENCODE_BATCH_ROWS) {
            for (at, (column, gap)) in self.columns.iter_mut().zip(delimiter_lengths(&self.layout)).enumerate() {
                let spans = some.chunks_exact(width + 1).map(|row| {
                    let (start, next) = (row[at], row[at + 1]);
                    TextSpan { start, len: next - gap as u32 - start }
                });
                column.extend(text, spans, expected);
            }
        }
        self.pending_offsets.clear();
    }

    /// Adds the last value once more without its text; `false`, without effect, if that is not possible: it has several tokens,
    /// or its column is not built yet, or has no dictionary.
    fn repeat_last(&mut self, text: &[u8], expected: usize) -> bool {
        if self.width != 1 || self.columns.is_empty() {
            return false;
        }
        if !self.pending_offsets.is_empty() {
            self.encode_pending(text, 1, expected);
        }
        self.columns.first_mut().is_some_and(|column| column.repeat_last(expected))
    }

    fn finish(mut self, text: &[u8]) -> LayoutGroup {
        let width = delimiter_lengths(&self.layout).count();
        self.encode_pending(text, width, self.rows);
        let columns = self.columns.into_iter().map(DictionaryBuilder::finish).collect();
        LayoutGroup { layout: self.layout, rows: self.rows, columns }
    }
}

/// All values of a column, grouped by layout.
pub(crate) struct LayoutGroups {
    pub(crate) groups: Vec<LayoutGroup>,
    /// For each value the number of its group plus 1; 0 for an outlier.
    pub(crate) group_ids: Vec<u32>,
}

impl LayoutGroups {
    /// Tokenises the values. Values of layouts with fewer than `rows_min` rows are outliers, and so are the values after the work
    /// budget is exhausted. Values of different `classes`, if these are not empty, are in different groups.
    pub(crate) fn group_by_layout(
        values: Values<'_>,
        classes: &[LineClass],
        granularity: Granularity,
        rows_min: usize,
        boundaries: &Boundaries,
        work: &mut WorkBudget,
    ) -> Self {
        let text = values.text();
        let mut open: Vec<OpenGroup> = Vec::new();
        let mut order = Vec::with_capacity(values.len());
        let mut known: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>> = HashMap::default();
        let mut columns_left = EAGER_COLUMNS_MAX;
        let mut tokeniser = Tokeniser::default();
        // Values of one class follow those of another in turn.
        let mut recent: [RecentValue; RECENT_GROUPS] = std::array::from_fn(|_| RecentValue::default());
        let mut classes = classes.iter();
        for span in values.spans() {
            let class = classes.next().copied().unwrap_or_default();
            let recent = &mut recent[usize::from(class) % RECENT_GROUPS];
            let at = if work.is_exhausted() {
                None
            } else if recent.repeats(text, class, span) {
                let group = &mut open[recent.group as usize];
                let share = text.len() as f64 / f64::from(span.start + span.len);
                if !group.repeat_last(text, (group.rows as f64 * share) as usize) {
                    group.pending_offsets.extend(recent.offsets.iter().map(|offset| span.start + offset));
                }
                Some(recent.group)
            } else if span.len as usize > VALUE_BYTES_MAX || !tokeniser.tokenise(granularity, text, boundaries, span) {
                None
            } else {
                let key = hash(tokeniser.layout()) ^ u64::from(class).wrapping_mul(CLASS_FACTOR);
                let known_group = match recent.last {
                    Some((last_key, at)) if last_key == key => Some(at),
                    _ => known.get(&key).copied(),
                };
                let at = known_group.or_else(|| {
                    let at = (open.len() < LAYOUTS_MAX).then_some(open.len() as u32)?;
                    known.insert(key, at);
                    open.push(OpenGroup::new(tokeniser.layout(), class));
                    Some(at)
                });
                // Input crafted for it can give two layouts one hash.
                let at = at.filter(|at| {
                    recent.last = Some((key, *at));
                    open[*at as usize].layout == tokeniser.layout() && open[*at as usize].class == class
                });
                if let Some(at) = at {
                    let pending = &mut open[at as usize].pending_offsets;
                    pending.extend_from_slice(tokeniser.starts());
                    pending.push(span.start + span.len);
                    if class > 0 {
                        recent.keep(class, span, at, tokeniser.starts());
                    }
                } else {
                    work.charge_value(tokeniser.starts().len());
                }
                at
            };
            let Some(at) = at else {
                order.push(0);
                continue;
            };
            let group = &mut open[at as usize];
            if group.rows == 0 {
                group.width = tokeniser.starts().len();
            }
            let width = group.width;
            work.charge_value(width);
            group.rows += 1;
            order.push(at + 1);
            if group.rows == work.table_rows_min(rows_min) {
                work.charge_columns(width);
            }
            if group.rows.is_multiple_of(ENCODE_BATCH_ROWS) && (!group.columns.is_empty() || width <= columns_left) {
                if group.columns.is_empty() {
                    columns_left -= width;
                }
                let share = text.len() as f64 / f64::from(span.start + span.len);
                group.encode_pending(text, width, (group.rows as f64 * share) as usize);
            }
        }
        drop_small_groups(&mut open, &mut order, rows_min);
        Self { groups: open.into_iter().map(|group| group.finish(text)).collect(), group_ids: order }
    }

    /// The values that belong to no group.
    pub(crate) fn outliers<'t>(&self, values: Values<'t>) -> impl Iterator<Item = &'t [u8]> {
        values.iter().zip(&self.group_ids).filter(|(_, group)| **group == 0).map(|(value, _)| value)
    }

    /// The number of outliers.
    pub(crate) fn outlier_count(&self) -> usize {
        self.group_ids.len() - self.groups.iter().map(|group| group.rows).sum::<usize>()
    }
}

/// Turns the values of groups with few rows into outliers.
fn drop_small_groups(groups: &mut Vec<OpenGroup>, order: &mut [u32], rows_min: usize) {
    let mut kept = 0;
    let numbers: Vec<u32> = std::iter::once(0)
        .chain(groups.iter().map(|group| {
            kept += u32::from(group.rows >= rows_min);
            if group.rows >= rows_min { kept } else { 0 }
        }))
        .collect();
    groups.retain(|group| group.rows >= rows_min);
    for number in order {
        *number = numbers[*number as usize];
    }
}

/// The number of layouts in a sample of the values.
pub(crate) fn count_sampled_layouts(
    values: Values<'_>,
    granularity: Granularity,
    boundaries: &Boundaries,
    sample: usize,
) -> usize {
    let mut tokeniser = Tokeniser::default();
    let mut seen: HashMap<u64, (), BuildHasherDefault<IdentityHasher>> = HashMap::default();
    let step = values.len().div_ceil(sample).max(1);
    for row in (0..values.len()).step_by(step) {
        let span = values.span(row);
        // A value with too many tokens counts as a layout of its own.
        let key = if tokeniser.tokenise(granularity, values.text(), boundaries, span) {
            hash(tokeniser.layout())
        } else {
            row as u64
        };
        seen.insert(key, ());
    }
    seen.len()
}

/// Hashes keys that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
