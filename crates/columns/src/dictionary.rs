//! Numbering the distinct values of a column in the order in which they come first.

use crate::cut::Span;
use crate::hash::{Key, same};
use crate::values::{Picked, Values};

/// A column as numbers of its distinct values.
pub(crate) struct Dictionary {
    /// For each row the number of its value.
    pub(crate) ids: Vec<u32>,
    /// The distinct values.
    pub(crate) distinct: Picked,
}

/// A table that is used for one column after another.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    slots: Vec<Slot>,
    used: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The key, without what would be filled up.
    bits: u64,
    len: u32,
    /// Number + 1 of the value; 0 is free.
    number: u32,
}

impl Slot {
    fn key(self) -> Key {
        Key { bits: self.bits, len: self.len }
    }
}

/// Slots at first, as a power of two.
const SLOTS_LOG: u32 = 12;

/// How many rows are looked at before it is asked for the first time whether values recur.
const FIRST_LOOK: usize = 256;

impl Numbering {
    /// Numbers the values; `None` as soon as it shows that they hardly recur.
    pub(crate) fn number(&mut self, values: Values<'_>) -> Option<Dictionary> {
        let rows = values.len();
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); 1 << SLOTS_LOG];
        }
        let mut distinct = Picked::default();
        let mut ids = Vec::with_capacity(rows);
        let mut look = FIRST_LOOK;
        let mut last = (Key::default(), 0);
        let mut given_up = false;
        for (row, span) in values.spans().enumerate() {
            if row == look {
                look *= 2;
                if distinct.len() * 4 > row * 3 {
                    given_up = true;
                    break;
                }
            }
            let key = Key::of(values.text(), span);
            if key != last.0 || row == 0 || !(key.is_whole() || is(&distinct, last.1, values, span)) {
                last = (key, self.find(key, span, values, &mut distinct));
            }
            ids.push(last.1);
        }
        for at in self.used.drain(..) {
            self.slots[at as usize].number = 0;
        }
        (!given_up && distinct.len() * 2 <= rows).then_some(Dictionary { ids, distinct })
    }

    /// The number of a value; a new one when it was not there before.
    #[inline]
    fn find(&mut self, key: Key, span: Span, values: Values<'_>, distinct: &mut Picked) -> u32 {
        if distinct.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = key.place() & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.number == 0 {
                distinct.push(span);
                *slot = Slot { bits: key.bits, len: key.len, number: distinct.len() as u32 };
                self.used.push(at as u32);
                return distinct.len() as u32 - 1;
            }
            if slot.key() == key && (key.is_whole() || is(distinct, slot.number - 1, values, span)) {
                return slot.number - 1;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        let full = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        for place in &mut self.used {
            let slot = full[*place as usize];
            let mut at = slot.key().place() & (size - 1);
            while self.slots[at].number != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
            *place = at as u32;
        }
    }
}

/// Whether the value of this number is what lies at `span`.
fn is(distinct: &Picked, number: u32, values: Values<'_>, span: Span) -> bool {
    same(distinct.get(number as usize, values.text()), span.of(values.text()))
}
