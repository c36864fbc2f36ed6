//! Random samples, decided by the environment's seed.

use bucksaw_env::Entropy;

/// A uniform random sample of at most `count` elements, in random order.
pub(crate) fn sample<T>(entropy: &dyn Entropy, mut items: Vec<T>, count: usize) -> Vec<T> {
    let count = count.min(items.len());
    for at in 0..count {
        let left = (items.len() - at) as u64;
        let other = at + usize::try_from(entropy.next_u64() % left).unwrap_or(0);
        items.swap(at, other);
    }
    items.truncate(count);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_distinct_elements() {
        let entropy = bucksaw_env::sim::Entropy::seeded(5);
        let mut drawn = sample(&entropy, (0..10).collect(), 4);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 4);
        assert_eq!(sample(&entropy, (0..10).collect::<Vec<_>>(), 40).len(), 10);
    }
}
