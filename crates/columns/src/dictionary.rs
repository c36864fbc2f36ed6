//! Numbering the distinct values of a column in the order in which they come first.

use crate::cut::Span;
use crate::hash::{hash, same};
use crate::values::Values;

/// A column as numbers of its distinct values.
pub(crate) struct Dictionary {
    /// For each row the number of its value.
    pub(crate) ids: Vec<u32>,
    /// The distinct values.
    pub(crate) distinct: Vec<Span>,
}

/// A table that is used for one column after another.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// Number + 1 of a value and its hash; 0 is free.
    slots: Vec<(u32, u32)>,
    used: Vec<u32>,
}

/// How many rows are looked at before it is asked for the first time whether values recur.
const FIRST_LOOK: usize = 256;

impl Numbering {
    /// Numbers the values; `None` as soon as it shows that they hardly recur.
    pub(crate) fn number(&mut self, values: Values<'_>) -> Option<Dictionary> {
        let rows = values.len();
        let text = values.text();
        if self.slots.is_empty() {
            self.slots = vec![(0, 0); 1 << 12];
        }
        let mut distinct: Vec<Span> = Vec::new();
        let mut ids = Vec::with_capacity(rows);
        let mut look = FIRST_LOOK;
        let mut last = (Span { start: 0, len: u32::MAX }, 0);
        let mut given_up = false;
        for (row, span) in values.spans().enumerate() {
            if row == look {
                look *= 2;
                if distinct.len() * 4 > row * 3 {
                    given_up = true;
                    break;
                }
            }
            let value = span.of(text);
            if span.len == last.0.len && same(value, last.0.of(text)) {
                ids.push(last.1);
                continue;
            }
            if distinct.len() * 2 >= self.slots.len() {
                self.grow();
            }
            let hash = hash(value) as u32;
            let mask = self.slots.len() - 1;
            let mut at = hash as usize & mask;
            let id = loop {
                let (entry, entry_hash) = self.slots[at];
                if entry == 0 {
                    distinct.push(span);
                    self.slots[at] = (distinct.len() as u32, hash);
                    self.used.push(at as u32);
                    break distinct.len() as u32 - 1;
                }
                if entry_hash == hash && same(distinct[entry as usize - 1].of(text), value) {
                    break entry - 1;
                }
                at = (at + 1) & mask;
            };
            last = (span, id);
            ids.push(id);
        }
        for at in self.used.drain(..) {
            self.slots[at as usize] = (0, 0);
        }
        (!given_up && distinct.len() * 2 <= rows).then_some(Dictionary { ids, distinct })
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        let full = std::mem::replace(&mut self.slots, vec![(0, 0); size]);
        for place in &mut self.used {
            let (entry, hash) = full[*place as usize];
            let mut at = hash as usize & (size - 1);
            while self.slots[at].0 != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = (entry, hash);
            *place = at as u32;
        }
    }
}
