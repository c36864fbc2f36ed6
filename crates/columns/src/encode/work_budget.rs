//! How much work a text may be, so that packing it always keeps its pace.
//!
//! What columns cost is, first of all, in proportion to the values and tokens that are cut, at whatever depth: each is cut,
//! numbered, written, and compared with the text again. Each column takes its time too, and so does each byte that the
//! filter has to learn. All this is counted while columns are made, of some lines before they are made of all; no clock
//! is asked, and the same text is always packed in the same way.

/// Tokens for each [`BYTES`] of the text, at most: of some of it, and of all, where a little more than was foreseen is no
/// reason to throw away what was made. A token takes 20 to 40 ns in all, and 60 MB/s leave 16 for a byte.
const SAMPLE_TOKENS_PER_UNIT: usize = 11;
const TEXT_TOKENS_PER_UNIT: usize = 13;
const UNIT_BYTES: usize = 32;

/// As much as for so many bytes may be done for any text: a short one takes no time to speak of.
const BUDGET_BYTES_MIN: usize = 1 << 20;

/// What a column takes beyond its tokens, in tokens: lists, tables of values, guesses at how it is best written.
const COLUMN_TOKENS: usize = 200;

/// What a value takes beyond its tokens, in tokens.
const VALUE_TOKENS: usize = 1;

/// Bytes of which the filter takes as long to learn as a token does.
const GRAM_BYTES_PER_TOKEN: usize = 4;

/// What may still be done for a text.
#[derive(Debug, Default)]
pub(crate) struct WorkBudget {
    tokens_left: usize,
    /// The bytes that are worked on, and those of the text that they stand for.
    sample_bytes: usize,
    text_bytes: usize,
}

impl WorkBudget {
    /// For a text of so many bytes.
    pub(crate) fn for_text(bytes: usize) -> Self {
        Self {
            tokens_left: bytes.max(BUDGET_BYTES_MIN) / UNIT_BYTES * TEXT_TOKENS_PER_UNIT,
            sample_bytes: bytes,
            text_bytes: bytes,
        }
    }

    /// For some bytes that stand for a text of so many: it has about as many columns, which have more rows.
    pub(crate) fn for_sample(part: usize, bytes: usize) -> Self {
        let work = Self { tokens_left: 0, sample_bytes: part, text_bytes: bytes };
        Self {
            tokens_left: work.scale_to_sample(bytes.max(BUDGET_BYTES_MIN)) / UNIT_BYTES * SAMPLE_TOKENS_PER_UNIT,
            ..work
        }
    }

    /// As much as there is.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self { tokens_left: usize::MAX, sample_bytes: 0, text_bytes: 1 }
    }

    /// What of the whole text falls to the part.
    fn scale_to_sample(&self, all: usize) -> usize {
        (all as u64 * self.sample_bytes as u64 / self.text_bytes.max(1) as u64) as usize
    }

    /// Takes what it costs to cut a value into so many tokens.
    #[inline]
    pub(crate) fn charge_value(&mut self, tokens: usize) {
        self.charge_tokens(VALUE_TOKENS + tokens);
    }

    /// Takes what so many tokens cost; nothing is left when they are too many.
    #[inline]
    fn charge_tokens(&mut self, count: usize) {
        self.tokens_left = self.tokens_left.saturating_sub(count);
    }

    /// Takes what so many columns cost.
    pub(crate) fn charge_columns(&mut self, count: usize) {
        self.charge_tokens(self.scale_to_sample(count * COLUMN_TOKENS));
    }

    /// How many rows of a layout tell that it will have a table in the whole text, where a table has so many at least.
    pub(crate) fn table_rows_min(&self, rows_min: usize) -> usize {
        if self.sample_bytes < self.text_bytes { 1 } else { rows_min }
    }

    /// Takes what it costs that the filter learns so many bytes.
    pub(crate) fn charge_grams(&mut self, bytes: usize) {
        self.charge_tokens(bytes / GRAM_BYTES_PER_TOKEN);
    }

    /// Whether it was too much.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.tokens_left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_charge_reduces_the_budget() {
        let used_up = |mut work: WorkBudget, mut take: Box<dyn FnMut(&mut WorkBudget)>| {
            (1..).find(|_| {
                take(&mut work);
                work.is_exhausted()
            })
        };
        let bytes = 16 << 20;
        let all = bytes / UNIT_BYTES * TEXT_TOKENS_PER_UNIT;
        assert_eq!(used_up(WorkBudget::for_text(bytes), Box::new(move |work| work.charge_tokens(all / 8))), Some(8));
        assert_eq!(
            used_up(
                WorkBudget::for_text(bytes),
                Box::new(move |work| work.charge_grams(all / 8 * GRAM_BYTES_PER_TOKEN))
            ),
            Some(8)
        );
        assert_eq!(
            used_up(
                WorkBudget::for_text(bytes),
                Box::new(move |work| work.charge_columns(all.div_ceil(4 * COLUMN_TOKENS)))
            ),
            Some(4)
        );
        let part = || WorkBudget::for_sample(bytes / 64, bytes);
        let most = bytes / 64 / UNIT_BYTES * SAMPLE_TOKENS_PER_UNIT;
        assert_eq!(used_up(part(), Box::new(move |work| work.charge_tokens(most / 8))), Some(8));
        let columns = (most * 64).div_ceil(4 * COLUMN_TOKENS);
        assert_eq!(
            used_up(part(), Box::new(move |work| work.charge_columns(columns))),
            Some(4),
            "a column counts by its share"
        );
        assert_eq!((part().table_rows_min(16), WorkBudget::for_text(bytes).table_rows_min(16)), (1, 16));
        assert_eq!(
            used_up(WorkBudget::for_text(100), Box::new(|work| work.charge_tokens(BUDGET_BYTES_MIN / UNIT_BYTES))),
            Some(TEXT_TOKENS_PER_UNIT as i32)
        );
    }
}
