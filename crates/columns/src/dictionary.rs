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

/// Tables that are used for the columns of one table of lines after another.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    columns: Vec<Column>,
}

/// A column that is being numbered.
#[derive(Debug, Default)]
struct Column {
    slots: Vec<Slot>,
    used: Vec<u32>,
    ids: Vec<u32>,
    distinct: Picked,
    /// The value before, and its number.
    last: (Key, u32),
    /// At which row it is asked again whether values recur.
    look: usize,
    given_up: bool,
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
const SLOTS_LOG: u32 = 10;

/// Slots that are kept for the next table, of all columns together.
const SLOTS_KEPT: usize = 1 << 18;

/// How many rows are looked at before it is asked for the first time whether values recur.
const FIRST_LOOK: usize = 256;

/// Rows of which all columns are numbered before the next ones: so many that their text stays in the nearer caches.
const ROWS_AT_ONCE: usize = 256;

impl Numbering {
    /// Numbers the values of columns with the same number of rows; `None` for those of which it shows that they hardly
    /// recur.
    pub(crate) fn number(&mut self, columns: &[Values<'_>]) -> Vec<Option<Dictionary>> {
        let rows = columns.first().map_or(0, Values::len);
        if self.columns.len() < columns.len() {
            self.columns.resize_with(columns.len(), Column::default);
        }
        self.columns.iter_mut().take(columns.len()).for_each(|column| column.start(rows));
        for first in (0..rows).step_by(ROWS_AT_ONCE) {
            for (column, values) in self.columns.iter_mut().zip(columns) {
                column.go_on(*values, first);
            }
        }
        let numbered = self.columns.iter_mut().take(columns.len()).map(|column| column.end(rows)).collect();
        let mut kept = 0;
        for column in &mut self.columns {
            kept += column.slots.len();
            if kept > SLOTS_KEPT {
                column.slots = Vec::new();
            }
        }
        numbered
    }
}

impl Column {
    fn start(&mut self, rows: usize) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); 1 << SLOTS_LOG];
        }
        self.ids = Vec::with_capacity(rows);
        self.look = FIRST_LOOK;
        self.given_up = false;
    }

    /// Numbers the next rows, of which the first is `first`.
    fn go_on(&mut self, values: Values<'_>, first: usize) {
        if first == self.look && !self.given_up {
            self.look *= 2;
            self.given_up = self.distinct.len() * 4 > first * 3;
        }
        if self.given_up {
            return;
        }
        let some = values.part(first, ROWS_AT_ONCE);
        for span in some.spans() {
            let key = Key::of(values.text(), span);
            let (last, number) = self.last;
            let is_last =
                key == last && !self.ids.is_empty() && (key.is_whole() || is(&self.distinct, number, values, span));
            if !is_last {
                self.last = (key, self.find(key, span, values));
            }
            self.ids.push(self.last.1);
        }
    }

    fn end(&mut self, rows: usize) -> Option<Dictionary> {
        for at in self.used.drain(..) {
            self.slots[at as usize].number = 0;
        }
        let (ids, distinct) = (std::mem::take(&mut self.ids), std::mem::take(&mut self.distinct));
        (!self.given_up && distinct.len() * 2 <= rows).then_some(Dictionary { ids, distinct })
    }

    /// The number of a value; a new one when it was not there before.
    #[inline]
    fn find(&mut self, key: Key, span: Span, values: Values<'_>) -> u32 {
        if self.distinct.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = key.place() & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.number == 0 {
                self.distinct.push(span);
                *slot = Slot { bits: key.bits, len: key.len, number: self.distinct.len() as u32 };
                self.used.push(at as u32);
                return self.distinct.len() as u32 - 1;
            }
            if slot.key() == key && (key.is_whole() || is(&self.distinct, slot.number - 1, values, span)) {
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
