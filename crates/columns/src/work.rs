//! How much work a text may be, so that packing it always keeps its pace.
//!
//! What columns cost is, first of all, in proportion to the values and tokens that are cut, at whatever depth: each is cut,
//! numbered, written, and compared with the text again. Each column takes its time too, and so does each byte that the
//! filter has to learn. All this is counted while columns are made, of some lines before they are made of all; no clock
//! is asked, and the same text is always packed in the same way.

/// Tokens for each [`BYTES`] of the text, at most: of some of it, and of all, where a little more than was foreseen is no
/// reason to throw away what was made. A token takes 20 to 40 ns in all, and 60 MB/s leave 16 for a byte.
const TOKENS_OF_PART: usize = 11;
const TOKENS_OF_ALL: usize = 13;
const BYTES: usize = 32;

/// As much as for so many bytes may be done for any text: a short one takes no time to speak of.
const LEAST: usize = 1 << 20;

/// What a column takes beyond its tokens, in tokens: lists, tables of values, guesses at how it is best written.
const COLUMN: usize = 200;

/// What a value takes beyond its tokens, in tokens.
const VALUE: usize = 1;

/// Bytes of which the filter takes as long to learn as a token does.
const GRAM_BYTES: usize = 4;

/// What may still be done for a text.
#[derive(Debug, Default)]
pub(crate) struct Work {
    left: usize,
    /// The bytes that are worked on, and those of the text that they stand for.
    part: usize,
    bytes: usize,
}

impl Work {
    /// For a text of so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { left: bytes.max(LEAST) / BYTES * TOKENS_OF_ALL, part: bytes, bytes }
    }

    /// For some bytes that stand for a text of so many: it has about as many columns, which have more rows.
    pub(crate) fn of_part(part: usize, bytes: usize) -> Self {
        let work = Self { left: 0, part, bytes };
        Self { left: work.share(bytes.max(LEAST)) / BYTES * TOKENS_OF_PART, ..work }
    }

    /// As much as there is.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self { left: usize::MAX, part: 0, bytes: 1 }
    }

    /// What of the whole text falls to the part.
    fn share(&self, all: usize) -> usize {
        (all as u64 * self.part as u64 / self.bytes.max(1) as u64) as usize
    }

    /// Takes what it costs to cut a value into so many tokens.
    #[inline]
    pub(crate) fn value(&mut self, tokens: usize) {
        self.tokens(VALUE + tokens);
    }

    /// Takes what so many tokens cost; nothing is left when they are too many.
    #[inline]
    fn tokens(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
    }

    /// Takes what so many columns cost.
    pub(crate) fn columns(&mut self, count: usize) {
        self.tokens(self.share(count * COLUMN));
    }

    /// How many rows of a layout tell that it will have a table in the whole text, where a table has so many at least.
    pub(crate) fn rows_of_table(&self, rows_min: usize) -> usize {
        if self.part < self.bytes { 1 } else { rows_min }
    }

    /// Takes what it costs that the filter learns so many bytes.
    pub(crate) fn grams(&mut self, bytes: usize) {
        self.tokens(bytes / GRAM_BYTES);
    }

    /// Whether it was too much.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_used_up_by_all_that_is_done() {
        let used_up = |mut work: Work, mut take: Box<dyn FnMut(&mut Work)>| {
            (1..).find(|_| {
                take(&mut work);
                work.is_used_up()
            })
        };
        let bytes = 16 << 20;
        let all = bytes / BYTES * TOKENS_OF_ALL;
        assert_eq!(used_up(Work::of(bytes), Box::new(move |work| work.tokens(all / 8))), Some(8));
        assert_eq!(used_up(Work::of(bytes), Box::new(move |work| work.grams(all / 8 * GRAM_BYTES))), Some(8));
        assert_eq!(used_up(Work::of(bytes), Box::new(move |work| work.columns(all.div_ceil(4 * COLUMN)))), Some(4));
        let part = || Work::of_part(bytes / 64, bytes);
        let most = bytes / 64 / BYTES * TOKENS_OF_PART;
        assert_eq!(used_up(part(), Box::new(move |work| work.tokens(most / 8))), Some(8));
        let columns = (most * 64).div_ceil(4 * COLUMN);
        assert_eq!(
            used_up(part(), Box::new(move |work| work.columns(columns))),
            Some(4),
            "a column counts by its share"
        );
        assert_eq!((part().rows_of_table(16), Work::of(bytes).rows_of_table(16)), (1, 16));
        assert_eq!(used_up(Work::of(100), Box::new(|work| work.tokens(LEAST / BYTES))), Some(TOKENS_OF_ALL as i32));
    }
}
