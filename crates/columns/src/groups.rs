//! Values grouped by their layout.

use std::collections::{HashMap, VecDeque};

use crate::cut::{Cut, Span, TOKENS_MAX, Way};
use crate::hash::hash;
use crate::values::Values;

/// Layouts of a column, at most; the values of further ones are kept whole.
const LAYOUTS_MAX: usize = 8_192;

/// A value longer than this is kept whole, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Lists that were used and can be used again: fresh memory is dear, and the next block is much like the last.
#[derive(Debug, Default)]
pub(crate) struct Spare([VecDeque<Vec<Span>>; 3]);

impl Spare {
    fn take(&mut self, way: Way) -> Vec<Span> {
        self.0[way as usize].pop_front().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, way: Way, mut list: Vec<Span>) {
        list.clear();
        self.0[way as usize].push_back(list);
    }
}

/// Values of the same layout.
pub(crate) struct Group {
    pub(crate) layout: Vec<u8>,
    /// Tokens of each of them.
    pub(crate) width: usize,
    /// Their tokens, row by row.
    pub(crate) tokens: Vec<Span>,
    pub(crate) rows: usize,
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
    pub(crate) fn of(values: Values<'_>, way: Way, rows_min: usize, spare: &mut Spare) -> Self {
        let mut all = Self { groups: Vec::new(), order: Vec::with_capacity(values.len()) };
        let mut known: HashMap<u64, u32, BuildSame> = HashMap::default();
        let mut cut = Cut::default();
        for span in values.spans() {
            let value = span.of(values.text());
            if value.len() > VALUE_BYTES_MAX {
                all.order.push(0);
                continue;
            }
            cut.cut(way, value, span.start);
            if cut.tokens.len() > TOKENS_MAX {
                all.order.push(0);
                continue;
            }
            let key = hash(&cut.layout);
            let at = match known.get(&key) {
                Some(at) => *at,
                None if all.groups.len() < LAYOUTS_MAX => {
                    let at = all.groups.len() as u32;
                    known.insert(key, at);
                    let (layout, width) = (cut.layout.clone(), cut.tokens.len());
                    all.groups.push(Group { layout, width, tokens: spare.take(way), rows: 0 });
                    at
                }
                None => {
                    all.order.push(0);
                    continue;
                }
            };
            let group = &mut all.groups[at as usize];
            // Two layouts may have the same hash, if somebody wants them to.
            if group.layout != cut.layout {
                all.order.push(0);
                continue;
            }
            group.tokens.extend_from_slice(&cut.tokens);
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
            spare.give(way, group.tokens);
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
pub(crate) fn layouts_of_sample(values: Values<'_>, way: Way, sample: usize) -> usize {
    let mut cut = Cut::default();
    let mut seen: HashMap<u64, (), BuildSame> = HashMap::default();
    let step = values.len().div_ceil(sample).max(1);
    for row in (0..values.len()).step_by(step) {
        let span = values.span(row);
        cut.cut(way, span.of(values.text()), span.start);
        seen.insert(hash(&cut.layout), ());
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
