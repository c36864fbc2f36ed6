//! Numbering the distinct values of a column in the order in which they come first.

use crate::cut::Span;
use crate::hash::{Key, same};
use crate::values::{Listed, reserve};

/// The values of a column.
pub(crate) enum Column {
    /// They recur.
    Dictionary(Dictionary),
    /// They hardly recur.
    Varied(Listed),
}

/// A column as numbers of its distinct values.
pub(crate) struct Dictionary {
    /// For each row the number of its value.
    pub(crate) ids: Vec<u32>,
    /// The distinct values.
    pub(crate) distinct: Listed,
}

/// A column that is being numbered, some rows at a time. Of the text it keeps a copy of what it needs, one value after the
/// other: what is compared with it, and what is made of it later, stays in near caches, and the text itself is looked at
/// once, right after it was cut.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    slots: Vec<Slot>,
    ids: Vec<u32>,
    /// The distinct values; all, once it shows that they hardly recur.
    values: Listed,
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

/// Slots at first: most columns have few values, whose slots should lie together.
const SLOTS: usize = 16;

/// How many rows are looked at before it is asked for the first time whether values recur.
const FIRST_LOOK: usize = 256;

impl Numbering {
    pub(crate) fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOTS], look: FIRST_LOOK, ..Self::default() }
    }

    /// Takes the next rows: pieces of a text. For about as many as are `expected` room is made, so that lists are seldom
    /// moved: fresh memory is dear.
    #[inline]
    pub(crate) fn extend(&mut self, text: &[u8], rows: impl ExactSizeIterator<Item = Span>, expected: usize) {
        if !self.given_up && self.ids.len() >= self.look {
            self.look *= 2;
            if self.values.len() * 4 > self.ids.len() * 3 {
                self.give_up();
            }
        }
        if self.given_up {
            self.values.reserve(rows.len(), expected);
            rows.for_each(|span| self.values.push(text, span));
            return;
        }
        reserve(&mut self.ids, rows.len(), expected);
        for span in rows {
            let key = Key::of(text, span);
            let (last, number) = self.last;
            let is_last = key == last && !self.ids.is_empty() && (key.is_whole() || self.is(number, text, span));
            if !is_last {
                self.last = (key, self.find(key, text, span));
            }
            self.ids.push(self.last.1);
        }
    }

    /// The whole column.
    pub(crate) fn finish(mut self) -> Column {
        if !self.given_up && self.values.len() * 2 > self.ids.len() {
            self.give_up();
        }
        if self.given_up {
            return Column::Varied(self.values);
        }
        Column::Dictionary(Dictionary { ids: self.ids, distinct: self.values })
    }

    /// Lists all values from now on.
    fn give_up(&mut self) {
        let distinct = std::mem::take(&mut self.values);
        for id in std::mem::take(&mut self.ids) {
            self.values.push(distinct.bytes(), distinct.values().span(id as usize));
        }
        self.slots = Vec::new();
        self.given_up = true;
    }

    /// The number of a value; a new one when it was not there before.
    #[inline]
    fn find(&mut self, key: Key, text: &[u8], span: Span) -> u32 {
        if self.values.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = key.place() & mask;
        loop {
            let slot = self.slots[at];
            if slot.number == 0 {
                self.values.push(text, span);
                let number = self.values.len() as u32;
                self.slots[at] = Slot { bits: key.bits, len: key.len, number };
                return number - 1;
            }
            if slot.key() == key && (key.is_whole() || self.is(slot.number - 1, text, span)) {
                return slot.number - 1;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        let full = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        for slot in full.into_iter().filter(|slot| slot.number > 0) {
            let mut at = slot.key().place() & (size - 1);
            while self.slots[at].number != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }

    /// Whether the value of this number is what lies at `span`.
    fn is(&self, number: u32, text: &[u8], span: Span) -> bool {
        same(self.values.values().get(number as usize), span.of(text))
    }
}
