//! Values grouped by their layout.

use std::collections::{HashMap, VecDeque};

use crate::borders::Borders;
use crate::cut::{Cut, Way};
use crate::hash::hash;
use crate::values::Values;

/// Layouts of a column, at most; the values of further ones are kept whole.
const LAYOUTS_MAX: usize = 8_192;

/// Rows whose places are turned at once: so many that they stay in the nearest cache.
const ROWS_AT_ONCE: usize = 128;

/// A value longer than this is kept whole, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Lists that were used and can be used again: fresh memory is dear, and the next block is much like the last.
#[derive(Debug, Default)]
pub(crate) struct Spare([VecDeque<Vec<u32>>; 3]);

impl Spare {
    pub(crate) fn take(&mut self, way: Way) -> Vec<u32> {
        self.0[way as usize].pop_front().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, way: Way, mut list: Vec<u32>) {
        list.clear();
        self.0[way as usize].push_back(list);
    }
}

/// Values of the same layout.
pub(crate) struct Group {
    pub(crate) layout: Vec<u8>,
    /// For each value where its tokens start, and where it ends.
    places: Vec<u32>,
    pub(crate) rows: usize,
}

impl Group {
    /// Where the tokens of all values start, token by token, and at last where the values end, in a list that is given;
    /// and the places as they were, to be used again.
    pub(crate) fn into_columns(self, mut columns: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        let width = self.places.len() / self.rows.max(1);
        columns.resize(self.places.len(), 0);
        for (at, some) in self.places.chunks(width * ROWS_AT_ONCE).enumerate() {
            for (column, all) in columns.chunks_exact_mut(self.rows).enumerate() {
                let places = some.iter().skip(column).step_by(width);
                all.iter_mut().skip(at * ROWS_AT_ONCE).zip(places).for_each(|(to, from)| *to = *from);
            }
        }
        (columns, self.places)
    }
}

/// All values of a column by layout.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) groups: Vec<Group>,
    /// For each value its group + 1; 0 for those that are kept whole.
    pub(crate) order: Vec<u32>,
}

impl Groups {
    /// Cuts the values. What has company of fewer than `rows_min` is kept whole.
    pub(crate) fn of(values: Values<'_>, way: Way, rows_min: usize, borders: &Borders, spare: &mut Spare) -> Self {
        let mut all = Self { groups: Vec::new(), order: Vec::with_capacity(values.len()) };
        let mut known: HashMap<u64, u32, BuildSame> = HashMap::default();
        let mut cut = Cut::default();
        let mut last = None;
        for span in values.spans() {
            if span.len as usize > VALUE_BYTES_MAX || !cut.cut(way, values.text(), borders, span) {
                all.order.push(0);
                continue;
            }
            let key = hash(cut.layout());
            let at = match last {
                Some((last_key, at)) if last_key == key => at,
                _ => match known.get(&key) {
                    Some(at) => *at,
                    None if all.groups.len() < LAYOUTS_MAX => {
                        let at = all.groups.len() as u32;
                        known.insert(key, at);
                        all.groups.push(Group { layout: cut.layout().to_vec(), places: spare.take(way), rows: 0 });
                        at
                    }
                    None => {
                        all.order.push(0);
                        continue;
                    }
                },
            };
            last = Some((key, at));
            let group = &mut all.groups[at as usize];
            // Two layouts may have the same hash, if somebody wants them to.
            if group.layout != cut.layout() {
                all.order.push(0);
                continue;
            }
            group.places.extend_from_slice(cut.starts());
            group.places.push(span.start + span.len);
            group.rows += 1;
            all.order.push(at + 1);
        }
        all.drop_small(rows_min, way, spare);
        all
    }

    fn drop_small(&mut self, rows_min: usize, way: Way, spare: &mut Spare) {
        let mut kept = 0;
        let numbers: Vec<u32> = std::iter::once(0)
            .chain(self.groups.iter().map(|group| {
                kept += u32::from(group.rows >= rows_min);
                if group.rows >= rows_min { kept } else { 0 }
            }))
            .collect();
        for group in self.groups.extract_if(.., |group| group.rows < rows_min) {
            spare.give(way, group.places);
        }
        for number in &mut self.order {
            *number = numbers[*number as usize];
        }
    }

    /// How many values are kept whole.
    pub(crate) fn whole(&self) -> usize {
        self.order.len() - self.groups.iter().map(|group| group.rows).sum::<usize>()
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
