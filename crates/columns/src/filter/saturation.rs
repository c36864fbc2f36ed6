//! When a filter is saturated: from a share of set bits on it excludes almost nothing.

/// The share of set bits, in sixteenths, from which on a filter is saturated.
const SATURATED_SIXTEENTHS: usize = 14;

/// Distinct grams per bit that saturate a filter, in hundredths. Grams are hashed, so `n` of them leave exp(-n/m) of its `m` bits
/// clear: two sixteenths at n/m = 2.08.
const GRAMS_PER_BIT_HUNDREDTHS: f64 = 208.0;

/// Whether a filter of `all` bits, `set` of them set, is saturated.
pub(super) fn is_saturated(set: usize, all: usize) -> bool {
    set * 16 >= SATURATED_SIXTEENTHS * all
}

/// The bits that are set after the first and the second half of a sample of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledBits {
    pub(super) half: usize,
    pub(super) whole: usize,
    /// The bits of the table, set and clear.
    pub(super) all: usize,
}

impl SampledBits {
    /// Whether a text that is `times` as long as the sample is expected to saturate a filter of `filter_bits` bits that is made from
    /// this table. A little error does no harm: a filter that is nearly saturated excludes little.
    ///
    /// Distinct grams grow with a power of the length, as distinct words do ("Heaps' law", Baeza-Yates and Ribeiro-Neto, *Modern
    /// Information Retrieval*, 1999, section 6.3.3), and the two halves tell which: random letters with its first power.
    pub(super) fn will_saturate(self, filter_bits: usize, times: f64) -> bool {
        let (half, whole) = (self.grams(self.half as f64), self.grams(self.whole as f64));
        if half <= 0.0 {
            return false;
        }
        let expected = whole * times.powf((whole / half).log2());
        // Of the table's bits a smaller filter needs this many, or the table is saturated itself.
        let needed_bits = filter_bits as f64 * GRAMS_PER_BIT_HUNDREDTHS / 100.0;
        let saturated_bits = self.all as f64 * SATURATED_SIXTEENTHS as f64 / 16.0;
        expected >= self.grams(needed_bits.min(saturated_bits))
    }

    /// The distinct grams that set this many bits of the table.
    fn grams(self, bits: f64) -> f64 {
        let all = self.all as f64;
        -all * (1.0 - bits / all).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = 1 << 21;

    #[test]
    fn expects_random_words_to_go_on_and_repeated_ones_to_end() {
        let bits = |half, whole| SampledBits { half, whole, all: ALL };
        // As many new grams in each part, so about 1.6 million in all. They set 1.1 million bits of the table.
        assert!(bits(50_000, 99_000).will_saturate(530_000, 16.0));
        assert!(!bits(50_000, 99_000).will_saturate(570_000, 16.0));
        // A third of the grams of the second half are new, so about 330,000 in all.
        assert!(bits(50_000, 66_000).will_saturate(60_000, 16.0));
        assert!(!bits(50_000, 66_000).will_saturate(160_000, 16.0));
        assert!(!bits(50_000, 50_000).will_saturate(200_000, 16.0));
        assert!(bits(50_000, 50_000).will_saturate(10_000, 16.0));
        assert!(!bits(0, 0).will_saturate(0, 16.0));
    }

    #[test]
    fn a_table_saturates_however_large_the_filter() {
        let random = SampledBits { half: ALL / 4, whole: ALL * 7 / 16, all: ALL };
        assert!(random.will_saturate(usize::MAX / 1024, 16.0));
        assert!(!random.will_saturate(usize::MAX / 1024, 1.0));
    }
}
