//! Limits the work of encoding a text, so that packing hardly ever falls below a rate: `docs/performance.md` has texts that are slower.
//!
//! The cost of columns is mainly proportional to the number of tokens at all depths: each is numbered, written, and
//! compared with the text. Each column and each byte of filter grams has a cost too. The work is counted while columns
//! are encoded, first of a sample of the lines. No clock is read, so the same text is always packed in the same way.

/// Tokens per [`UNIT_BYTES`] of the text, at most: of a sample, and of the whole text, where slightly more than estimated is no
/// reason to discard the columns. A token takes about 20 ns in total, up to 40 in most hostile texts, and 60 MB/s leave 16 ns per byte.
const SAMPLE_TOKENS_PER_UNIT: usize = 11;
const TEXT_TOKENS_PER_UNIT: usize = 13;
const UNIT_BYTES: usize = 32;

/// The text length whose budget even a shorter text has, in bytes.
const BUDGET_BYTES_MIN: usize = 1 << 20;

/// The cost of a column beyond its tokens, in tokens: lists, hash tables, size estimates.
const COLUMN_TOKENS: usize = 100;

/// The cost of a value beyond its tokens, in tokens.
const VALUE_TOKENS: usize = 1;

/// Bytes whose grams cost as much as one token.
const GRAM_BYTES_PER_TOKEN: usize = 4;

/// The work that is left for a text.
#[derive(Debug, Default)]
pub(crate) struct WorkBudget {
    tokens_left: usize,
    /// The encoded bytes, and the bytes of text that they represent.
    sample_bytes: usize,
    text_bytes: usize,
    /// Whether each layout gets a table.
    has_small_tables: bool,
}

impl WorkBudget {
    /// The budget of a text of `bytes` bytes.
    pub(crate) fn for_text(bytes: usize) -> Self {
        Self {
            tokens_left: bytes.max(BUDGET_BYTES_MIN) / UNIT_BYTES * TEXT_TOKENS_PER_UNIT,
            sample_bytes: bytes,
            text_bytes: bytes,
            has_small_tables: false,
        }
    }

    /// The budget of a sample of `part` bytes of a text of `bytes`. The text has about as many columns, with more rows. A layout
    /// with few rows in a small sample may have many in the text.
    pub(crate) fn for_small_sample(part: usize, bytes: usize) -> Self {
        Self { has_small_tables: true, ..Self::for_large_sample(part, bytes) }
    }

    /// As [`Self::for_small_sample`], for a sample in which the layouts of most lines have enough rows.
    pub(crate) fn for_large_sample(part: usize, bytes: usize) -> Self {
        let work = Self { tokens_left: 0, sample_bytes: part, text_bytes: bytes, has_small_tables: false };
        Self {
            tokens_left: work.scale_to_sample(bytes.max(BUDGET_BYTES_MIN)) / UNIT_BYTES * SAMPLE_TOKENS_PER_UNIT,
            ..work
        }
    }

    /// No limit.
    pub(crate) fn unlimited() -> Self {
        Self { tokens_left: usize::MAX, sample_bytes: 0, text_bytes: 1, has_small_tables: false }
    }

    /// The share of the sample in a cost of the whole text.
    fn scale_to_sample(&self, all: usize) -> usize {
        (all as u64 * self.sample_bytes as u64 / self.text_bytes.max(1) as u64) as usize
    }

    /// Charges a value of `tokens` tokens.
    #[inline]
    pub(crate) fn charge_value(&mut self, tokens: usize) {
        self.charge_tokens(VALUE_TOKENS + tokens);
    }

    #[inline]
    fn charge_tokens(&mut self, count: usize) {
        self.tokens_left = self.tokens_left.saturating_sub(count);
    }

    /// Charges columns.
    pub(crate) fn charge_columns(&mut self, count: usize) {
        self.charge_tokens(self.scale_to_sample(count * COLUMN_TOKENS));
    }

    /// The minimum number of rows of a layout for it to get a table. `rows_min` is the minimum in a whole text.
    pub(crate) fn table_rows_min(&self, rows_min: usize) -> usize {
        if self.has_small_tables { 1 } else { rows_min }
    }

    /// Charges bytes whose grams are added to the filter.
    pub(crate) fn charge_grams(&mut self, bytes: usize) {
        self.charge_tokens(bytes / GRAM_BYTES_PER_TOKEN);
    }

    /// Whether no work is left.
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
        let part = || WorkBudget::for_small_sample(bytes / 64, bytes);
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
