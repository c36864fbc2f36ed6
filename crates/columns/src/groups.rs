//! Values grouped by their layout.

use std::collections::HashMap;

use crate::borders::Borders;
use crate::cut::{Cut, Span, Way, gaps};
use crate::dictionary::{Column, Numbering};
use crate::hash::hash;
use crate::values::Values;
use crate::work::Work;

/// Layouts of a column, at most; the values of further ones are kept whole.
const LAYOUTS_MAX: usize = 8_192;

/// Rows of a layout whose columns are numbered at once: so few that their text is still in the nearer caches, and so many
/// that what is known of a column is seldom fetched.
const ROWS_AT_ONCE: usize = 128;

/// Columns that are numbered while values are cut, at most. Those of further layouts wait until all are cut, so that many
/// layouts do not take much memory at once.
const COLUMNS_AT_ONCE: usize = 4_096;

/// A value longer than this is kept whole, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;

/// Values of the same layout.
pub(crate) struct Group {
    pub(crate) layout: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
}

/// A group in the making.
struct Open {
    layout: Vec<u8>,
    rows: usize,
    /// For each value that is not yet in the columns where its tokens start, and where it ends.
    places: Vec<u32>,
    columns: Vec<Numbering>,
}

impl Open {
    fn new(layout: &[u8]) -> Self {
        Self { layout: layout.to_vec(), rows: 0, places: Vec::new(), columns: Vec::new() }
    }

    /// Takes the rows that wait into the columns. There will be about as many rows as are `expected`.
    fn number(&mut self, text: &[u8], width: usize, expected: usize) {
        self.columns.resize_with(width, Numbering::new);
        for some in self.places.chunks((width + 1) * ROWS_AT_ONCE) {
            for (at, (column, gap)) in self.columns.iter_mut().zip(gaps(&self.layout)).enumerate() {
                let spans = some.chunks_exact(width + 1).map(|row| {
                    let (start, next) = (row[at], row[at + 1]);
                    Span { start, len: next - gap as u32 - start }
                });
                column.extend(text, spans, expected);
            }
        }
        self.places.clear();
    }

    fn finish(mut self, text: &[u8]) -> Group {
        let width = gaps(&self.layout).count();
        self.number(text, width, self.rows);
        let columns = self.columns.into_iter().map(Numbering::finish).collect();
        Group { layout: self.layout, rows: self.rows, columns }
    }
}

/// All values of a column by layout.
pub(crate) struct Groups {
    pub(crate) groups: Vec<Group>,
    /// For each value its group + 1; 0 for those that are kept whole.
    pub(crate) order: Vec<u32>,
}

impl Groups {
    /// Cuts the values. What has company of fewer than `rows_min` is kept whole, and so is what comes when the work is used
    /// up.
    pub(crate) fn of(values: Values<'_>, way: Way, rows_min: usize, borders: &Borders, work: &mut Work) -> Self {
        let text = values.text();
        let mut open: Vec<Open> = Vec::new();
        let mut order = Vec::with_capacity(values.len());
        let mut known: HashMap<u64, u32, BuildSame> = HashMap::default();
        let mut columns_left = COLUMNS_AT_ONCE;
        let mut cut = Cut::default();
        let mut last = None;
        for span in values.spans() {
            if span.len as usize > VALUE_BYTES_MAX || work.is_used_up() || !cut.cut(way, text, borders, span) {
                order.push(0);
                continue;
            }
            work.value(cut.starts().len());
            let key = hash(cut.layout());
            let at = match last {
                Some((last_key, at)) if last_key == key => at,
                _ => match known.get(&key) {
                    Some(at) => *at,
                    None if open.len() < LAYOUTS_MAX => {
                        let at = open.len() as u32;
                        known.insert(key, at);
                        open.push(Open::new(cut.layout()));
                        at
                    }
                    None => {
                        order.push(0);
                        continue;
                    }
                },
            };
            last = Some((key, at));
            let group = &mut open[at as usize];
            // Two layouts may have the same hash, if somebody wants them to.
            if group.layout != cut.layout() {
                order.push(0);
                continue;
            }
            let width = cut.starts().len();
            group.places.extend_from_slice(cut.starts());
            group.places.push(span.start + span.len);
            group.rows += 1;
            order.push(at + 1);
            if group.rows == work.rows_of_table(rows_min) {
                work.columns(width);
            }
            if group.rows.is_multiple_of(ROWS_AT_ONCE) && (!group.columns.is_empty() || width <= columns_left) {
                if group.columns.is_empty() {
                    columns_left -= width;
                }
                let share = text.len() as f64 / f64::from(span.start + span.len);
                group.number(text, width, (group.rows as f64 * share) as usize);
            }
        }
        drop_small(&mut open, &mut order, rows_min);
        Self { groups: open.into_iter().map(|group| group.finish(text)).collect(), order }
    }

    /// How many values are kept whole.
    pub(crate) fn whole(&self) -> usize {
        self.order.len() - self.groups.iter().map(|group| group.rows).sum::<usize>()
    }
}

/// Leaves groups out that have few rows.
fn drop_small(groups: &mut Vec<Open>, order: &mut [u32], rows_min: usize) {
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

/// How many layouts a sample of the values has.
pub(crate) fn layouts_of_sample(values: Values<'_>, way: Way, borders: &Borders, sample: usize) -> usize {
    let mut cut = Cut::default();
    let mut seen: HashMap<u64, (), BuildSame> = HashMap::default();
    let step = values.len().div_ceil(sample).max(1);
    for row in (0..values.len()).step_by(step) {
        let span = values.span(row);
        // What is too long counts as a layout of its own.
        let key = if cut.cut(way, values.text(), borders, span) { hash(cut.layout()) } else { row as u64 };
        seen.insert(key, ());
    }
    seen.len()
}

/// Keys are hashes already.
#[derive(Clone, Default)]
struct BuildSame;

#[derive(Default)]
struct Same(u64);

impl std::hash::BuildHasher for BuildSame {
    type Hasher = Same;

    fn build_hasher(&self) -> Same {
        Same(0)
    }
}

impl std::hash::Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
