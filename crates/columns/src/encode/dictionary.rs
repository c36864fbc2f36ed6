//! Builds the dictionary of a column: codes in the order of first occurrence.

use crate::encode::hash::ValueKey;
use crate::encode::text_span::TextSpan;
use crate::encode::values::{ValueBuffer, reserve};

/// The values of a column.
pub(crate) enum ColumnValues {
    /// Recurring values.
    Dictionary(Dictionary),
    /// Values that hardly recur.
    HighCardinality(ValueBuffer),
}

/// A column as codes of its distinct values.
pub(crate) struct Dictionary {
    /// The code of each row.
    pub(crate) codes: Vec<u32>,
    /// The distinct values.
    pub(crate) distinct: ValueBuffer,
}

/// Builds a dictionary from batches of rows. It copies the distinct values, so that later steps stay in near caches and the text
/// is read once, right after it was tokenised.
///
/// Values of one key count as equal. Comparing them would load a value that is in no near cache, for each row. Two values with
/// one key, which take input crafted for it, make the columns differ from the text; then the block is packed by zstd, because
/// it is compared as a whole.
#[derive(Debug, Default)]
pub(crate) struct DictionaryBuilder {
    slots: Vec<HashSlot>,
    codes: Vec<u32>,
    /// The distinct values; all values of a high-cardinality column.
    values: ValueBuffer,
    /// The previous value and its code.
    last_value: (ValueKey, u32),
    /// The row at which the cardinality is checked next.
    next_check_row: usize,
    is_high_cardinality: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct HashSlot {
    /// The bits of the key, stored without its padding.
    bits: u64,
    len: u32,
    /// The code of the value plus 1; 0 is a free slot.
    code_plus_one: u32,
}

impl HashSlot {
    fn key(self) -> ValueKey {
        ValueKey { bits: self.bits, len: self.len }
    }
}

/// A value that is looked up.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    key: ValueKey,
    span: TextSpan,
    /// The slot at which the search begins.
    slot: HashSlot,
}

/// Values that are looked up together. Most slots of a large dictionary are in no near cache.
const PROBES: usize = 32;

/// The initial number of slots: most columns have few values, whose slots should be adjacent.
const SLOTS_INITIAL: usize = 16;

/// Rows before the first check of the cardinality.
const FIRST_CHECK_ROW: usize = 256;

impl DictionaryBuilder {
    pub(crate) fn new() -> Self {
        Self { slots: vec![HashSlot::default(); SLOTS_INITIAL], next_check_row: FIRST_CHECK_ROW, ..Self::default() }
    }

    /// Adds rows, given as spans of a text. Reserves memory for about `expected` rows, because moving lists to new memory is
    /// expensive.
    #[inline]
    pub(crate) fn extend(&mut self, text: &[u8], rows: impl ExactSizeIterator<Item = TextSpan>, expected: usize) {
        if !self.is_high_cardinality && self.codes.len() >= self.next_check_row {
            self.next_check_row *= 2;
            if self.values.len() * 4 > self.codes.len() * 3 {
                self.abandon_dictionary();
            }
        }
        if self.is_high_cardinality {
            self.values.reserve(rows.len(), expected);
            rows.for_each(|span| self.values.push(text, span));
            return;
        }
        reserve(&mut self.codes, rows.len(), expected);
        let mut probes = [Probe::default(); PROBES];
        let mut rows = rows.fuse();
        loop {
            let mut count = 0;
            for (probe, span) in probes.iter_mut().zip(&mut rows) {
                *probe = Probe { key: ValueKey::of(text, span), span, slot: HashSlot::default() };
                count += 1;
            }
            let some = &mut probes[..count];
            self.load_slots(some);
            for probe in &*some {
                self.push(text, probe);
            }
            if count < PROBES {
                return;
            }
        }
    }

    /// Loads the first slot of each key that differs from that of the row before. Nothing depends on the loaded slots, so the core
    /// waits for several at once.
    #[inline]
    fn load_slots(&self, probes: &mut [Probe]) {
        let slots = self.slots.as_slice();
        let mask = slots.len() - 1;
        let (mut last, _) = self.last_value;
        for probe in probes {
            if probe.key != last {
                last = probe.key;
                probe.slot = slots[last.slot_hash() & mask];
            }
        }
    }

    #[inline]
    fn push(&mut self, text: &[u8], probe: &Probe) {
        let (last, _) = self.last_value;
        if probe.key != last || self.codes.is_empty() {
            // A slot is never changed once it has a code, but a free one may have been taken since it was loaded.
            let code = if probe.slot.code_plus_one > 0 && probe.slot.key() == probe.key {
                probe.slot.code_plus_one - 1
            } else {
                self.find_or_insert(probe.key, text, probe.span)
            };
            self.last_value = (probe.key, code);
        }
        self.codes.push(self.last_value.1);
    }

    /// Adds the last value once more; `false`, without effect, if the column has no dictionary.
    #[inline]
    pub(crate) fn repeat_last(&mut self, expected: usize) -> bool {
        if self.is_high_cardinality || self.codes.is_empty() {
            return false;
        }
        reserve(&mut self.codes, 1, expected);
        self.codes.push(self.last_value.1);
        true
    }

    /// The finished column.
    pub(crate) fn finish(mut self) -> ColumnValues {
        if !self.is_high_cardinality && self.values.len() * 2 > self.codes.len() {
            self.abandon_dictionary();
        }
        if self.is_high_cardinality {
            return ColumnValues::HighCardinality(self.values);
        }
        ColumnValues::Dictionary(Dictionary { codes: self.codes, distinct: self.values })
    }

    /// Turns the dictionary into a list of all values.
    fn abandon_dictionary(&mut self) {
        let distinct = std::mem::take(&mut self.values);
        for id in std::mem::take(&mut self.codes) {
            self.values.push(distinct.bytes(), distinct.values().span(id as usize));
        }
        self.slots = Vec::new();
        self.is_high_cardinality = true;
    }

    /// The code of a value, a new one if needed.
    #[inline(never)]
    fn find_or_insert(&mut self, key: ValueKey, text: &[u8], span: TextSpan) -> u32 {
        if self.values.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = key.slot_hash() & mask;
        loop {
            let slot = self.slots[at];
            if slot.code_plus_one == 0 {
                self.values.push(text, span);
                let number = self.values.len() as u32;
                self.slots[at] = HashSlot { bits: key.bits, len: key.len, code_plus_one: number };
                return number - 1;
            }
            if slot.key() == key {
                return slot.code_plus_one - 1;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 4;
        let full = std::mem::replace(&mut self.slots, vec![HashSlot::default(); size]);
        for slot in full.into_iter().filter(|slot| slot.code_plus_one > 0) {
            let mut at = slot.key().slot_hash() & (size - 1);
            while self.slots[at].code_plus_one != 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values are new, repeated at once, repeated within the values that are looked up together, and repeated later.
    #[test]
    fn equal_values_have_one_code() {
        let numbers: Vec<usize> =
            (0..3_000).map(|row| if row % 3 == 0 { row / 60 } else { row % 7 + row / 500 }).collect();
        let texts: Vec<String> = numbers.iter().map(|number| format!("{number:x}").repeat(number % 5 + 1)).collect();
        let text = texts.concat();
        let mut builder = DictionaryBuilder::new();
        let mut start = 0;
        let spans: Vec<TextSpan> = texts
            .iter()
            .map(|value| {
                let span = TextSpan { start, len: value.len() as u32 };
                start += span.len;
                span
            })
            .collect();
        // Neither a multiple of the values that are looked up together nor fewer.
        spans.chunks(PROBES * 2 + 5).for_each(|some| {
            builder.extend(text.as_bytes(), some.iter().copied(), spans.len());
        });
        let ColumnValues::Dictionary(dictionary) = builder.finish() else { panic!("most values recur") };
        let distinct: Vec<&[u8]> = dictionary.distinct.values().iter().collect();
        let values: Vec<&[u8]> = dictionary.codes.iter().map(|code| distinct[*code as usize]).collect();
        assert_eq!(values, texts.iter().map(String::as_bytes).collect::<Vec<_>>());
        let all: std::collections::HashSet<&[u8]> = distinct.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
    }
}
